//! Resolves what a person types to a stream: a full id, a unique prefix of one, `@last`, or a stream's own
//! name.

use proto_events::id::{Category, IdError, Position, StreamId, check_id};

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::api::record::StreamInfo;
use crate::read::for_each::for_each_stream;

/// The shortest prefix of an id that is looked up, in characters: a shorter one matches too much.
pub(crate) const PREFIX_CHARS_MIN: usize = 4;

/// The number of candidates named in an ambiguity error.
pub(crate) const CANDIDATES_SHOWN: usize = 5;

/// The reason why a name does not resolve to one stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// No stream has this id or prefix.
    #[error("no task, session or tool has the id `{0}` or an id with this beginning")]
    Unknown(String),
    /// The log has no events yet.
    #[error("the log has no task yet, so `@last` names none")]
    Empty,
    /// The prefix is too short to look up.
    #[error("`{0}` is not an id, and the beginning of an id needs at least {PREFIX_CHARS_MIN} characters")]
    TooShort(String),
    /// More than one stream matches.
    #[error("`{asked}` matches {count} streams: {}", .candidates.join(", "))]
    Ambiguous {
        /// The text typed.
        asked: String,
        /// The number of matches.
        count: usize,
        /// The first matches.
        candidates: Vec<String>,
    },
    /// No call has this id.
    #[error("no call has the id `{0}`")]
    UnknownCall(String),
    /// More than one call or approval matches.
    #[error("`{asked}` is the beginning or the end of {count} ids: {}", .candidates.join(", "))]
    AmbiguousCall {
        /// The text typed.
        asked: String,
        /// The number of matches.
        count: usize,
        /// The first matches, each with its task.
        candidates: Vec<String>,
    },
    /// The text cannot be an id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Returns all streams whose name begins with `prefix`.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub fn streams(reader: &dyn EventReader, prefix: &str) -> Result<Vec<StreamInfo>, ReadError> {
    let mut all: Vec<StreamInfo> = Vec::new();
    for_each_stream(reader, prefix, |info| all.push(info))?;
    Ok(all)
}

/// Returns the stream that `asked` names. Tasks take precedence over sessions, sessions over tools over agents over
/// registries; full ids
/// over the shortened names of lists (`s:` before a session's id, `t:` before a tool's), and these over prefixes.
///
/// # Errors
/// [`FindError`] if no stream matches, or more than one.
pub fn find(reader: &dyn EventReader, asked: &str) -> Result<StreamId, FindError> {
    if asked == "@last" {
        return last(reader);
    }
    // Before its length is looked at: the name of a stream may be longer than any id.
    if let Ok(stream) = StreamId::parse(asked)
        && reader.stream_version(&stream)?.0 > 0
    {
        return Ok(stream);
    }
    check_id(asked)?;
    let tasks = streams(reader, Category::Task.prefix())?;
    let sessions = streams(reader, Category::Session.prefix())?;
    let tools = streams(reader, Category::Tool.prefix())?;
    let agents = streams(reader, Category::Agent.prefix())?;
    let registries = streams(reader, Category::Registry.prefix())?;
    for all in [&tasks, &sessions, &tools, &agents, &registries] {
        if let Some(found) = only(asked, all, |id| id == asked)? {
            return Ok(found);
        }
    }
    for (shortening, all) in [("s:", &sessions), ("t:", &tools)] {
        let Some(named) = asked.strip_prefix(shortening) else { continue };
        let found = match only(named, all, |id| id == named)? {
            None if named.chars().count() >= PREFIX_CHARS_MIN => {
                only(named, all, |id| id.starts_with(named))?
            }
            found => found,
        };
        if let Some(found) = found {
            return Ok(found);
        }
    }
    let unknown = || FindError::Unknown(asked.to_owned());
    if asked.chars().count() < PREFIX_CHARS_MIN {
        return Err(FindError::TooShort(asked.to_owned()));
    }
    for all in [&tasks, &sessions, &tools, &agents, &registries] {
        if let Some(found) = only(asked, all, |id| id.starts_with(asked))? {
            return Ok(found);
        }
    }
    Err(unknown())
}

/// Returns the only stream whose id fits, if any does.
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

/// Returns the most recently changed task.
fn last(reader: &dyn EventReader) -> Result<StreamId, FindError> {
    let mut position = reader.head()?;
    while position.0 > 0 {
        let page = reader.read_all(position, 1)?;
        let Some(stored) = page.first() else { break };
        if stored.record.stream.category() == Some(Category::Task) {
            return Ok(stored.record.stream.clone());
        }
        position = Position(stored.position.0.saturating_sub(1));
    }
    Err(FindError::Empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::store::EventStore as _;
    use crate::memory::MemoryStore;
    use crate::testing::conformance::sketch::Author;

    #[test]
    fn the_name_of_a_stream_is_found_although_it_is_longer_than_any_id() {
        let store = MemoryStore::new();
        let stream = StreamId::task("agent", &"名".repeat(22)).unwrap();
        assert!(stream.as_str().len() > 200);
        let append = Author::new(store.fence()).append_one(&stream, b"");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.append(append)).unwrap();
        assert_eq!(find(&store, stream.as_str()).unwrap(), stream);
        assert!(matches!(find(&store, &"x".repeat(201)), Err(FindError::Id(_))));
    }
}
