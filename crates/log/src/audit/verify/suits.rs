//! Compares the arguments of a call with those that were asked for. They are equal, or differ as the check against a tool's
//! schema makes them differ: scalars that another type writes otherwise, and members that were absent.

use proto_events::json::{JsonMap, JsonText, JsonValue as Value};

/// The values of members that a call has and that nobody asked for: each must be a default of the tool's schema.
pub(crate) type FilledIn = Vec<Value>;

/// Compares arguments with those that were asked for. Returns what was filled in; `None` if they differ otherwise.
pub(crate) fn compare(asked: &JsonText, made: &JsonText) -> Option<FilledIn> {
    if asked == made {
        return Some(FilledIn::new());
    }
    let (asked, made) = (asked.tree(), made.tree());
    // Absent arguments, and others that are false in Python, count as a call without arguments.
    let asked = if is_nothing(&asked) { Value::Object(JsonMap::new()) } else { asked };
    let mut filled = FilledIn::new();
    suits(&asked, &made, &mut filled).then_some(filled)
}

fn is_nothing(asked: &Value) -> bool {
    match asked {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(true) | Value::Object(_) => false,
    }
}

fn suits(asked: &Value, made: &Value, filled: &mut FilledIn) -> bool {
    match (asked, made) {
        (Value::Object(asked), Value::Object(made)) => {
            let has = |(name, asked): (&String, &Value)| {
                made.get(name).is_some_and(|made| suits(asked, made, filled))
            };
            let is_whole = asked.iter().all(has);
            let new = made.iter().filter(|(name, _)| !asked.contains_key(name));
            filled.extend(new.map(|(_, value)| value.clone()));
            is_whole
        }
        (Value::Array(asked), Value::Array(made)) => {
            asked.len() == made.len()
                && asked.iter().zip(made).all(|(asked, made)| suits(asked, made, filled))
        }
        _ => asked == made || is_coerced(asked, made),
    }
}

/// Whether a scalar is another one as the type of a schema writes it: whole floats and digits as integers, texts as numbers,
/// the usual words, 0 and 1 as booleans.
fn is_coerced(asked: &Value, made: &Value) -> bool {
    match (asked, made) {
        (Value::Number(asked), Value::Number(made)) => {
            let whole = asked.as_f64().filter(|float| float.is_finite() && float.fract() == 0.0);
            asked.is_float() && whole.is_some_and(|float| format!("{:.0}", float + 0.0) == made.as_str())
        }
        (Value::String(asked), Value::Number(made)) if made.is_float() => {
            let asked = asked.trim().replace('_', "").parse::<f64>().ok();
            asked.filter(|float| float.is_finite()) == made.as_f64()
        }
        (Value::String(asked), Value::Number(made)) => {
            digits(asked).is_some_and(|asked| asked == made.as_str())
        }
        (Value::Number(asked), Value::Bool(made)) => asked.as_str() == if *made { "1" } else { "0" },
        (Value::String(asked), Value::Bool(made)) => {
            let words =
                if *made { ["true", "1", "yes", "y", "on"] } else { ["false", "0", "no", "n", "off"] };
            words.contains(&asked.trim().to_lowercase().as_str())
        }
        _ => false,
    }
}

/// Returns an integer in the form that JSON has: `7` for ` +007 `.
fn digits(text: &str) -> Option<String> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    Some(if digits.is_empty() { "0".to_owned() } else { format!("{sign}{digits}") })
}

/// Whether a schema has the value as a default, at any place.
pub(crate) fn has_default(schema: &Value, value: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.get("default").is_some_and(|default| default == value)
                || fields.values().any(|inner| has_default(inner, value))
        }
        Value::Array(items) => items.iter().any(|inner| has_default(inner, value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(asked: &str, made: &str) -> Option<usize> {
        let json = |text| JsonText::parse(text).unwrap();
        compare(&json(asked), &json(made)).map(|filled| filled.len())
    }

    #[test]
    fn arguments_that_a_schema_coerces_are_those_that_were_asked_for() {
        for (asked, made, filled) in [
            (r#"{"a":1,"b":[1.50,"x"]}"#, r#"{"b":[1.50,"x"],"a":1}"#, 0),
            (r#"{"a":" +007 "}"#, r#"{"a":7}"#, 0),
            (r#"{"a":"-0"}"#, r#"{"a":0}"#, 0),
            (r#"{"a":7.0}"#, r#"{"a":7}"#, 0),
            (r#"{"a":"1_000"}"#, r#"{"a":1000.0}"#, 0),
            (r#"{"a":[{"b":"Yes"}]}"#, r#"{"a":[{"b":true}]}"#, 0),
            (r#"{"a":0}"#, r#"{"a":false}"#, 0),
            (r#"{"a":{}}"#, r#"{"a":{"limit":10},"page":1}"#, 2),
            ("null", r#"{"page":1}"#, 1),
            (r#""""#, "{}", 0),
        ] {
            assert_eq!(compared(asked, made), Some(filled), "{asked} {made}");
        }
    }

    #[test]
    fn other_arguments_are_not_those_that_were_asked_for() {
        for (asked, made) in [
            (r#"{"a":1792}"#, r#"{"a":999999}"#),
            (r#"{"a":"1792"}"#, r#"{"a":1793}"#),
            (r#"{"a":"9007199254740993"}"#, r#"{"a":9007199254740992}"#),
            (r#"{"a":1}"#, r#"{"a":"1"}"#),
            (r#"{"a":1}"#, r#"{"a":false}"#),
            (r#"{"a":"x","b":1}"#, r#"{"a":"x"}"#),
            (r#"{"a":[1,2]}"#, r#"{"a":[1]}"#),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#),
            (r#"{"a":"true"}"#, r#"{"a":false}"#),
            (r#"{"a":1.5}"#, r#"{"a":1}"#),
            ("1", "{}"),
        ] {
            assert_eq!(compared(asked, made), None, "{asked} {made}");
        }
    }

    #[test]
    fn a_default_is_found_at_any_place_of_a_schema() {
        let schema =
            r##"{"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"integer","default":7}}}"##;
        let json = |text| JsonText::parse(text).unwrap().tree();
        assert!(has_default(&json(schema), &json("7")) && !has_default(&json(schema), &json("8")));
    }
}
