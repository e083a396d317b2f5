//! The parser of a summarizer's reply: JSON with a `summary`, or any other text.

use proto_events::json::{JsonText, JsonValue as Value};

use crate::grammar::decode::escape_controls;

/// Returns the summary in a reply, trimmed: the text under `summary`, else under `content`, in the whole
/// reply or in the object inside it, else the reply itself. It may be empty, which the caller must refuse.
pub fn extract_summary(raw: &str) -> String {
    let raw = raw.trim();
    let inner = raw.find('{').zip(raw.rfind('}')).and_then(|(from, to)| raw.get(from..=to));
    let found = read(raw).or_else(|| read(inner?));
    let summary = found.as_ref().and_then(text_of);
    summary.unwrap_or(raw).trim().to_owned()
}

fn read(text: &str) -> Option<Value> {
    JsonText::parse(&escape_controls(text)).ok().map(|json| json.tree())
}

fn text_of(reply: &Value) -> Option<&str> {
    let named = |name| reply.get(name).and_then(Value::as_str);
    named("summary").or_else(|| named("content"))
}
