//! The decoder of the JSON in a model's reply.

use proto_events::json::{JsonError, JsonText, JsonValue as Value};
use taskreel_log::shown::escape_controls;

use crate::grammar::json_errors;
use crate::grammar::reply_text::unfenced;

/// The longest part of a reply that an error text quotes, in characters: the text is sent to the model.
const QUOTED_CHARS_MAX: usize = 2_000;

/// Decodes the whole text as JSON, else the part between the first `{` and the last `}`. The error names its
/// place in the whole text, as Protolink's does.
pub(crate) fn decode(raw: &str) -> Result<Value, String> {
    let whole = match decode_json(raw) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let inner = raw.find('{').zip(raw.rfind('}')).and_then(|(from, to)| raw.get(from..=to));
    match inner.map(decode_json) {
        Some(Ok(value)) => Ok(value),
        // Valid JSON that nests too deep: that is its fault, not the prose around it.
        Some(Err(error @ JsonError::TooDeep { .. })) => Err(error.to_string()),
        _ => Err(match whole {
            JsonError::TooDeep { .. } | JsonError::NotFinite => whole.to_string(),
            JsonError::Syntax(_) => json_errors::describe(raw),
        }),
    }
}

/// Decodes a text that is JSON as a whole, with at most one code fence around all of it. The error names its place in the text
/// within the fence.
pub(crate) fn decode_whole(text: &str) -> Result<Value, String> {
    let text = unfenced(text);
    decode_json(text).map_err(|error| match error {
        JsonError::TooDeep { .. } | JsonError::NotFinite => error.to_string(),
        JsonError::Syntax(_) => json_errors::describe(text),
    })
}

fn decode_json(text: &str) -> Result<Value, JsonError> {
    JsonText::parse(&escape_controls(text)).map(|text| text.tree())
}

/// Returns the text, truncated if it is long.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => {
            format!("{}… ({} characters in all)", text.get(..end).unwrap_or_default(), text.chars().count())
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::decode;

    /// The texts equal Protolink 0.6.4's.
    #[test]
    fn an_error_names_its_place_in_the_whole_reply() {
        for (raw, error) in [
            ("  garbage {\"a\": } x", "Expecting value: line 1 column 3 (char 2)"),
            (
                "\n\n{\"a\": 1,}\n",
                "Expecting property name enclosed in double quotes: line 3 column 9 (char 10)",
            ),
            ("hello {\"content\":}", "Expecting value: line 1 column 1 (char 0)"),
            ("   ", "Expecting value: line 1 column 4 (char 3)"),
            (" {\"a\" 1}", "Expecting ':' delimiter: line 1 column 7 (char 6)"),
            ("{\"a\":1}}", "Extra data: line 1 column 8 (char 7)"),
        ] {
            assert_eq!(decode(raw).unwrap_err(), error, "{raw:?}");
        }
        let deep = format!("Sure: {{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        assert!(decode(&deep).unwrap_err().contains("levels deep"));
        assert_eq!(decode("Sure: {\"a\":1} there").unwrap().to_string(), "{\"a\":1}");
    }
}
