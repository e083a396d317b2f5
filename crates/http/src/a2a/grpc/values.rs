//! JSON, times and bytes as protobuf has them.

use std::str::FromStr as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Timestamp, Value};
use proto_events::json::{JsonMap, JsonNumber, JsonObject, JsonText, JsonValue};

use crate::a2a::mapping::numbers::DEPTH_MAX;
use crate::a2a::wire::fields::Invalid;
use crate::a2a::wire::read::bytes_of;

/// The largest integer up to which every integer is a double.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns any JSON. A number becomes a double, and what nests deeper than clients read becomes a text: content that does not come
/// back so has its own text beside it.
pub(crate) fn value(json: &JsonText) -> Value {
    of_tree(json.tree(), DEPTH_MAX)
}

/// Returns an object; `None` if it is empty, as JSON leaves it out.
pub(crate) fn object(object: &JsonObject) -> Option<Struct> {
    match value(&object.to_text()).kind {
        Some(Kind::StructValue(fields)) if !fields.fields.is_empty() => Some(fields),
        _ => None,
    }
}

fn of_tree(tree: JsonValue, depth: usize) -> Value {
    let inner = depth.saturating_sub(1);
    let kind = match tree {
        JsonValue::Array(_) | JsonValue::Object(_) if depth == 0 => {
            Kind::StringValue(JsonText::of_model(&tree).as_str().to_owned())
        }
        JsonValue::Null => Kind::NullValue(0),
        JsonValue::Bool(flag) => Kind::BoolValue(flag),
        JsonValue::Number(number) => Kind::NumberValue(double(&number)),
        JsonValue::String(text) => Kind::StringValue(text),
        JsonValue::Array(items) => Kind::ListValue(ListValue {
            values: items.into_iter().map(|item| of_tree(item, inner)).collect(),
        }),
        JsonValue::Object(members) => {
            let fields = members.iter().map(|(name, value)| (name.clone(), of_tree(value.clone(), inner)));
            Kind::StructValue(Struct { fields: fields.collect() })
        }
    };
    Value { kind: Some(kind) }
}

/// Returns a number as a double: the largest one where it is larger than all.
fn double(number: &JsonNumber) -> f64 {
    let largest = if number.as_str().starts_with('-') { f64::MIN } else { f64::MAX };
    number.as_f64().filter(|double| double.is_finite()).unwrap_or(largest)
}

/// Returns a value as JSON. One without a kind is null.
///
/// # Errors
/// [`Invalid`] for a number that is not valid, or infinite: JSON has none of them.
pub(crate) fn json(value: &Value, path: &str) -> Result<JsonText, Invalid> {
    Ok(JsonText::of_model(&to_tree(value, path)?))
}

/// Returns an object as JSON.
///
/// # Errors
/// As of [`json`].
pub(crate) fn json_object(fields: &Struct, path: &str) -> Result<JsonText, Invalid> {
    Ok(JsonText::of_model(&JsonValue::Object(members(fields, path)?)))
}

fn members(fields: &Struct, path: &str) -> Result<JsonMap, Invalid> {
    let mut members = JsonMap::new();
    for (name, value) in &fields.fields {
        members.insert(name.clone(), to_tree(value, path)?);
    }
    Ok(members)
}

fn to_tree(value: &Value, path: &str) -> Result<JsonValue, Invalid> {
    Ok(match &value.kind {
        None | Some(Kind::NullValue(_)) => JsonValue::Null,
        Some(Kind::BoolValue(flag)) => JsonValue::Bool(*flag),
        Some(Kind::NumberValue(double)) => JsonValue::Number(
            number(*double).ok_or_else(|| Invalid::new(path, "must hold finite numbers only"))?,
        ),
        Some(Kind::StringValue(text)) => JsonValue::String(text.clone()),
        Some(Kind::ListValue(list)) => {
            let items = list.values.iter().map(|item| to_tree(item, path));
            JsonValue::Array(items.collect::<Result<_, _>>()?)
        }
        Some(Kind::StructValue(fields)) => JsonValue::Object(members(fields, path)?),
    })
}

/// Returns a double as the number that it was most likely written as: a whole one as an integer.
fn number(double: f64) -> Option<JsonNumber> {
    if !double.is_finite() {
        return None;
    }
    let is_whole = double.fract() == 0.0 && double.abs() <= WHOLE_MAX;
    let is_integer = is_whole && !(double == 0.0 && double.is_sign_negative());
    if is_integer { format!("{double:.0}").parse().ok() } else { format!("{double:?}").parse().ok() }
}

/// Returns a time that is written as ISO 8601; `None` for any other text.
pub(crate) fn time(text: &str) -> Option<Timestamp> {
    let time = jiff::Timestamp::from_str(text).ok()?;
    Some(Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() })
}

/// Returns a time as ISO 8601.
///
/// # Errors
/// [`Invalid`] if it is not valid.
pub(crate) fn iso(time: &Timestamp, path: &str) -> Result<String, Invalid> {
    let valid = (0..1_000_000_000).contains(&time.nanos);
    let read = valid.then(|| jiff::Timestamp::new(time.seconds, time.nanos).ok()).flatten();
    read.map(|time| time.to_string()).ok_or_else(|| Invalid::new(path, "must be a time"))
}

/// Returns the bytes of a text in base64; none where it is not base64, which nothing of ours is.
pub(crate) fn bytes(base64: &str) -> Vec<u8> {
    bytes_of(base64).unwrap_or_default()
}

/// Returns bytes as base64.
pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(text: &str) -> String {
        json(&value(&JsonText::parse(text).unwrap()), "x").unwrap().as_str().to_owned()
    }

    #[test]
    fn what_a_double_holds_comes_back_as_it_was() {
        for same in [
            "null",
            "true",
            "3",
            "-7",
            "0.5",
            "-0.0",
            "9007199254740992",
            "\"7.0\"",
            "[]",
            "{}",
            "[1,[2,{\"a\":null}]]",
            "{\"a\":1,\"b\":[\"c\"]}",
            "1e300",
        ] {
            assert_eq!(back(same), same);
        }
        assert_eq!(back("7.0"), "7");
        assert_eq!(back("1e400"), format!("{:?}", f64::MAX));
    }

    #[test]
    fn numbers_that_json_does_not_have_are_refused_wherever_they_stand() {
        for double in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let value = Value { kind: Some(Kind::NumberValue(double)) };
            assert!(json(&value, "x").is_err());
            let list = Value { kind: Some(Kind::ListValue(ListValue { values: vec![value.clone()] })) };
            assert!(json(&list, "x").is_err());
            let fields = Struct { fields: [("a".to_owned(), list)].into_iter().collect() };
            assert!(json_object(&fields, "x").is_err());
        }
    }

    #[test]
    fn times_come_back_and_what_is_none_is_refused() {
        let text = "2026-11-26T00:21:01.123Z";
        assert_eq!(iso(&time(text).unwrap(), "x").unwrap(), text);
        for (seconds, nanos) in [(i64::MAX, 0), (0, -1), (0, 1_000_000_000), (i64::MIN, 5)] {
            assert!(iso(&Timestamp { seconds, nanos }, "x").is_err());
        }
        assert!(time("yesterday").is_none());
    }
}
