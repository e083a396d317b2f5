//! The reference to a prompt as JSON.

use proto_events::call::{PromptRef, Selection, Sizes};
use proto_events::json::JsonText;

use crate::audit::json::values::{list, number, object, object_of_some, text, text_or_null};

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

/// Writes what earlier schema versions of an intent do not have only where a later one was written.
fn selection(selection: &Selection) -> JsonText {
    let has_more = selection.sizes.is_some() || !selection.markers.is_empty() || !selection.rules.is_empty();
    let or_null = |value: Option<JsonText>| has_more.then(|| value.unwrap_or_default());
    let kept = selection
        .kept
        .iter()
        .map(|range| object([("first", number(range.first)), ("count", number(range.count))]));
    let cuts = selection.cuts.iter().map(|cut| {
        object_of_some([
            ("message", Some(number(cut.message))),
            ("rule", Some(text(cut.rule.as_str()))),
            ("characters", Some(number(cut.characters))),
            ("marker", or_null(cut.marker.map(number))),
        ])
    });
    let markers = selection.markers.iter().map(|marker| text(marker));
    let rules = selection.rules.iter().map(|rule| {
        object([
            ("rule", text(rule.rule.as_str())),
            ("characters", number(rule.characters)),
            ("marker", rule.marker.map_or_else(JsonText::null, number)),
            ("except", list(rule.except.iter().map(|message| number(*message)))),
        ])
    });
    object_of_some([
        ("strategy", Some(text(&selection.strategy))),
        ("kept", Some(list(kept))),
        ("cuts", Some(list(cuts))),
        ("markers", or_null(Some(list(markers)))),
        ("sizes", or_null(selection.sizes.as_ref().map(sizes))),
        ("rules", (!selection.rules.is_empty()).then(|| list(rules))),
    ])
}

fn sizes(sizes: &Sizes) -> JsonText {
    object([
        ("counter", text(&sizes.counter)),
        ("messages_before", number(sizes.messages_before)),
        ("tokens_before", number(sizes.tokens_before)),
        ("tokens_after", number(sizes.tokens_after)),
        ("limit", sizes.limit.map_or_else(JsonText::null, number)),
    ])
}
