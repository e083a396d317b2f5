//! Resolves what a person types to a call, an approval or a question: its id, or a unique beginning or end of the id.

use std::collections::BTreeSet;

use proto_events::call::CallEvent;
use proto_events::codec::record::StoredEvent;
use proto_events::codec::{Storable, kind};
use proto_events::id::{Position, StreamId, Version};
use proto_events::task::TaskEvent;

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::api::record::StoredRecord;
use crate::read::for_each::for_each_record;
use crate::views::find::{CANDIDATES_SHOWN, FindError, PREFIX_CHARS_MIN};

/// Returns the task that has a call with this id, or with an id of which this is the only beginning or end.
///
/// # Errors
/// [`FindError`] if the call does not exist, or several tasks have one.
pub fn find_call(reader: &dyn EventReader, call_id: &str) -> Result<StreamId, FindError> {
    resolve_call(reader, None, call_id).map(|(stream, _)| stream)
}

/// Returns the call that is named by its id or by a unique beginning or end of it, in one task or in all:
/// the task's stream and the whole id.
///
/// # Errors
/// [`FindError`] if no call matches, or more than one.
pub fn resolve_call(
    reader: &dyn EventReader,
    only: Option<&StreamId>,
    asked: &str,
) -> Result<(StreamId, String), FindError> {
    resolve(reader, only, asked, &intended)
}

/// Returns the approval that is named by its id or by a unique beginning or end of it, in one task or in all:
/// the task's stream and the whole id.
///
/// # Errors
/// [`FindError`] if no approval matches, or more than one.
pub fn find_approval(
    reader: &dyn EventReader,
    only: Option<&StreamId>,
    asked: &str,
) -> Result<(StreamId, String), FindError> {
    resolve(reader, only, asked, &approval_asked)
}

/// Returns the task that has the question of this name, see [`Call::question_id`](proto_events::call::Call::question_id):
/// of the call with this id, if there is one, or else of the call whose id stands before the number.
///
/// # Errors
/// As [`find_call`].
pub fn find_question(reader: &dyn EventReader, named: &str) -> Result<StreamId, FindError> {
    let of_call = named.rsplit_once(':').filter(|(_, number)| number.parse::<u32>().is_ok());
    match (find_call(reader, named), of_call) {
        (Err(FindError::UnknownCall(_)), Some((call_id, _))) => find_call(reader, call_id),
        (found, _) => found,
    }
}

/// The ids that a log has, as far as what was typed may name them.
#[derive(Default)]
struct Matches {
    exact: BTreeSet<(StreamId, String)>,
    partial: BTreeSet<(StreamId, String)>,
}

fn resolve(
    reader: &dyn EventReader,
    only: Option<&StreamId>,
    asked: &str,
    id_of: &dyn Fn(&StoredEvent) -> Option<String>,
) -> Result<(StreamId, String), FindError> {
    let mut found = Matches::default();
    let mut take = |stored: &StoredRecord| {
        for id in stored.record.events.iter().filter_map(id_of) {
            let by_part = asked.chars().count() >= PREFIX_CHARS_MIN;
            if id == asked {
                found.exact.insert((stored.record.stream.clone(), id));
            } else if by_part && (id.starts_with(asked) || id.ends_with(asked)) {
                found.partial.insert((stored.record.stream.clone(), id));
            }
        }
    };
    match only {
        None => for_each_record(reader, Position(1), |stored| {
            take(stored);
            Ok::<_, ReadError>(())
        })?,
        Some(stream) => for_each_page_of(reader, stream, Version(1), |page| {
            page.iter().for_each(&mut take);
            Ok::<_, ReadError>(std::ops::ControlFlow::Continue(()))
        })?,
    }
    let matches = if found.exact.is_empty() { found.partial } else { found.exact };
    let count = matches.len();
    let named = |(stream, id): &(StreamId, String)| format!("{id} of {stream}");
    let candidates = matches.iter().take(CANDIDATES_SHOWN).map(named).collect();
    match (count, matches.into_iter().next()) {
        (1, Some(one)) => Ok(one),
        (0, _) | (_, None) => Err(FindError::UnknownCall(asked.to_owned())),
        _ => Err(FindError::AmbiguousCall { asked: asked.to_owned(), count, candidates }),
    }
}

/// Returns the id of the call whose intent the event is.
fn intended(event: &StoredEvent) -> Option<String> {
    match decoded(event, kind::CALL_REQUESTED)? {
        TaskEvent::Call(CallEvent::Requested(request)) => Some(request.call_id),
        _ => None,
    }
}

/// Returns the id of the approval that the event requests.
fn approval_asked(event: &StoredEvent) -> Option<String> {
    match decoded(event, kind::APPROVAL_REQUESTED)? {
        TaskEvent::ApprovalRequested(asked) => Some(asked.approval_id),
        _ => None,
    }
}

fn decoded(event: &StoredEvent, kind: u16) -> Option<TaskEvent> {
    let body = event.body().filter(|_| event.kind == kind)?;
    TaskEvent::decode(event.kind, event.schema, body).ok()
}
