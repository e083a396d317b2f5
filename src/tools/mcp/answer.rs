//! The answer of an MCP server to a call, as a tool's result or failure.

use proto_events::json::JsonText;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;

use crate::tools::error::ToolError;

/// The result where neither the structured result nor the texts are the whole answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Whole<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a serde_json::Value>,
    content: &'a [ContentBlock],
}

/// Returns the structured result if there is one, a single text as a string, anything else as the server's
/// own content. An error of the tool is reported to the model, which may try another way.
pub(crate) fn answer(result: &CallToolResult) -> Result<JsonText, ToolError> {
    let texts: Vec<&str> = result.content.iter().filter_map(text_of).collect();
    let only_texts = texts.len() == result.content.len();
    if result.is_error == Some(true) {
        let words = match (texts.is_empty(), &result.structured_content) {
            (false, _) => texts.join("\n"),
            (true, Some(structured)) => structured.to_string(),
            (true, None) => String::new(),
        };
        return Err(ToolError::arguments(words).with_type("McpToolError"));
    }
    let json = match (&result.structured_content, texts.as_slice()) {
        (Some(structured), _) if only_texts => JsonText::of(structured),
        (None, [text]) if only_texts => JsonText::of(text),
        (structured, _) => {
            JsonText::of(&Whole { structured_content: structured.as_ref(), content: &result.content })
        }
    };
    json.map_err(|error| ToolError::lost(format!("the server's result cannot be kept: {error}")))
}

fn text_of(content: &ContentBlock) -> Option<&str> {
    match content {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::error::ToolErrorKind;

    fn read(json: &str) -> Result<String, ToolError> {
        answer(&serde_json::from_str(json).unwrap()).map(|json| json.to_string())
    }

    #[test]
    fn a_structured_result_is_kept_as_it_is_and_a_single_text_is_a_string() {
        let structured = r#"{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1180591620717411303424,"b":1.50}}"#;
        // Numbers are those of `rmcp`: integers of 64 bits, or floats.
        assert_eq!(read(structured).unwrap(), r#"{"a":1.1805916207174113e+21,"b":1.5}"#);
        assert_eq!(read(r#"{"content":[{"type":"text","text":"hi"}]}"#).unwrap(), r#""hi""#);
        assert_eq!(read(r#"{"content":[]}"#).unwrap(), r#"{"content":[]}"#);
        let null = r#"{"content":[],"structuredContent":null}"#;
        assert_eq!(read(null).unwrap(), "null");
    }

    #[test]
    fn content_of_several_kinds_is_kept_whole() {
        let both = r#"{"content":[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"}]}"#;
        assert_eq!(read(both).unwrap(), both);
        let with_structured =
            r#"{"structuredContent":[1],"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}"#;
        assert_eq!(read(with_structured).unwrap(), with_structured);
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
    }
}
