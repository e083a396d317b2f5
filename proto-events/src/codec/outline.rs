//! The outline of a task: what a list shows of it, folded from the few events that change it. The other events of a stream need
//! not be decoded for it, and nothing of their bodies is held.

use std::sync::OnceLock;

use crate::codec::error::{CodecError, FieldError};
use crate::codec::storable::Storable as _;
use crate::codec::stored_model::{ObjectV1, PostedTaskV1, json, state_of};
use crate::codec::upcast::read;
use crate::codec::{kind, state_after};
use crate::model::task_state::TaskState;
use crate::task::event::TaskEvent;

/// The metadata that an outline has: `None` for a key that is not there, or has no text.
type Text = Option<String>;

/// The key of a task's metadata that names its session.
const SESSION: &str = "session_id";

/// The key of a task's metadata that says why it failed.
const ERROR: &str = "error";

/// A task, as far as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskOutline {
    state: Option<TaskState>,
    has_failed: bool,
    session: Text,
    error: Text,
}

/// The change of an outline by one event. It can be decoded by another thread than the one that folds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineChange {
    state: Option<TaskState>,
    /// Whether the state was changed, not posted.
    is_change: bool,
    /// The keys that the event sets, with their texts.
    session: Option<Text>,
    error: Option<Text>,
}

impl TaskOutline {
    /// Folds in the change by the next event.
    pub fn evolve(&mut self, change: OutlineChange) {
        let OutlineChange { state, is_change, session, error } = change;
        self.state = state.or(self.state);
        if is_change {
            self.has_failed = state == Some(TaskState::Failed);
        }
        self.session = session.unwrap_or_else(|| self.session.take());
        self.error = error.unwrap_or_else(|| self.error.take());
    }

    /// Returns the lifecycle state.
    pub fn state(&self) -> TaskState {
        self.state.unwrap_or(TaskState::Submitted)
    }

    /// Returns the session that the task's metadata names.
    pub fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Returns the error of a failed task.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref().filter(|_| self.has_failed)
    }
}

/// Whether an event of a task changes its outline.
pub const fn changes_outline(kind: u16) -> bool {
    matches!(kind, kind::SUBMITTED | kind::STATE_CHANGED | kind::METADATA_MERGED)
}

/// Returns the change of a task's outline by an event; `None` if it changes nothing.
///
/// # Errors
/// [`CodecError`] if schema version or body do not belong to such an event.
pub fn outline_change(kind: u16, schema: u8, body: &[u8]) -> Result<Option<OutlineChange>, CodecError> {
    let damaged = |error: FieldError| CodecError::Damaged { kind, why: error.to_string() };
    let (state, metadata) = match kind {
        kind::SUBMITTED => {
            let posted: PostedTaskV1<'_> = read(kind, schema, body)?;
            (Some(state_of(posted.state()).map_err(damaged)?), Some(posted.into_metadata()))
        }
        kind::STATE_CHANGED => (state_after(kind, schema, body)?, None),
        kind::METADATA_MERGED => (None, Some(read::<ObjectV1<'_>>(kind, schema, body)?)),
        _ => return Ok(None),
    };
    let text = |key: &str| -> Result<Option<Text>, CodecError> {
        let Some(found) = metadata.as_ref().and_then(|metadata| metadata.text(key)) else { return Ok(None) };
        Ok(Some(json(found).map_err(damaged)?.to_str()))
    };
    let (session, error) = (text(SESSION)?, text(ERROR)?);
    Ok(Some(OutlineChange { state, is_change: kind == kind::STATE_CHANGED, session, error }))
}

/// The highest kind of an event that may stand in a task's stream, less one.
const KINDS: usize = 300;

/// Whether this release reads events of a kind and schema version in a task's stream.
pub fn reads_task_event(kind: u16, schema: u8) -> bool {
    /// The newest schema version of each kind; 0 for a number that is not a kind of a task's event.
    static NEWEST: OnceLock<Vec<u8>> = OnceLock::new();
    let newest = NEWEST.get_or_init(|| {
        let is_read = |kind, schema| {
            // A body of no bytes is damaged, unless the kind or the version is not known at all.
            let decoded = TaskEvent::decode(kind, schema, &[]);
            !matches!(decoded, Err(CodecError::UnknownKind { .. } | CodecError::UnknownSchema { .. }))
        };
        let newest = |kind| (1..=u8::MAX).take_while(|schema| is_read(kind, *schema)).last();
        (0..).take(KINDS).map(|kind| newest(kind).unwrap_or(0)).collect()
    });
    schema > 0 && newest.get(usize::from(kind)).is_some_and(|newest| schema <= *newest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decider::Decider as _;
    use crate::envelope::Metadata;
    use crate::id::Digest;
    use crate::json::{JsonObject, JsonText};
    use crate::model::posted_task::PostedTask;
    use crate::task::Task;

    /// Returns the same numbers in every run.
    fn dice(state: &mut u64, below: u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state % below
    }

    fn entries(dice: &mut impl FnMut(u64) -> u64) -> JsonObject {
        let mut object = JsonObject::new();
        for key in [SESSION, ERROR, "other"] {
            let value =
                ["\"one\"", "\"t\\u00e4xt\"", "null", "7", "[\"a\"]"][usize::try_from(dice(5)).unwrap()];
            if dice(2) == 0 {
                object.set(key.to_owned(), JsonText::parse(value).unwrap());
            }
        }
        object
    }

    fn posted(state: TaskState, metadata: JsonObject) -> PostedTask {
        PostedTask {
            id: "t".to_owned(),
            state,
            messages: Vec::new(),
            artifacts: Vec::new(),
            metadata,
            flow_state: JsonText::empty_object(),
            created_at: None,
            filled_in: Vec::new(),
            source: None,
        }
    }

    #[test]
    fn an_outline_says_what_the_whole_fold_says_after_any_events() {
        let mut seed = 0x9e37_79b9_7f4a_7c15;
        let mut dice = |below| dice(&mut seed, below);
        let states = TaskState::ALL;
        for _ in 0..2_000 {
            let (mut task, mut outline) = (Task::default(), TaskOutline::default());
            for number in 0..=dice(8) {
                let state = states[usize::try_from(dice(states.len() as u64)).unwrap()];
                let event = match dice(4) {
                    _ if number == 0 => TaskEvent::Submitted(Box::new(posted(state, entries(&mut dice)))),
                    0 => TaskEvent::StateChanged { from: task.state(), to: state, budget: None },
                    1 => TaskEvent::MetadataMerged(entries(&mut dice)),
                    2 => TaskEvent::CancelRequested { reason: Some("enough".to_owned()) },
                    _ => TaskEvent::PostedAgain { source: Digest::compute(b"again") },
                };
                let stored = event.encode().unwrap();
                let change = outline_change(stored.kind, stored.schema, &stored.body).unwrap();
                assert_eq!(change.is_some(), changes_outline(stored.kind));
                assert!(reads_task_event(stored.kind, stored.schema));
                if let Some(change) = change {
                    outline.evolve(change);
                }
                task.evolve(&event, &Metadata::default());
                let session = task.metadata().get(SESSION).and_then(JsonText::to_str);
                assert_eq!(outline.state(), task.state());
                assert_eq!(outline.session(), session.as_deref());
                assert_eq!(outline.error(), task.error().as_deref());
            }
        }
    }

    #[test]
    fn kinds_and_versions_are_read_exactly_where_decoding_knows_them() {
        for kind in 0..1_000 {
            for schema in 0..=u8::MAX {
                let decoded = TaskEvent::decode(kind, schema, &[]);
                let is_unknown =
                    matches!(decoded, Err(CodecError::UnknownKind { .. } | CodecError::UnknownSchema { .. }));
                assert_eq!(reads_task_event(kind, schema), !is_unknown, "{kind} {schema}");
            }
        }
        assert!(reads_task_event(kind::CALL_REQUESTED, 1) && !reads_task_event(kind::OPENED, 1));
    }

    #[test]
    fn any_bytes_are_refused_or_read_without_a_panic() {
        let mut seed = 0x1234_5678_9abc_def1;
        for _ in 0..20_000 {
            let body: Vec<u8> =
                (0..dice(&mut seed, 40)).map(|_| dice(&mut seed, 256).to_le_bytes()[0]).collect();
            for kind in [kind::SUBMITTED, kind::STATE_CHANGED, kind::METADATA_MERGED] {
                let _ = outline_change(kind, 1, &body);
            }
        }
    }
}
