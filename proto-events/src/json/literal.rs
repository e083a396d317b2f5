//! The macro [`json!`](crate::json!), which builds a [`JsonValue`](crate::json::JsonValue) from JSON with
//! expressions in it.

/// Builds a [`JsonValue`](crate::json::JsonValue) from JSON in which values may be expressions. Members keep
/// their order. A key is a literal, a name, or an expression in parentheses.
///
/// ```
/// let count = 2;
/// let value = proto_events::json!({"items": [1, null, "x"], "count": count + 1});
/// assert_eq!(value.to_string(), r#"{"items":[1,null,"x"],"count":3}"#);
/// ```
#[macro_export]
macro_rules! json {
    (null) => { $crate::json::JsonValue::Null };
    ([ $($items:tt)* ]) => { $crate::json::JsonValue::Array($crate::json!(@items [] $($items)*)) };
    ({}) => { $crate::json::JsonValue::Object($crate::json::JsonMap::new()) };
    ({ $($members:tt)+ }) => {{
        let mut members = $crate::json::JsonMap::new();
        $crate::json!(@members members $($members)+);
        $crate::json::JsonValue::Object(members)
    }};

    (@items [$($done:expr,)*]) => { ::std::vec![$($done,)*] };
    (@items [$($done:expr,)*] null $(, $($rest:tt)*)?) => {
        $crate::json!(@items [$($done,)* $crate::json!(null),] $($($rest)*)?)
    };
    (@items [$($done:expr,)*] [$($inner:tt)*] $(, $($rest:tt)*)?) => {
        $crate::json!(@items [$($done,)* $crate::json!([$($inner)*]),] $($($rest)*)?)
    };
    (@items [$($done:expr,)*] {$($inner:tt)*} $(, $($rest:tt)*)?) => {
        $crate::json!(@items [$($done,)* $crate::json!({$($inner)*}),] $($($rest)*)?)
    };
    (@items [$($done:expr,)*] $item:expr $(, $($rest:tt)*)?) => {
        $crate::json!(@items [$($done,)* $crate::json!($item),] $($($rest)*)?)
    };

    (@members $to:ident) => {};
    (@members $to:ident $key:tt : null $(, $($rest:tt)*)?) => {
        $to.insert($key, $crate::json!(null));
        $crate::json!(@members $to $($($rest)*)?);
    };
    (@members $to:ident $key:tt : [$($inner:tt)*] $(, $($rest:tt)*)?) => {
        $to.insert($key, $crate::json!([$($inner)*]));
        $crate::json!(@members $to $($($rest)*)?);
    };
    (@members $to:ident $key:tt : {$($inner:tt)*} $(, $($rest:tt)*)?) => {
        $to.insert($key, $crate::json!({$($inner)*}));
        $crate::json!(@members $to $($($rest)*)?);
    };
    (@members $to:ident $key:tt : $value:expr $(, $($rest:tt)*)?) => {
        $to.insert($key, $crate::json!($value));
        $crate::json!(@members $to $($($rest)*)?);
    };

    ($value:expr) => { $crate::json::JsonValue::of_literal(&$value) };
}
