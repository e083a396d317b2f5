//! The parts of a prompt that one stream shows: its newest record, and the number of messages.

use proto_events::call::{PromptRef, read_digest};
use proto_events::id::Digest;

use crate::api::record::StoredRecord;

/// The newest record of a stream that prompts are read from.
#[derive(Default)]
pub(crate) struct Tail {
    set_id: [u8; 16],
    previous: Digest,
    hash: Digest,
    events: Vec<Digest>,
}

impl Tail {
    pub(crate) fn of(stored: &StoredRecord) -> Self {
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

/// Returns the fault of the number of messages that an intent names, of as many without the system message.
pub(crate) fn count_fault(prompt: &PromptRef, there: u32) -> Option<String> {
    let kept = match &prompt.selection {
        None => there,
        Some(selection) => match selection.count_of(there) {
            Ok(kept) => kept,
            Err(error) => return Some(format!("names a selection of messages that does not fit: {error}")),
        },
    };
    let before = prompt.selection.as_ref().and_then(|selection| selection.sizes.as_ref());
    let whole = there.saturating_add(1);
    if let Some(sizes) = before.filter(|sizes| sizes.messages_before != whole) {
        let named = sizes.messages_before;
        return Some(format!("names a selection of {named} messages, but there were {whole}"));
    }
    let shown = kept.saturating_add(1);
    (prompt.messages != shown)
        .then(|| format!("names {} messages, but what it was shown has {shown}", prompt.messages))
}
