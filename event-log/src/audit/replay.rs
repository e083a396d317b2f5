//! Rebuilds states from zero and compares them with the live fold. There are two paths through the log: this
//! module takes each event in the log's own order; recovery and queries read stream by stream
//! ([`fold_stream`]). If they disagree, one of them is wrong.

use std::collections::BTreeMap;

use proto_events::codec::AnyEvent;
use proto_events::decider::Decider;
use proto_events::definition::AgentHistory;
use proto_events::id::{Category, Position, StreamId, Version};
use proto_events::session::Session;
use proto_events::system::SystemHistory;
use proto_events::task::Task;
use proto_events::tool_store::ToolStore;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::api::record::StoredRecord;
use crate::audit::difference::{Difference, first_difference};
use crate::audit::json::{definition_json, system_json, tool_store_json};
use crate::read::fold::fold_stream;
use crate::read::for_each::for_each_record;

/// The amount replayed, and the first difference if there is one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Replayed {
    /// The number of events folded.
    pub events: u64,
    /// The number of tasks rebuilt.
    pub tasks: u64,
    /// The number of sessions rebuilt.
    pub sessions: u64,
    /// The number of tools whose state was rebuilt.
    pub tools: u64,
    /// The number of other streams rebuilt: of systems and of agents.
    pub others: u64,
    /// The first difference.
    pub mismatch: Option<Mismatch>,
}

/// A stream whose rebuilt state differs from the live one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The stream.
    pub stream: StreamId,
    /// The path of the first difference, such as `messages[2].role`.
    pub path: String,
    /// The value rebuilt from zero.
    pub rebuilt: String,
    /// The value of the live fold.
    pub live: String,
}

/// A state while it is rebuilt.
#[derive(Debug)]
enum Rebuilt {
    Task(Box<Task>),
    Session(Box<Session>),
    Tool(Box<ToolStore>),
    System(Box<SystemHistory>),
    Agent(Box<AgentHistory>),
}

#[derive(Debug)]
struct Building {
    state: Rebuilt,
    version: Version,
}

/// Replays the whole log.
///
/// # Errors
/// [`ReadError`] if an event cannot be read.
pub fn replay_all(reader: &dyn EventReader) -> Result<Replayed, ReadError> {
    replay(reader, None)
}

/// Replays one stream, read in the log's own order.
///
/// # Errors
/// [`ReadError`] if an event cannot be read.
pub fn replay_stream(reader: &dyn EventReader, stream: &StreamId) -> Result<Replayed, ReadError> {
    replay(reader, Some(stream))
}

fn replay(reader: &dyn EventReader, only: Option<&StreamId>) -> Result<Replayed, ReadError> {
    let mut built: BTreeMap<StreamId, Building> = BTreeMap::new();
    let mut report = Replayed::default();
    for_each_record(reader, Position(1), |stored| {
        if only.is_none_or(|only| *only == stored.record.stream) {
            report.events += take(&mut built, stored)?;
        }
        Ok::<(), ReadError>(())
    })?;
    for (stream, building) in built {
        match building.state {
            Rebuilt::Task(_) => report.tasks += 1,
            Rebuilt::Session(_) => report.sessions += 1,
            Rebuilt::Tool(_) => report.tools += 1,
            Rebuilt::System(_) | Rebuilt::Agent(_) => report.others += 1,
        }
        report.mismatch = compare(reader, &stream, &building)?;
        if report.mismatch.is_some() {
            break;
        }
    }
    Ok(report)
}

/// Folds a record's events into the state of its stream and returns their number.
fn take(built: &mut BTreeMap<StreamId, Building>, stored: &StoredRecord) -> Result<u64, ReadError> {
    let record = &stored.record;
    let category = record.stream.category();
    let building = built.entry(record.stream.clone()).or_insert_with(|| Building {
        state: match category {
            Some(Category::Session) => Rebuilt::Session(Box::default()),
            Some(Category::Tool) => Rebuilt::Tool(Box::default()),
            Some(Category::System) => Rebuilt::System(Box::default()),
            Some(Category::Agent) => Rebuilt::Agent(Box::default()),
            Some(Category::Task) | None => Rebuilt::Task(Box::default()),
        },
        version: Version(0),
    });
    let mut events = 0;
    for (event, version) in record.events.iter().zip(record.first_version.0..) {
        let wrong = |what: String| ReadError::Corrupt {
            what,
            stream: Some(record.stream.clone()),
            version: Some(Version(version)),
            position: Some(stored.position),
        };
        let body = event.body().ok_or_else(|| wrong("its body is missing from the log".to_owned()))?;
        let decoded = AnyEvent::decode(category, event.kind, event.schema, body)
            .map_err(|error| wrong(error.to_string()))?;
        match (&mut building.state, &decoded) {
            (Rebuilt::Task(task), AnyEvent::Task(event)) => task.evolve(event, &record.metadata),
            (Rebuilt::Session(session), AnyEvent::Session(event)) => session.evolve(event, &record.metadata),
            (Rebuilt::Tool(store), AnyEvent::Tool(event)) => store.evolve(event, &record.metadata),
            (Rebuilt::System(system), AnyEvent::System(event)) => system.evolve(event, &record.metadata),
            (Rebuilt::Agent(agent), AnyEvent::Agent(event)) => agent.evolve(event, &record.metadata),
            _ => return Err(wrong("the event is not one of this stream's category".to_owned())),
        }
        building.version = Version(version);
        events += 1;
    }
    Ok(events)
}

fn compare(
    reader: &dyn EventReader,
    stream: &StreamId,
    building: &Building,
) -> Result<Option<Mismatch>, ReadError> {
    let (version, difference) = match &building.state {
        Rebuilt::Task(task) => {
            let live = fold_stream::<Task>(reader, stream, None)?;
            let written = || first_difference(&task.to_json().tree(), &live.state.to_json().tree());
            (live.version, differ(**task == live.state, written, task.as_ref(), &live.state))
        }
        Rebuilt::Session(session) => {
            let live = fold_stream::<Session>(reader, stream, None)?;
            let written = || {
                let history = |session: &Session| session.history().to_json().tree();
                first_difference(&history(session), &history(&live.state))
            };
            (live.version, differ(**session == live.state, written, session.as_ref(), &live.state))
        }
        Rebuilt::Tool(store) => {
            let live = fold_stream::<ToolStore>(reader, stream, None)?;
            let kept = |store: &ToolStore| tool_store_json(store).tree();
            let written = || first_difference(&kept(store), &kept(&live.state));
            (live.version, differ(**store == live.state, written, store.as_ref(), &live.state))
        }
        Rebuilt::System(system) => {
            let live = fold_stream::<SystemHistory>(reader, stream, None)?;
            let written = || first_difference(&system_json(system).tree(), &system_json(&live.state).tree());
            (live.version, differ(**system == live.state, written, system.as_ref(), &live.state))
        }
        Rebuilt::Agent(agent) => {
            let live = fold_stream::<AgentHistory>(reader, stream, None)?;
            let written =
                || first_difference(&definition_json(agent).tree(), &definition_json(&live.state).tree());
            (live.version, differ(**agent == live.state, written, agent.as_ref(), &live.state))
        }
    };
    let versions = (version != building.version).then(|| Difference {
        path: "version".to_owned(),
        left: building.version.to_string(),
        right: version.to_string(),
    });
    Ok(versions.or(difference).map(|found| Mismatch {
        stream: stream.clone(),
        path: found.path,
        rebuilt: found.left,
        live: found.right,
    }))
}

/// The difference as readers see it, or in Rust's debug form for what readers do not see (open calls, the
/// open turn).
fn differ<S: std::fmt::Debug>(
    same: bool,
    written: impl FnOnce() -> Option<Difference>,
    rebuilt: &S,
    live: &S,
) -> Option<Difference> {
    if let Some(difference) = written() {
        return Some(difference);
    }
    if same {
        return None;
    }
    let (left, right) = (format!("{rebuilt:?}"), format!("{live:?}"));
    let same = left.chars().zip(right.chars()).take_while(|(a, b)| a == b).count();
    let tail = |text: &str| text.chars().skip(same.saturating_sub(40)).take(160).collect();
    Some(Difference { path: "(inner state)".to_owned(), left: tail(&left), right: tail(&right) })
}
