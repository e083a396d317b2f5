//! The parts of a prompt that one stream shows: its newest record, and its messages.

use proto_events::call::{CutRule, PromptRef, Selection, Sizes, read_digest};
use proto_events::id::Digest;
use proto_events::turn::TurnMessage;

use crate::api::record::StoredRecord;

/// The newest record of a stream that prompts are read from.
#[derive(Default)]
pub(crate) struct PromptTail {
    set_id: [u8; 16],
    previous: Digest,
    hash: Digest,
    events: Vec<Digest>,
}

impl PromptTail {
    pub(crate) fn from_record(stored: &StoredRecord) -> Self {
        let record = &stored.record;
        let events = record.events.iter().map(|event| event.digest).collect();
        Self { set_id: record.set_id, previous: record.previous, hash: stored.hash, events }
    }

    /// Returns the digest of the stream up to its end, for an intent of this append.
    pub(crate) fn read_in(&self, set_id: [u8; 16]) -> Digest {
        if self.set_id == set_id {
            read_digest(self.previous, self.events.iter().copied())
        } else {
            self.hash
        }
    }
}

/// The messages that an inference may be shown, without the system message: their number, and which of them answer a call.
#[derive(Default)]
pub(crate) struct PromptMessages {
    count: u32,
    /// The numbers of the answers, in ascending order. Each stands right behind its call, or behind another answer to the
    /// same message.
    answers: Vec<u32>,
}

impl PromptMessages {
    /// Returns the number of messages.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Takes the next message.
    pub(crate) fn accept_message(&mut self, message: &TurnMessage) {
        self.answers.extend(message.answers.is_some().then_some(self.count));
        self.count = self.count.saturating_add(1);
    }

    /// Takes the messages of a turn that was committed.
    pub(crate) fn commit(&mut self, turn: &Self) {
        self.answers.extend(turn.answers.iter().map(|number| number.saturating_add(self.count)));
        self.count = self.count.saturating_add(turn.count);
    }

    /// Takes the removal of as many messages at the beginning, and a message in their place if there is one.
    pub(crate) fn compact(&mut self, removed: u32, replaced: bool) {
        let added = u32::from(replaced);
        let left = self.answers.iter().filter_map(|number| number.checked_sub(removed));
        self.answers = left.map(|number| number.saturating_add(added)).collect();
        self.count = self.count.saturating_sub(removed).saturating_add(added);
    }

    /// Whether a message is an answer. Messages behind these are not known.
    pub(crate) fn is_answer(&self, number: u32) -> bool {
        self.answers.binary_search(&number).is_ok()
    }
}

/// Returns the fault of the messages that an intent names, of as many without the system message, of which these are
/// answers to calls.
pub(crate) fn count_fault(prompt: &PromptRef, there: u32, is_answer: &dyn Fn(u32) -> bool) -> Option<String> {
    let shown = match &prompt.selection {
        None => there,
        Some(selection) => match kept_of(selection, there, is_answer) {
            Ok(kept) => kept,
            Err(what) => return Some(what),
        },
    };
    let shown = shown.saturating_add(1);
    (prompt.messages != shown)
        .then(|| format!("names {} messages, but what it was shown has {shown}", prompt.messages))
}

/// Returns the number of messages that a selection keeps.
fn kept_of(selection: &Selection, there: u32, is_answer: &dyn Fn(u32) -> bool) -> Result<u32, String> {
    let kept = selection.count_of(there);
    let kept = kept.map_err(|error| format!("names a selection of messages that does not fit: {error}"))?;
    let whole = there.saturating_add(1);
    match &selection.sizes {
        Some(sizes) if sizes.messages_before != whole => {
            let named = sizes.messages_before;
            return Err(format!("names a selection of {named} messages, but there were {whole}"));
        }
        Some(Sizes { tokens_after, limit: Some(limit), .. }) if tokens_after > limit => {
            return Err(format!(
                "names a selection of {tokens_after} tokens, more than its limit of {limit}"
            ));
        }
        None if has_more_than_ranges(selection) => {
            return Err("names a selection with rules or markers, but without sizes".to_owned());
        }
        _ => {}
    }
    match parted(selection, is_answer) {
        Some(answer) => {
            Err(format!("names a selection that parts message {answer} from the call that it answers"))
        }
        None => Ok(kept),
    }
}

/// Whether a selection says what the first schema version, which has no sizes either, has no field for.
fn has_more_than_ranges(selection: &Selection) -> bool {
    !selection.rules.is_empty()
        || !selection.markers.is_empty()
        || selection.cuts.iter().any(|cut| cut.marker.is_some() || cut.rule != CutRule::Head)
}

/// Returns an answer that is kept without the message before it, or the other way round. Only the edges of ranges are looked
/// at.
fn parted(selection: &Selection, is_answer: &dyn Fn(u32) -> bool) -> Option<u32> {
    let edges =
        selection.kept.iter().flat_map(|range| [range.first, range.first.saturating_add(range.count)]);
    let mut edges = edges.filter(|edge| is_answer(*edge));
    edges.find(|edge| {
        edge.checked_sub(1).is_some_and(|before| selection.keeps(before) != selection.keeps(*edge))
    })
}
