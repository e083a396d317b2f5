//! The prompt of a message. A model is asked by a part of the kind `infer`; a client of A2A sends texts. So a message for an
//! agent that works by a model gets such a part at its end, made of the others: they stay as they were sent, and on the way
//! back to A2A it is left out again.

use proto_events::json::JsonText;
use proto_events::model::Part;

use crate::a2a::mapping::CARRIER;

/// The kind of such a part.
pub(crate) const PROMPT: &str = "infer";

/// Returns the part by which a model is asked what a message's parts say; `None` if they say nothing, or hold work that is
/// carried out as it is.
pub(crate) fn prompt_of(parts: &[Part]) -> Option<Part> {
    if parts.iter().any(|part| matches!(part.kind(), "tool_call" | "infer")) {
        return None;
    }
    let said: Vec<String> = parts.iter().filter_map(prompt_text).collect();
    (!said.is_empty()).then(|| Part::infer(said.join("\n\n")))
}

/// Returns what a part says to a model: a text as it is, data as JSON, a file by its name and address.
fn prompt_text(part: &Part) -> Option<String> {
    if part.kind() == CARRIER {
        return None;
    }
    let text = part.content().to_str();
    let said = text.unwrap_or_else(|| match part.kind() {
        "bytes" => described(part.content()),
        _ => part.content().to_string(),
    });
    Some(said).filter(|said| !said.trim().is_empty())
}

/// Returns a file without its bytes.
fn described(file: &JsonText) -> String {
    let mut members: proto_events::json::JsonObject = file.read().unwrap_or_default();
    members.remove("raw");
    members.to_text().to_string()
}
