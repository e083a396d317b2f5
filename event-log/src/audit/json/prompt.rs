//! The reference to a prompt as JSON.

use proto_events::call::{PromptRef, Selection};
use proto_events::json::JsonText;

use crate::audit::json::values::{list, number, object, text, text_or_null};

/// Returns the reference of an intent to what the model was shown.
pub(crate) fn prompt(prompt: &PromptRef) -> JsonText {
    object([
        ("session", text_or_null(prompt.session.as_deref())),
        ("read_to", number(prompt.read_through.0)),
        ("revision", number(prompt.revision)),
        ("messages", number(prompt.messages)),
        ("tokens", prompt.tokens.map_or_else(JsonText::null, number)),
        ("selection", prompt.selection.as_ref().map_or_else(JsonText::null, selection)),
        ("digest", text(&prompt.digest.to_string())),
        ("renderer", number(prompt.renderer)),
    ])
}

fn selection(selection: &Selection) -> JsonText {
    let kept = selection
        .kept
        .iter()
        .map(|range| object([("first", number(range.first)), ("count", number(range.count))]));
    let cuts = selection.cuts.iter().map(|cut| {
        let rule = text(cut.rule.as_str());
        object([("message", number(cut.message)), ("rule", rule), ("characters", number(cut.characters))])
    });
    object([("strategy", text(&selection.strategy)), ("kept", list(kept)), ("cuts", list(cuts))])
}
