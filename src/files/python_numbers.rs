//! Numbers as Python prints them after reading them, so that a file stays the same when a2a-utils writes it again.

use proto_events::json::JsonValue as Value;
use proto_events::model::python::repr_float;

use crate::files::error::FileError;

/// The digits of the longest integer that Python reads.
const DIGITS_MAX: usize = 4_300;

/// Returns a value with its numbers as Python prints them. A number beyond the range of floats becomes null, which
/// pydantic writes for it.
///
/// # Errors
/// [`FileError::NotATask`] for an integer that Python refuses to read: a2a-utils would find no task in the file.
pub(super) fn as_python_prints(value: Value) -> Result<Value, FileError> {
    match value {
        Value::Number(number) if number.is_float() => {
            let float: f64 = number.as_str().parse().unwrap_or(f64::INFINITY);
            let text = if float.is_finite() { repr_float(float) } else { "null".to_owned() };
            Ok(text.parse().map_or(Value::Null, Value::Number))
        }
        Value::Number(number) => {
            let digits = number.as_str().trim_start_matches('-');
            if digits.len() > DIGITS_MAX {
                return Err(FileError::NotATask(format!(
                    "a2a-utils reads no integer of more than {DIGITS_MAX} digits, and one has {}; send it as a string",
                    digits.len()
                )));
            }
            // Python's integers have no negative zero.
            Ok(if digits == "0" { 0_u64.into() } else { Value::Number(number) })
        }
        Value::Array(items) => {
            items.into_iter().map(as_python_prints).collect::<Result<Vec<_>, _>>().map(Value::from)
        }
        Value::Object(mut fields) => {
            for field in fields.values_mut() {
                *field = as_python_prints(field.take())?;
            }
            Ok(fields.into())
        }
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_python_prints_them() {
        let printed = |text: &str| as_python_prints(Value::parse(text).unwrap()).unwrap().to_string();
        for (text, python) in [
            ("1.50", "1.5"),
            ("1E5", "100000.0"),
            ("1e16", "1e+16"),
            ("-0", "0"),
            ("-0.0", "-0.0"),
            ("1e400", "null"),
            ("[0.1e-7,{\"a\":1180591620717411303424}]", "[1e-08,{\"a\":1180591620717411303424}]"),
        ] {
            assert_eq!(printed(text), python, "{text}");
        }
        assert!(as_python_prints(Value::parse(&"1".repeat(4_300)).unwrap()).is_ok());
        assert!(as_python_prints(Value::parse(&format!("[-{}]", "1".repeat(4_301))).unwrap()).is_err());
    }
}
