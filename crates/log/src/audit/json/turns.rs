//! The messages of turns, and what a model's reply cost, as JSON.

use proto_events::call::TokenUsage;
use proto_events::json::JsonText;
use proto_events::turn::TurnMessage;

use crate::audit::json::values::{number, object, text_or_null};

/// Returns the fields of a turn's message.
pub(crate) fn turn_message(message: &TurnMessage) -> JsonText {
    object([
        ("message", message.message.to_json()),
        ("infer_call", text_or_null(message.infer_call.as_deref())),
        ("asks", JsonText::of_model(&message.asks)),
        ("answers", text_or_null(message.answers.as_deref())),
    ])
}

/// Returns the tokens of a reply, or null.
pub(crate) fn usage_json(usage: Option<TokenUsage>) -> JsonText {
    usage.map_or_else(JsonText::null, |usage| {
        object([("input_tokens", number(usage.input_tokens)), ("output_tokens", number(usage.output_tokens))])
    })
}
