//! Texts that must look as Python prints them, because a model or a Protolink client reads them: `repr`,
//! `json.dumps`, type names. Numbers keep their original text where Python would not change it.

use proto_events::json::JsonValue as Value;
pub(crate) use proto_events::model::python::{repr, repr_float as float_repr, repr_str as str_repr};
pub use proto_events::model::python_json::python_json;
pub(crate) use proto_events::model::python_json::{python_json_sorted, type_name};

/// Returns `repr` of a list of strings.
pub(crate) fn list_repr(items: &[&str]) -> String {
    let items: Vec<String> = items.iter().map(|item| str_repr(item)).collect();
    format!("[{}]", items.join(", "))
}

/// Whether two JSON values are equal in Python: `1 == 1.0 == True`, objects regardless of key order.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let same =
                |(key, value): (&String, &Value)| right.get(key).is_some_and(|other| equal(value, other));
            left.len() == right.len() && left.iter().all(same)
        }
        (Value::Bool(_) | Value::Number(_), Value::Bool(_) | Value::Number(_)) => equal_numbers(left, right),
        _ => left == right,
    }
}

/// Compares two numbers; integers of any size by their digits, because a float would lose some of them.
fn equal_numbers(left: &Value, right: &Value) -> bool {
    let (left, right) = (numeric(left), numeric(right));
    let whole = |text: &str| !text.contains(['.', 'e', 'E']);
    if whole(&left) && whole(&right) {
        return left == right;
    }
    let floats = left.parse::<f64>().ok().zip(right.parse::<f64>().ok());
    floats.is_some_and(|(left, right)| left.total_cmp(&right).is_eq() || (left - right) == 0.0)
}

fn numeric(value: &Value) -> String {
    match value {
        Value::Bool(flag) => u8::from(*flag).to_string(),
        Value::Number(number) => number.as_str().to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn repr_quotes_and_escapes_as_python_does() {
        for (text, repr) in [
            ("it's", r#""it's""#),
            ("q\"", "'q\"'"),
            ("both'\"", r#"'both\'"'"#),
            ("new\nline\t\\", r"'new\nline\t\\'"),
            ("é😀e\u{301}", "'é😀e\u{301}'"),
            ("\0\u{7f}\u{a0}\u{200b}\u{10ffff}", r"'\x00\x7f\xa0\u200b\U0010ffff'"),
        ] {
            assert_eq!(str_repr(text), repr);
        }
        let value = parsed(
            r#"[1, 2.50, 1e16, 1e-5, -0.0, 0.0001, 1180591620717411303424, "x", null, true, {"k": []}]"#,
        );
        assert_eq!(
            repr(&value),
            "[1, 2.5, 1e+16, 1e-05, -0.0, 0.0001, 1180591620717411303424, 'x', None, True, {'k': []}]"
        );
    }

    #[test]
    fn python_calls_one_and_true_and_one_point_zero_equal() {
        for (left, right, same) in [
            ("1", "true", true),
            ("1", "1.0", true),
            ("[1]", "[1.0]", true),
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":true}"#, true),
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"c":1}"#, false),
            ("0", "null", false),
            ("\"1\"", "1", false),
            ("9007199254740993", "9007199254740992", false),
        ] {
            assert_eq!(equal(&parsed(left), &parsed(right)), same, "{left} {right}");
        }
    }
}
