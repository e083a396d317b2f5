//! Texts that must look as Python prints them, because a model or a Protolink client reads them: `repr`,
//! `json.dumps`, type names. Numbers keep their original text where Python would not change it.

use std::fmt::Write as _;

use proto_events::json::{JsonNumber, JsonValue as Value};
pub(crate) use proto_events::model::python::{repr, repr_float as float_repr, repr_str as str_repr};

/// Whether Python reads a number as a float, since it has a point or an exponent.
pub(crate) fn is_float(number: &JsonNumber) -> bool {
    number.as_str().contains(['.', 'e', 'E'])
}

/// Returns Python's name for the type of a JSON value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if is_float(number) => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

/// Returns `repr` of a list of strings.
pub(crate) fn list_repr(items: &[&str]) -> String {
    let items: Vec<String> = items.iter().map(|item| str_repr(item)).collect();
    format!("[{}]", items.join(", "))
}

/// Formats as `json.dumps(value)`: with `", "` and `": "` as separators, everything beyond ASCII escaped.
pub fn python_json(value: &Value) -> String {
    let mut out = String::new();
    write_json(&mut out, value, false);
    out
}

/// Formats as `json.dumps(value, sort_keys=True)` with floats as Python prints them: equal values have equal
/// texts.
pub(crate) fn python_json_sorted(value: &Value) -> String {
    let mut out = String::new();
    write_json(&mut out, value, true);
    out
}

fn write_json(out: &mut String, value: &Value, sorted: bool) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) if sorted && is_float(number) => {
            out.push_str(&float_repr(number.as_str().parse().unwrap_or(f64::NAN)));
        }
        Value::Number(number) => out.push_str(number.as_str()),
        Value::String(text) => write_json_str(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_json(out, item, sorted);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            if sorted {
                fields.sort_by(|left, right| left.0.cmp(right.0));
            }
            out.push('{');
            for (index, (key, value)) in fields.into_iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write_json_str(out, key);
                out.push_str(": ");
                write_json(out, value, sorted);
            }
            out.push('}');
        }
    }
}

fn write_json_str(out: &mut String, text: &str) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(char),
            _ => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    // Writing to a `String` cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
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
    fn json_has_pythons_separators_and_keeps_numbers() {
        let value = parsed(r#"{"b":[1.0,1180591620717411303424],"a":"é😀\u0001\u007f\"","e":{}}"#);
        assert_eq!(
            python_json(&value),
            r#"{"b": [1.0, 1180591620717411303424], "a": "\u00e9\ud83d\ude00\u0001\u007f\"", "e": {}}"#
        );
        assert!(python_json_sorted(&value).starts_with(r#"{"a": "#));
        let sorted = |text| python_json_sorted(&parsed(text));
        assert_eq!(sorted("[3.0e0,1E5,1.50,1,-0.0]"), sorted("[3.0,100000.0,1.5,1,-0e0]"));
        assert_ne!(sorted("[1]"), sorted("[1.0]"));
        assert_ne!(sorted("[1e999]"), sorted("[-1e999]"));
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
