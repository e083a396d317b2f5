//! Python's reading and printing of JSON values. Protolink's coercions (`str`, `int`, `float`, `bool`) and
//! some of its error texts are Python's; they are implemented here only.

use crate::json::{JsonText, JsonValue as Value};
use crate::model::error::ModelError;

/// Returns the type of a value, with its article, for error texts.
pub fn kind(json: &JsonText) -> &'static str {
    match json.as_str().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') | None => "null",
        Some(_) => "a number",
    }
}

/// Whether the value is true in Python: not null, false, zero, or empty.
pub fn truthy(json: &JsonText) -> bool {
    let text = json.as_str();
    let inside = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    match text.as_bytes().first() {
        Some(b'{' | b'[') => !inside.trim().is_empty(),
        Some(b'"') => !inside.is_empty(),
        Some(b't') => true,
        Some(b'f' | b'n') | None => false,
        Some(_) => text.parse::<f64>() != Ok(0.0),
    }
}

/// Returns Python's `str` of the value: a string as it is, anything else as printed by [`repr`].
pub fn text(json: &JsonText) -> String {
    match readable(json) {
        Some(Value::String(text)) => text,
        Some(value) => repr(&value),
        None => json.to_string(),
    }
}

/// Returns Python's `repr` of the JSON value; the JSON itself if it holds half a surrogate pair.
pub fn repr_of(json: &JsonText) -> String {
    readable(json).map_or_else(|| json.to_string(), |value| repr(&value))
}

fn readable(json: &JsonText) -> Option<Value> {
    serde_json::from_str(json.as_str()).ok()
}

/// Returns Python's `repr` of a value.
pub fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => repr_number(number.as_str()),
        Value::String(text) => repr_str(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(repr).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", repr_str(key), repr(value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
    }
}

fn is_integer(number: &str) -> bool {
    !number.contains(['.', 'e', 'E'])
}

fn repr_number(number: &str) -> String {
    if !is_integer(number) {
        return repr_float(number.parse().unwrap_or(f64::NAN));
    }
    // Python's integers have no negative zero.
    if number == "-0" { "0".to_owned() } else { number.to_owned() }
}

/// Returns Python's `repr` of a float: the shortest digits that parse back, with an exponent below 1e-4 and
/// from 1e16 on.
pub fn repr_float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let shortest = format!("{number:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = number.to_string();
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Returns Python's `repr` of a string: single quotes, unless double ones save an escape.
pub fn repr_str(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        push_escaped(&mut out, c, quote);
    }
    out.push(quote);
    out
}

fn push_escaped(out: &mut String, c: char, quote: char) {
    match c {
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c == quote => out.extend(['\\', c]),
        c if is_printable(c) => out.push(c),
        c => out.push_str(&escaped(u32::from(c))),
    }
}

fn escaped(code: u32) -> String {
    match code {
        0..=0xff => format!("\\x{code:02x}"),
        0x100..=0xffff => format!("\\u{code:04x}"),
        _ => format!("\\U{code:08x}"),
    }
}

/// Whether Python prints a character unescaped: not controls, formats, private use, or spaces except the
/// plain one.
fn is_printable(c: char) -> bool {
    let code = u32::from(c);
    let hidden = matches!(code, 0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x180e | 0x200b..=0x200f
        | 0x202a..=0x202e | 0x2060..=0x206f | 0xe000..=0xf8ff | 0xfeff | 0xfff9..=0xfffb
        | 0xfffe..=0xffff | 0xe0000..=0x0010_ffff);
    c == ' ' || !(c.is_control() || c.is_whitespace() || hidden)
}

/// Returns Python's `int` of the value.
///
/// # Errors
/// [`ModelError`], in Python's words if a string holds no integer, in ours if the value is not a number or
/// does not fit 64 bits.
pub fn int(json: &JsonText, field: &str) -> Result<i64, ModelError> {
    let beyond = || ModelError::Invalid(format!("{field} must fit a 64-bit integer, got {json}"));
    match json.as_str().as_bytes().first() {
        Some(b't') => Ok(1),
        Some(b'f') => Ok(0),
        Some(b'"') => int_of_str(json, &beyond),
        Some(b'{' | b'[' | b'n') | None => Err(expected_number(json, field)),
        Some(_) if is_integer(json.as_str()) => json.as_str().parse().map_err(|_| beyond()),
        Some(_) => truncate(json.as_str().parse().unwrap_or(f64::NAN)).ok_or_else(beyond),
    }
}

fn int_of_str(json: &JsonText, beyond: &dyn Fn() -> ModelError) -> Result<i64, ModelError> {
    let literal =
        || ModelError::Invalid(format!("invalid literal for int() with base 10: {}", repr_of(json)));
    let text = json.to_str().ok_or_else(literal)?;
    let digits = without_underscores(text.trim()).ok_or_else(literal)?;
    let bare = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
    if bare.is_empty() || !bare.bytes().all(|b| b.is_ascii_digit()) {
        return Err(literal());
    }
    digits.parse().map_err(|_| beyond())
}

/// Removes underscores as Python does: a single one between two digits is allowed.
fn without_underscores(text: &str) -> Option<String> {
    let whole = text
        .split('_')
        .enumerate()
        .all(|(at, part)| (at == 0 || starts_with_digit(part)) && !part.is_empty());
    let inner = !text.split('_').rev().skip(1).any(|part| !ends_with_digit(part));
    (whole && inner).then(|| text.replace('_', ""))
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

fn ends_with_digit(text: &str) -> bool {
    text.ends_with(|c: char| c.is_ascii_digit())
}

/// The number 2^63 as a float: the smallest positive one beyond `i64`.
const BEYOND_I64: f64 = 9_223_372_036_854_775_808.0;

fn truncate(number: f64) -> Option<i64> {
    let whole = number.trunc();
    if !(-BEYOND_I64..BEYOND_I64).contains(&whole) {
        return None;
    }
    // The range was checked above, so the text is that of an `i64`.
    format!("{whole:.0}").parse().ok()
}

/// Returns Python's `float` of the value; infinities and NaN are refused, because JSON cannot hold them.
///
/// # Errors
/// [`ModelError`], in Python's words if a string holds no number, in ours if the value is not a finite
/// number.
pub fn float(json: &JsonText, field: &str) -> Result<f64, ModelError> {
    let number = match json.as_str().as_bytes().first() {
        Some(b't') => 1.0,
        Some(b'f') => 0.0,
        Some(b'"') => {
            let text = json.to_str().unwrap_or_default();
            without_underscores(text.trim()).and_then(|digits| digits.parse().ok()).ok_or_else(|| {
                ModelError::Invalid(format!("could not convert string to float: {}", repr_of(json)))
            })?
        }
        Some(b'{' | b'[' | b'n') | None => return Err(expected_number(json, field)),
        Some(_) => json.as_str().parse().unwrap_or(f64::NAN),
    };
    if number.is_finite() {
        Ok(number)
    } else {
        Err(ModelError::Invalid(format!("{field} must be a finite number, got {json}")))
    }
}

fn expected_number(json: &JsonText, field: &str) -> ModelError {
    ModelError::Expected { field: field.to_owned(), expected: "a number", found: kind(json) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> JsonText {
        JsonText::parse(text).unwrap()
    }

    #[test]
    fn values_print_as_python_prints_them() {
        for (given, printed) in [
            ("null", "None"),
            (r#"{"a":[true,false,null],"b":1.0}"#, "{'a': [True, False, None], 'b': 1.0}"),
            ("1e16", "1e+16"),
            ("123456789012345.5", "123456789012345.5"),
            ("1e15", "1000000000000000.0"),
            ("1e-5", "1e-05"),
            ("0.0001", "0.0001"),
            ("-0", "0"),
            ("-0.0", "-0.0"),
            ("1180591620717411303424", "1180591620717411303424"),
            ("1e999", "inf"),
            (r#"["it's"]"#, r#"["it's"]"#),
            (r#"["it's \"so\""]"#, r#"['it\'s "so"']"#),
            ("[\"a\\n\\u0007\\u00a0\\u200bé\"]", r"['a\n\x07\xa0\u200bé']"),
        ] {
            assert_eq!(text(&json(given)), printed, "{given}");
        }
        assert_eq!(text(&json(r#""plain""#)), "plain");
    }

    #[test]
    fn only_null_false_zero_and_empty_are_false() {
        for falsy in ["null", "false", "0", "-0.0", "0e7", r#""""#, "[ ]", "{ }"] {
            assert!(!truthy(&json(falsy)), "{falsy}");
        }
        for truth in ["true", "1e-3", r#"" ""#, "[0]", r#"{"a":null}"#, r#""0""#] {
            assert!(truthy(&json(truth)), "{truth}");
        }
    }

    #[test]
    fn integers_are_read_as_pythons_int_reads_them() {
        for (given, number) in
            [("7", 7), ("-7.9", -7), ("true", 1), (r#"" +1_000 ""#, 1000), ("9223372036854775807", i64::MAX)]
        {
            assert_eq!(int(&json(given), "n"), Ok(number), "{given}");
        }
        for given in [
            r#""many""#,
            r#""1.5""#,
            r#""_1""#,
            r#""1__0""#,
            r#""""#,
            "null",
            "[]",
            "1e300",
            "9223372036854775808",
        ] {
            assert!(int(&json(given), "n").is_err(), "{given}");
        }
        assert_eq!(
            int(&json(r#""many""#), "n").unwrap_err().to_string(),
            "invalid literal for int() with base 10: 'many'"
        );
    }

    #[test]
    fn floats_are_read_as_pythons_float_reads_them_but_finite() {
        assert_eq!(float(&json(r#"" 1.5e1 ""#), "n"), Ok(15.0));
        assert_eq!(float(&json("3"), "n"), Ok(3.0));
        for given in [r#""inf""#, r#""nan""#, "1e999", "null", r#""x""#] {
            assert!(float(&json(given), "n").is_err(), "{given}");
        }
    }
}
