//! What recovery would do with every open call of a task, had its process died behind a version: asked of the very
//! function that recovery asks ([`resume`]), on the very fold that it would find.

use proto_events::call::recovery::{Moment, Next, resume};
use proto_events::call::{Call, CallEvent};
use proto_events::envelope::Timestamp;
use proto_events::id::{StreamId, Version};
use proto_events::model::TaskState;
use proto_events::session::Session;
use proto_events::task::Task;
use proto_events::tool_store::ToolStore;

use super::words;
use crate::store::fold::fold_stream;
use crate::store::{EventReader, ReadError};

/// What would become of a task, a session or a tool's state.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// The version behind which the process died: the end of the append that holds the one asked for.
    pub version: Version,
    /// The versions of that append: they are on disk together or not at all.
    pub append: (Version, Version),
    /// What there is to recover.
    pub found: Found,
}

/// What recovery finds.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// A task.
    Task {
        /// Where it is in its life. Only a task that is `working` is taken up again by itself.
        state: TaskState,
        /// Its open calls, in the order in which they are dealt with.
        calls: Vec<Fate>,
    },
    /// A session.
    Session {
        /// The stream of the task that has the turn, if one is open. It ends it; a session makes no calls.
        turn_of: Option<String>,
    },
    /// What a tool keeps. It is written with the success of a call or not at all, so nothing is left to be done.
    Tool {
        /// How many keys it has.
        keys: usize,
    },
}

/// What would become of an open call.
#[derive(Debug, Clone, PartialEq)]
pub struct Fate {
    /// The call as the log has it.
    pub call: Call,
    /// The events that would be appended. None, if the task is not taken up again, or if what comes next depends on
    /// what the tool's probe answers.
    pub events: Vec<CallEvent>,
    /// The same in words.
    pub words: String,
}

/// Asks what recovery would do, had the process died when the event of this version was on disk.
///
/// # Errors
/// [`ReadError`] if the stream cannot be read.
pub fn explain(reader: &dyn EventReader, stream: &StreamId, at: Version) -> Result<Explained, ReadError> {
    let page = reader.read_stream(stream, at, 1)?;
    let append =
        page.first().map_or((at, at), |stored| (stored.record.first_version, stored.record.last_version()));
    let version = append.1;
    // A process that starts at once: what depends on the time is asked of this moment.
    let died = page.first().map(|stored| stored.record.metadata.at).unwrap_or_default();
    let found = match stream.category() {
        "session" => {
            let session = fold_stream::<Session>(reader, stream, Some(version))?.state;
            Found::Session { turn_of: session.open_turn().map(|open| open.task.clone()) }
        }
        "tool" => {
            let store = fold_stream::<ToolStore>(reader, stream, Some(version))?.state;
            Found::Tool { keys: store.len() }
        }
        _ => {
            let task = fold_stream::<Task>(reader, stream, Some(version))?.state;
            Found::Task {
                state: task.state(),
                calls: task.calls().open().map(|call| fate(&task, call, died)).collect(),
            }
        }
    };
    Ok(Explained { version, append, found })
}

fn fate(task: &Task, call: &Call, at: Timestamp) -> Fate {
    // The next process has a higher epoch than any in the log; the words do not depend on which.
    let moment = Moment { epoch: call.epoch.saturating_add(1), at };
    let command = task.run().and_then(|_| resume(call, moment));
    let (events, words) = match command {
        None => (Vec::new(), format!("nothing, since the task is {}", task.state())),
        Some(Next::Probe { why }) => (Vec::new(), words::probed(&why)),
        Some(Next::Write(command)) => {
            let events = task.calls().decide(command, task.state().is_terminal()).unwrap_or_default();
            let words = events.first().map_or_else(String::new, |event| words::does(event, &call.request));
            (events, words)
        }
    };
    Fate { call: call.clone(), events, words }
}
