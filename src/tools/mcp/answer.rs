//! The answer of an MCP server to a call, as a tool's result or failure.

use proto_events::json::JsonText;
use serde_json::{Value, json};

use crate::tools::error::ToolError;

/// A file within an answer.
pub(crate) struct Media<'a> {
    /// The media type.
    pub(crate) kind: &'a str,
    pub(crate) base64: &'a str,
    pub(crate) uri: Option<&'a str>,
}

/// Keeps a file of an answer, and returns the id of its artifact; `None` if it is not kept.
pub(crate) type Keep<'k> = dyn FnMut(&Media<'_>) -> Option<String> + 'k;

/// Returns the structured result if there is one, a single text as a string, anything else as the server's own JSON: an answer
/// that came back is a result, whatever its shape. Pictures and other media are kept as files, and a line of words stands in their
/// place. An error of the tool is reported to the model, which may try another way.
pub(crate) fn answer(result: &Value, keep: &mut Keep<'_>) -> Result<JsonText, ToolError> {
    if result.get("resultType").and_then(Value::as_str) == Some("input_required") {
        return Err(ToolError::failed("the server asks a person for input, which a tool's call cannot give")
            .with_type("McpInputRequired"));
    }
    let blocks = result.get("content").and_then(Value::as_array);
    let texts: Vec<&str> = blocks.into_iter().flatten().filter_map(text_of).collect();
    let only_texts = blocks.is_none_or(|blocks| texts.len() == blocks.len());
    let structured = result.get("structuredContent");
    if result.get("isError") == Some(&Value::Bool(true)) {
        return Err(ToolError::arguments(error_words(result)).with_type("McpToolError"));
    }
    let json = match (structured, blocks, texts.as_slice()) {
        (Some(structured), ..) => {
            // Files stand beside the structured content, or in it, or both.
            blocks.into_iter().flatten().for_each(|block| drop(without_bytes(block, keep)));
            JsonText::encode(&without_bytes(structured, keep))
        }
        (None, Some(_), [text]) if only_texts => JsonText::encode(text),
        (None, Some(blocks), _) => {
            let blocks: Vec<Value> = blocks.iter().map(|block| without_bytes(block, keep)).collect();
            JsonText::encode(&json!({"content": blocks}))
        }
        (None, None, _) => JsonText::encode(&without_bytes(result, keep)),
    };
    json.map_err(|error| ToolError::lost(format!("the server's result cannot be kept: {error}")))
}

/// Returns what an error says: its texts, else what stands for its other content.
fn error_words(result: &Value) -> String {
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let words: Vec<String> = blocks
        .map(|block| match (text_of(block), without_bytes(block, &mut |_| None)) {
            (Some(text), _) => text.to_owned(),
            (None, Value::String(words)) => words,
            (None, other) => {
                other.get("data").and_then(Value::as_str).map_or_else(|| other.to_string(), str::to_owned)
            }
        })
        .collect();
    match (words.is_empty(), result.get("structuredContent"), result.get("content")) {
        (false, ..) => words.join("\n"),
        (true, Some(structured), _) => structured.to_string(),
        (true, None, Some(Value::String(text))) => text.clone(),
        (true, None, _) => String::new(),
    }
}

fn text_of(block: &Value) -> Option<&str> {
    let is_text = block.get("type").and_then(Value::as_str) == Some("text");
    block.get("text").and_then(Value::as_str).filter(|_| is_text)
}

/// Returns the value with the bytes of media as words such as `image/png, 600 KiB, artifact call_1_1`: no model can read them as
/// text.
fn without_bytes(value: &Value, keep: &mut Keep<'_>) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| without_bytes(item, keep)).collect(),
        Value::Object(fields) => {
            let kind = fields.get("mimeType").and_then(Value::as_str);
            let uri = fields.get("uri").and_then(Value::as_str);
            let member = |(name, value): (&String, &Value)| {
                let bytes =
                    value.as_str().filter(|_| kind.is_some() && matches!(name.as_str(), "data" | "blob"));
                let value = match (bytes, kind) {
                    (Some(base64), Some(kind)) => {
                        let kept = keep(&Media { kind, base64, uri }).map(|id| format!(", artifact {id}"));
                        let kept = kept.unwrap_or_default();
                        Value::String(format!("{kind}, {}{kept}", size_of(base64)))
                    }
                    _ => without_bytes(value, keep),
                };
                (name.clone(), value)
            };
            Value::Object(fields.iter().map(member).collect())
        }
        other => other.clone(),
    }
}

/// Returns the size of bytes that are written as base64.
fn size_of(base64: &str) -> String {
    let bytes = base64.trim_end_matches('=').len() / 4 * 3 + base64.trim_end_matches('=').len() % 4 * 3 / 4;
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{} MiB", bytes.div_ceil(1_048_576)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::error::ToolErrorKind;

    fn read(json: &str) -> Result<String, ToolError> {
        answer(&serde_json::from_str(json).unwrap(), &mut |_| None).map(|json| json.to_string())
    }

    #[test]
    fn a_structured_result_is_kept_as_it_is_and_a_single_text_is_a_string() {
        let structured = r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1180591620717411303424,"b":1.50}}"#;
        // Numbers are read as by `serde_json`: integers of 64 bits, or floats.
        assert_eq!(read(structured).unwrap(), r#"{"a":1.1805916207174113e+21,"b":1.5}"#);
        assert_eq!(read(r#"{"content":[{"type":"text","text":"hi"}]}"#).unwrap(), r#""hi""#);
        assert_eq!(read(r#"{"content":[]}"#).unwrap(), r#"{"content":[]}"#);
        let null = r#"{"content":[],"structuredContent":null}"#;
        assert_eq!(read(null).unwrap(), "null");
    }

    #[test]
    fn bytes_become_words_and_structured_content_is_not_repeated() {
        let picture = r#"{"type":"image","data":"AAAA","mimeType":"image/png"}"#;
        let words = r#"{"data":"image/png, 3 bytes","mimeType":"image/png","type":"image"}"#;
        let parsed = |json: &str| serde_json::from_str::<Value>(json).unwrap();
        let both = format!(r#"{{"content":[{{"type":"text","text":"a"}},{picture}]}}"#);
        let told = format!(r#"{{"content":[{{"text":"a","type":"text"}},{words}]}}"#);
        assert_eq!(parsed(&read(&both).unwrap()), parsed(&told));
        let with_structured = format!(r#"{{"structuredContent":[1,{picture}],"content":[{picture}]}}"#);
        assert_eq!(parsed(&read(&with_structured).unwrap()), parsed(&format!("[1,{words}]")));
        assert_eq!(size_of(&"A".repeat(800 * 1024)), "600 KiB");
        for json in [&both, &with_structured] {
            let mut kept = Vec::new();
            let mut keep = |media: &Media<'_>| {
                kept.push(format!("{} {}", media.kind, media.base64));
                Some("art_1".to_owned())
            };
            let told = answer(&parsed(json), &mut keep).unwrap();
            assert!(told.as_str().contains("image/png, 3 bytes, artifact art_1"), "{told}");
            assert!(kept.iter().all(|kept| kept == "image/png AAAA"), "{kept:?}");
        }
    }

    #[test]
    fn a_result_of_any_other_shape_is_kept_as_it_came() {
        for shape in [
            r#"{"toolResult":{"id":7}}"#,
            r#"{"success":true}"#,
            r#"{"content":"saved as 7"}"#,
            "null",
            "7",
            r"[1]",
            r#"{"content":[{"type":"text","text":"a"},{"type":"video","uri":"file:///v"}]}"#,
            r#"{"content":[{"id":7}]}"#,
        ] {
            let parsed: Value = serde_json::from_str(shape).unwrap();
            let expected = parsed
                .get("content")
                .filter(|content| content.is_array())
                .map_or_else(|| parsed.clone(), |content| json!({"content": content}));
            assert_eq!(read(shape).unwrap(), JsonText::encode(&expected).unwrap().to_string(), "{shape}");
        }
    }

    #[test]
    fn an_error_of_the_tool_is_told_to_the_model_in_its_own_words() {
        let error = read(
            r#"{"content":[{"type":"text","text":"no such"},{"type":"text","text":"city"}],"isError":true}"#,
        );
        let error = error.unwrap_err();
        assert_eq!((error.kind(), error.message()), (ToolErrorKind::Arguments, "no such\ncity"));
        let wordless = read(r#"{"content":[],"isError":true}"#).unwrap_err();
        assert_eq!(wordless.message(), "McpToolError");
        let picture =
            read(r#"{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}],"isError":true}"#);
        assert_eq!(picture.unwrap_err().message(), "image/png, 3 bytes");
    }
}
