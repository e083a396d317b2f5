//! From what a person types to a stream: a full id, a unique beginning of one, `@last`, or a stream's own name.

use proto_events::call::CallEvent;
use proto_events::codec::record::StoredEvent;
use proto_events::codec::{Storable, kind};
use proto_events::id::{IdError, Position, StreamId, check_id};
use proto_events::task::TaskEvent;

use crate::store::{EventReader, ReadError, StoredRecord, StreamInfo};

/// Shortest beginning of an id that is looked up, in characters: fewer fit too much.
const PREFIX_CHARS_MIN: usize = 4;

/// Records read at a time.
const PAGE_RECORDS: usize = 256;

/// Streams asked for at a time.
const PAGE_STREAMS: usize = 1_024;

/// Candidates that are named when more than one fits.
const CANDIDATES_SHOWN: usize = 5;

/// Why there is no one stream of this name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// Nothing has this id or begins so.
    #[error("no task, session or tool has the id `{0}` or one that begins so")]
    Unknown(String),
    /// Nothing happened in the log yet.
    #[error("the log is empty, so that nothing was last")]
    Empty,
    /// Too short to look for.
    #[error("`{0}` is no full id, and the beginning of one needs {PREFIX_CHARS_MIN} characters")]
    TooShort(String),
    /// More than one stream fits.
    #[error("`{asked}` fits {count} streams: {}", .candidates.join(", "))]
    Ambiguous {
        /// What was typed.
        asked: String,
        /// How many fit.
        count: usize,
        /// Some of them.
        candidates: Vec<String>,
    },
    /// No call has this id.
    #[error("no call has the id `{0}`")]
    UnknownCall(String),
    /// It can be no id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// All streams whose name begins with `prefix`.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub fn streams(reader: &dyn EventReader, prefix: &str) -> Result<Vec<StreamInfo>, ReadError> {
    let mut all: Vec<StreamInfo> = Vec::new();
    loop {
        let after = all.last().map(|info| info.stream.clone());
        let page = reader.list_streams(prefix, after.as_ref(), PAGE_STREAMS)?;
        let last_page = page.len() < PAGE_STREAMS;
        all.extend(page);
        if last_page {
            return Ok(all);
        }
    }
}

/// The stream that is meant. Tasks come before sessions, those before tools; whole ids before beginnings.
///
/// # Errors
/// [`FindError`]: nothing fits, or too much.
pub fn find(reader: &dyn EventReader, asked: &str) -> Result<StreamId, FindError> {
    if asked == "@last" {
        return last(reader);
    }
    check_id(asked)?;
    if let Ok(stream) = StreamId::parse(asked)
        && reader.stream_version(&stream)?.0 > 0
    {
        return Ok(stream);
    }
    let tasks = streams(reader, "task-")?;
    let sessions = streams(reader, "session-")?;
    let tools = streams(reader, "tool-")?;
    for all in [&tasks, &sessions, &tools] {
        if let Some(found) = only(asked, all, |id| id == asked)? {
            return Ok(found);
        }
    }
    let unknown = || FindError::Unknown(asked.to_owned());
    if asked.chars().count() < PREFIX_CHARS_MIN {
        return Err(FindError::TooShort(asked.to_owned()));
    }
    for all in [&tasks, &sessions, &tools] {
        if let Some(found) = only(asked, all, |id| id.starts_with(asked))? {
            return Ok(found);
        }
    }
    Err(unknown())
}

/// The task that has a call of this id.
///
/// # Errors
/// [`FindError`]: there is no such call, or several tasks have one.
pub fn find_call(reader: &dyn EventReader, call_id: &str) -> Result<StreamId, FindError> {
    let mut found: Vec<StreamId> = Vec::new();
    let mut next = Position(1);
    loop {
        let page = reader.read_all(next, PAGE_RECORDS)?;
        let Some(last) = page.last() else { break };
        next = Position(last.last_position().0.saturating_add(1));
        let has = |stored: &&StoredRecord| stored.record.events.iter().any(|event| intends(event, call_id));
        found.extend(page.iter().filter(has).map(|stored| stored.record.stream.clone()));
    }
    match found.as_slice() {
        [] => Err(FindError::UnknownCall(call_id.to_owned())),
        [one] => Ok(one.clone()),
        several => Err(FindError::Ambiguous {
            asked: call_id.to_owned(),
            count: several.len(),
            candidates: several.iter().take(CANDIDATES_SHOWN).map(ToString::to_string).collect(),
        }),
    }
}

/// Whether this event is the intent of the call.
fn intends(event: &StoredEvent, call_id: &str) -> bool {
    let body = event.body().filter(|_| event.kind == kind::CALL_REQUESTED);
    let intent = body.and_then(|body| TaskEvent::decode(event.kind, event.schema, body).ok());
    matches!(intent, Some(TaskEvent::Call(CallEvent::Requested(request))) if request.call_id == call_id)
}

/// The one stream whose id fits, if any does.
fn only(asked: &str, all: &[StreamInfo], fits: impl Fn(&str) -> bool) -> Result<Option<StreamId>, FindError> {
    let fitting: Vec<&StreamId> =
        all.iter().map(|info| &info.stream).filter(|stream| fits(&stream.id())).collect();
    match fitting.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some((*one).clone())),
        several => Err(FindError::Ambiguous {
            asked: asked.to_owned(),
            count: several.len(),
            candidates: several.iter().take(CANDIDATES_SHOWN).map(ToString::to_string).collect(),
        }),
    }
}

/// The task in which something happened last.
fn last(reader: &dyn EventReader) -> Result<StreamId, FindError> {
    let mut position = reader.head()?;
    while position.0 > 0 {
        let page = reader.read_all(position, 1)?;
        let Some(stored) = page.first() else { break };
        if stored.record.stream.category() == "task" {
            return Ok(stored.record.stream.clone());
        }
        position = Position(stored.position.0.saturating_sub(1));
    }
    Err(FindError::Empty)
}
