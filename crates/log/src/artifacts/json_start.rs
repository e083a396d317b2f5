//! The beginning of a value's JSON, written without the rest of it.

use proto_events::json::JsonValue as Value;
use proto_events::model::python_json::python_json;

use crate::artifacts::characters::first_characters;

/// Returns the first `keep` characters of a value's JSON on one line; all of it if it has fewer.
pub(super) fn beginning(value: &Value, keep: usize) -> String {
    let mut out = String::new();
    write(&mut out, value, keep);
    // Everything beyond ASCII is escaped.
    out.truncate(keep);
    out
}

/// Writes a value, and stops soon after `keep` characters.
fn write(out: &mut String, value: &Value, keep: usize) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if out.len() >= keep {
                    return;
                }
                out.push_str(if at == 0 { "" } else { ", " });
                write(out, item, keep);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (at, (key, value)) in fields.iter().enumerate() {
                if out.len() >= keep {
                    return;
                }
                out.push_str(if at == 0 { "" } else { ", " });
                write_text(out, key, keep);
                out.push_str(": ");
                write(out, value, keep);
            }
            out.push('}');
        }
        Value::String(text) => write_text(out, text, keep),
        Value::Number(number) => out.push_str(first_characters(number.as_str(), keep)),
        Value::Null | Value::Bool(_) => out.push_str(&python_json(value)),
    }
}

fn write_text(out: &mut String, text: &str, keep: usize) {
    // The closing quote stands after `keep` characters if the text is cut.
    out.push_str(&python_json(&Value::from(first_characters(text, keep))));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_beginning_is_that_of_the_whole_text(
            texts in proptest::collection::vec("[a\"é\n😀]{0,30}", 0..5), keep in 0_usize..120, number in any::<i64>(),
        ) {
            let list: Value = texts.iter().map(String::as_str).map(Value::from).collect();
            let key = texts.concat();
            let object = proto_events::json::JsonMap::from_iter([(key, list), ("b".to_owned(), number.into())]);
            let value = Value::from(vec![Value::from(object), Value::Null, Value::from(true)]);
            let whole = python_json(&value);
            prop_assert_eq!(beginning(&value, keep), &whole[..keep.min(whole.len())]);
        }
    }
}
