//! Checks that a command which its caller named was decided once: the same id again gets the first answer.
//!
//! One command may be written in several records. They follow one another and have one time; or a repetition of
//! the command only resumed the task's work, which decides nothing of the caller's.

use std::collections::HashMap;

use proto_events::call::{CallEvent, VerdictBy};
use proto_events::envelope::{DELEGATED_COMMAND, OWN_COMMAND, Timestamp};
use proto_events::id::Digest;
use proto_events::task::TaskEvent;

use crate::api::record::StoredRecord;

/// The named commands of a stream read so far.
#[derive(Default)]
pub(crate) struct CommandsCheck {
    /// The place at which each named command was decided, by the beginning of its id's digest.
    known: HashMap<[u8; 8], DecisionPlace>,
    record: RecordKinds,
}

/// The place of a command's decision.
#[derive(Clone, Copy)]
struct DecisionPlace {
    first: u64,
    /// The last version of its newest record.
    last: u64,
    at: Timestamp,
}

/// The kinds of events that the open record holds so far.
#[derive(Default)]
struct RecordKinds {
    /// An event that only a caller's command leads to.
    of_caller: bool,
    /// A message or a change of metadata; the end of a run leads to both, too.
    adds: bool,
    /// A change of the task's state.
    changes_state: bool,
}

impl CommandsCheck {
    /// Takes the next event of the open record.
    pub(crate) fn record(&mut self, event: &TaskEvent) {
        match event {
            TaskEvent::Submitted(_)
            | TaskEvent::PostedAgain { .. }
            | TaskEvent::CancelRequested { .. }
            | TaskEvent::ApprovalDecided(_)
            | TaskEvent::ArtifactAppended { part: None, .. }
            | TaskEvent::Call(
                CallEvent::Abandoned { .. } | CallEvent::Reconciled { by: VerdictBy::Operator(_), .. },
            ) => self.record.of_caller = true,
            TaskEvent::MessageAppended(_) | TaskEvent::MetadataMerged(_) => self.record.adds = true,
            TaskEvent::StateChanged { .. } => self.record.changes_state = true,
            _ => {}
        }
    }

    /// Takes the end of the record and returns its fault.
    pub(crate) fn end_record(&mut self, stored: &StoredRecord) -> Option<String> {
        let RecordKinds { of_caller, adds, changes_state } = std::mem::take(&mut self.record);
        let metadata = &stored.record.metadata;
        metadata.command_digest?;
        let (first, last) = (stored.record.first_version.0, stored.record.last_version().0);
        let is_own = metadata.command_id.starts_with(OWN_COMMAND);
        if is_own && !metadata.command_id.starts_with(DELEGATED_COMMAND) {
            let id = &metadata.command_id;
            return Some(format!(
                "command `{id}` has the digest of a caller's text, but its id is the system's own"
            ));
        }
        let short =
            Digest::compute(metadata.command_id.as_bytes()).0.first_chunk().copied().unwrap_or_default();
        let Some(known) = self.known.get_mut(&short) else {
            self.known.insert(short, DecisionPlace { first, last, at: metadata.at });
            return None;
        };
        let goes_on = known.at == metadata.at && known.last + 1 == first;
        known.last = last;
        let decides = of_caller || (adds && !changes_state);
        (decides && !goes_on).then(|| {
            let (id, version) = (&metadata.command_id, known.first);
            format!("command `{id}` was decided at version {version} already, and again here")
        })
    }
}
