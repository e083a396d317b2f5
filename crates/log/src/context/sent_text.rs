//! The text that a selection sends in place of a message's own, rendered from the message and the selection alone.

use std::borrow::Cow;

use proto_events::call::{Cut, CutRule, Selection};
use proto_events::model::{LlmMessage, LlmRole};

use crate::context::cut_text::{PreparedCut, cut_text};
use crate::context::cuts_by_rule::{MessageFacts, applies};
use crate::context::result_place::{RESULT, ResultPlace};

/// The text that is sent in place of a message's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentText<'a> {
    /// The text.
    pub text: Cow<'a, str>,
    /// The number of characters of the whole text that are left out.
    pub omitted: u64,
}

/// Returns the text that a selection sends in place of a message's own, with the message's number and the role of the one before
/// it; `None` if the message is sent whole.
pub fn sent_text<'a>(
    selection: &Selection,
    number: u32,
    message: &'a LlmMessage,
    before: Option<LlmRole>,
) -> Option<SentText<'a>> {
    if let Some(cut) = selection.cut_of(number) {
        let tip = ResultPlace::tip_in(message.metadata.get(RESULT));
        return Some(cut_by(selection, cut, message, &tip, count(&message.content)));
    }
    if selection.rules.is_empty() {
        return None;
    }
    let tip = ResultPlace::tip_in(message.metadata.get(RESULT));
    let characters = count(&message.content);
    let told = MessageFacts { role: message.role, before, characters, tip: &tip };
    selection.rules.iter().find_map(|rule| {
        let cut = rule.cut_of(number)?;
        let marker = selection.marker_of(cut).unwrap_or_default();
        let sent = applies(rule, marker, told).then(|| cut_by(selection, cut, message, &tip, characters));
        sent.filter(|sent| rule.rule != CutRule::Minimized || count(&sent.text) < characters)
    })
}

fn cut_by<'a>(
    selection: &Selection,
    cut: Cut,
    message: &'a LlmMessage,
    tip: &str,
    characters: u64,
) -> SentText<'a> {
    let marker = selection.marker_of(cut).unwrap_or_default();
    let cutting = PreparedCut { rule: cut.rule, characters: cut.characters, marker, tip };
    let text = cut_text(cutting, message.role, &message.content);
    let shown = match cut.rule {
        CutRule::Head | CutRule::HeadWithTip => cut.characters,
        CutRule::Minimized => count(&text),
    };
    SentText { text, omitted: characters.saturating_sub(shown) }
}

fn count(text: &str) -> u64 {
    text.chars().count() as u64
}
