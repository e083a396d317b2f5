//! The scalar half of the argument check: coercion of a value to the type of a schema where that is safe, and
//! the error texts where it is not.

use proto_events::json::{JsonNumber, JsonValue as Value};

use crate::python::{float_repr, type_name};

/// Returns the text for a value of the wrong type: `… must be an integer, got str`.
pub(crate) fn wrong_type(path: &str, wanted: &str, value: &Value) -> String {
    format!("{path} must be {wanted}, got {}", type_name(value))
}

/// Coerces to an integer: an integer, a float without a fraction, or a string of digits.
pub(crate) fn integer(value: &Value, path: &str) -> Result<Value, String> {
    let made = match value {
        Value::Bool(_) => return Err(format!("{path} must be an integer, got boolean")),
        Value::Number(number) if !number.is_float() => return Ok(value.clone()),
        Value::Number(number) => integral_float(number.as_str()),
        Value::String(text) => digits(text),
        _ => None,
    };
    let number = made.and_then(|text| text.parse::<JsonNumber>().ok());
    number.map(Value::Number).ok_or_else(|| wrong_type(path, "an integer", value))
}

/// Returns all digits of a float that is a whole number.
fn integral_float(text: &str) -> Option<String> {
    let float: f64 = text.parse().ok()?;
    let whole = float.is_finite() && float.fract() == 0.0;
    // Adding zero turns -0.0 into 0.0, as an integer has no negative zero.
    whole.then(|| format!("{:.0}", float + 0.0))
}

/// Normalizes `" +007 "` to `7`.
fn digits(text: &str) -> Option<String> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    Some(match (negative, digits) {
        (_, "") => "0".to_owned(),
        (true, digits) => format!("-{digits}"),
        (false, digits) => digits.to_owned(),
    })
}

/// Coerces to a number: a number with its own text, or a string that holds one.
pub(crate) fn number(value: &Value, path: &str) -> Result<Value, String> {
    let made = match value {
        Value::Bool(_) => return Err(format!("{path} must be a number, got boolean")),
        Value::Number(_) => return Ok(value.clone()),
        Value::String(text) => float(text),
        _ => None,
    };
    made.map(Value::Number).ok_or_else(|| wrong_type(path, "a number", value))
}

/// Parses the texts that Python's `float()` accepts, except infinities and NaN, which JSON lacks.
fn float(text: &str) -> Option<JsonNumber> {
    let text = text.trim();
    let plain = text.replace('_', "");
    let bytes = text.as_bytes();
    let digit_at =
        |index: Option<usize>| index.and_then(|index| bytes.get(index)).is_some_and(u8::is_ascii_digit);
    let between_digits =
        |(index, _): (usize, &str)| digit_at(index.checked_sub(1)) && digit_at(Some(index + 1));
    let clean = text.match_indices('_').all(between_digits);
    let float: f64 = plain.parse().ok()?;
    (clean && float.is_finite()).then(|| float_repr(float).parse().ok())?
}

/// Coerces to a boolean: a boolean, the usual words, or the integers 0 and 1.
pub(crate) fn boolean(value: &Value, path: &str) -> Result<Value, String> {
    let made = match value {
        Value::Bool(flag) => Some(*flag),
        Value::Number(number) => match number.as_str() {
            "1" => Some(true),
            "0" => Some(false),
            _ => None,
        },
        Value::String(text) => word(text),
        _ => None,
    };
    made.map(Value::Bool).ok_or_else(|| wrong_type(path, "a boolean", value))
}

fn word(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "true" | "1" | "yes" | "y" | "on" => Some(true),
        "false" | "0" | "no" | "n" | "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(coerce: fn(&Value, &str) -> Result<Value, String>, json: &str) -> Result<String, String> {
        coerce(&serde_json::from_str(json).unwrap(), "x").map(|value| value.to_string())
    }

    #[test]
    fn whole_numbers_and_digit_strings_become_integers() {
        for (json, integer_text) in [
            ("\" -7\\n\"", "-7"),
            ("\"+7\"", "7"),
            ("\"007\"", "7"),
            ("\"-0\"", "0"),
            ("-0.0", "0"),
            ("1e16", "10000000000000000"),
            ("1180591620717411303424", "1180591620717411303424"),
            ("\"1180591620717411303424\"", "1180591620717411303424"),
        ] {
            assert_eq!(made(integer, json).unwrap(), integer_text, "{json}");
        }
        for json in ["\"1_0\"", "\"12.0\"", "\"--5\"", "\"+\"", "\"\"", "3.5", "1e400", "[]", "{}", "null"] {
            assert!(made(integer, json).unwrap_err().starts_with("x must be an integer, got "), "{json}");
        }
    }

    #[test]
    fn a_number_keeps_its_text_and_a_string_becomes_a_float() {
        for (json, text) in [
            ("1.50", "1.50"),
            ("7", "7"),
            ("\"12\"", "12.0"),
            ("\" 1_000 \"", "1000.0"),
            ("\".5\"", "0.5"),
            ("\"5.e1\"", "50.0"),
            ("\"-0\"", "-0.0"),
        ] {
            assert_eq!(made(number, json).unwrap(), text, "{json}");
        }
        for json in ["\"nan\"", "\"inf\"", "\"1e400\"", "\"1__0\"", "\"_1\"", "\"1_\"", "\"0x10\"", "\" \""] {
            assert_eq!(made(number, json).unwrap_err(), "x must be a number, got str", "{json}");
        }
    }

    #[test]
    fn the_words_people_use_become_booleans() {
        assert_eq!(made(boolean, "\" On \"").unwrap(), "true");
        assert_eq!(made(boolean, "0").unwrap(), "false");
        for json in ["\"t\"", "2", "1.0", "null"] {
            assert!(made(boolean, json).is_err(), "{json}");
        }
    }
}
