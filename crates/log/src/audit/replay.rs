//! Rebuilds states from zero and compares them with the live fold. There are two paths through the log: this
//! module takes each event in the log's own order; recovery and queries read stream by stream
//! ([`fold_stream`]). If they disagree, one of them is wrong.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use proto_events::codec::AnyEvent;
use proto_events::decider::Decider;
use proto_events::definition::AgentHistory;
use proto_events::flow::FlowRun;
use proto_events::id::{Category, Position, StreamId, Version};
use proto_events::registry::RegistryState;
use proto_events::session::Session;
use proto_events::system::SystemHistory;
use proto_events::task::Task;
use proto_events::tool_store::ToolStore;

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page};
use crate::api::record::StoredRecord;
use crate::api::scan::Compare;
use crate::audit::difference::{Difference, first_difference};
use crate::audit::json::{definition_json, flow_json, registry_json, system_json, tool_store_json};
use crate::limits::REPLAY_PASS_BYTES;
use crate::read::fold::{decode_event, fold_stream};

/// The amount replayed, and the first difference if there is one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReplaySummary {
    /// The number of events folded.
    pub events: u64,
    /// The number of tasks rebuilt.
    pub tasks: u64,
    /// The number of sessions rebuilt.
    pub sessions: u64,
    /// The number of tools whose state was rebuilt.
    pub tools: u64,
    /// The number of other streams rebuilt: of systems, of agents and of runs' flow states.
    pub others: u64,
    /// The first difference.
    pub mismatch: Option<Mismatch>,
    /// The error of each stream that is left out because a newer release wrote an event of it: [`ReadError::Newer`].
    pub newer: Vec<ReadError>,
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
    Flow(Box<FlowRun>),
    Registry(Box<RegistryState>),
}

#[derive(Debug)]
struct StreamState {
    state: Rebuilt,
    version: Version,
    events: u64,
}

/// Replays the whole log. Streams that a newer release wrote are left out and named.
///
/// # Errors
/// [`ReadError`] if an event cannot be read.
pub fn replay_all(reader: &dyn EventReader) -> Result<ReplaySummary, ReadError> {
    replay(reader, None)
}

/// Replays one stream, read in the log's own order.
///
/// # Errors
/// [`ReadError`] if an event cannot be read.
pub fn replay_stream(reader: &dyn EventReader, stream: &StreamId) -> Result<ReplaySummary, ReadError> {
    replay(reader, Some(stream))
}

fn replay(reader: &dyn EventReader, only: Option<&StreamId>) -> Result<ReplaySummary, ReadError> {
    match only {
        Some(only) => {
            let streams = HashSet::from([only.clone()]);
            let pass = ReplayPass { streams, bytes: 0, from: Position(1), through: reader.head()? };
            let mut report = replay_pass(reader, &pass)?;
            report.newer.pop().map_or(Ok(report), Err)
        }
        None => replay_in_passes(reader, REPLAY_PASS_BYTES),
    }
}

/// Replays the whole log. The states of one pass are in memory together, so a large log needs several.
fn replay_in_passes(reader: &dyn EventReader, pass_bytes: u64) -> Result<ReplaySummary, ReadError> {
    let mut report = ReplaySummary::default();
    for pass in passes(reader, pass_bytes)? {
        let more = replay_pass(reader, &pass)?;
        report.events += more.events;
        report.tasks += more.tasks;
        report.sessions += more.sessions;
        report.tools += more.tools;
        report.others += more.others;
        report.mismatch = more.mismatch;
        report.newer.extend(more.newer);
        if report.mismatch.is_some() {
            break;
        }
    }
    Ok(report)
}

/// The streams that are rebuilt in one pass, and the part of the log in which they stand.
#[derive(Debug, Default)]
struct ReplayPass {
    streams: HashSet<StreamId>,
    bytes: u64,
    from: Position,
    through: Position,
}

/// The size of a stream's bodies, and the part of the log in which the stream stands.
struct ReplayExtent {
    bytes: u64,
    first: Position,
    last: Position,
}

/// Returns the passes in the order in which their streams begin: each has as many streams as have bodies of this size together,
/// at least one. Streams that begin beside each other mostly end so, and a pass then reads a part of the log.
fn passes(reader: &dyn EventReader, pass_bytes: u64) -> Result<Vec<ReplayPass>, ReadError> {
    let mut extents: BTreeMap<String, ReplayExtent> = BTreeMap::new();
    reader.scan(Position(1), Compare::Checksums, &mut |scanned| {
        let mut bytes = 0;
        for event in scanned.record.events() {
            bytes += u64::from(event.map_err(|error| scanned.corrupt(error.to_string()))?.body_len);
        }
        let (first, last) = (scanned.position, scanned.last_position());
        match extents.get_mut(scanned.record.stream) {
            Some(extent) => {
                extent.bytes += bytes;
                extent.last = last;
            }
            None => {
                extents.insert(scanned.record.stream.to_owned(), ReplayExtent { bytes, first, last });
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let mut by_beginning: Vec<_> = extents.into_iter().collect();
    by_beginning.sort_unstable_by_key(|(_, extent)| extent.first);
    let (mut all, mut pass) = (Vec::new(), ReplayPass::default());
    for (name, ReplayExtent { bytes, first, last }) in by_beginning {
        if pass.bytes + bytes > pass_bytes && !pass.streams.is_empty() {
            all.push(std::mem::take(&mut pass));
        }
        if pass.streams.is_empty() {
            pass.from = first;
        }
        pass.bytes += bytes;
        pass.through = pass.through.max(last);
        let stream = StreamId::parse(&name).map_err(|error| ReadError::corrupt(error.to_string(), None))?;
        pass.streams.insert(stream);
    }
    all.push(pass);
    Ok(all)
}

/// Replays the streams of a pass.
fn replay_pass(reader: &dyn EventReader, pass: &ReplayPass) -> Result<ReplaySummary, ReadError> {
    let mut built: BTreeMap<StreamId, StreamState> = BTreeMap::new();
    let mut report = ReplaySummary::default();
    let mut left_out = HashSet::new();
    for_each_page(reader, pass.from, |page| {
        for stored in page.iter().take_while(|stored| stored.position <= pass.through) {
            let stream = &stored.record.stream;
            if !pass.streams.contains(stream) || left_out.contains(stream) {
                continue;
            }
            match fold_record(&mut built, stored) {
                Err(error @ ReadError::Newer { .. }) => {
                    report.newer.push(error);
                    built.remove(stream);
                    left_out.insert(stream.clone());
                }
                other => other?,
            }
        }
        let is_through = page.last().is_none_or(|stored| stored.last_position() >= pass.through);
        Ok::<_, ReadError>(if is_through { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    for (stream, building) in built {
        report.events += building.events;
        match building.state {
            Rebuilt::Task(_) => report.tasks += 1,
            Rebuilt::Session(_) => report.sessions += 1,
            Rebuilt::Tool(_) => report.tools += 1,
            Rebuilt::System(_) | Rebuilt::Agent(_) | Rebuilt::Flow(_) | Rebuilt::Registry(_) => {
                report.others += 1;
            }
        }
        report.mismatch = compare(reader, &stream, &building, pass.through)?;
        if report.mismatch.is_some() {
            break;
        }
    }
    Ok(report)
}

/// Folds a record's events into the state of its stream.
fn fold_record(built: &mut BTreeMap<StreamId, StreamState>, stored: &StoredRecord) -> Result<(), ReadError> {
    let record = &stored.record;
    let category = record.stream.category();
    let building = built.entry(record.stream.clone()).or_insert_with(|| StreamState {
        state: match category {
            Some(Category::Session) => Rebuilt::Session(Box::default()),
            Some(Category::Tool) => Rebuilt::Tool(Box::default()),
            Some(Category::System) => Rebuilt::System(Box::default()),
            Some(Category::Agent) => Rebuilt::Agent(Box::default()),
            Some(Category::Flow) => Rebuilt::Flow(Box::default()),
            Some(Category::Registry) => Rebuilt::Registry(Box::default()),
            Some(Category::Task) | None => Rebuilt::Task(Box::default()),
        },
        version: Version(0),
        events: 0,
    });
    for (_, version) in record.events.iter().zip(record.first_version.0..) {
        match (&mut building.state, &decode_event(stored, Version(version))?) {
            (Rebuilt::Task(task), AnyEvent::Task(event)) => task.evolve(event, &record.metadata),
            (Rebuilt::Session(session), AnyEvent::Session(event)) => session.evolve(event, &record.metadata),
            (Rebuilt::Tool(store), AnyEvent::Tool(event)) => store.evolve(event, &record.metadata),
            (Rebuilt::System(system), AnyEvent::System(event)) => system.evolve(event, &record.metadata),
            (Rebuilt::Agent(agent), AnyEvent::Agent(event)) => agent.evolve(event, &record.metadata),
            (Rebuilt::Flow(run), AnyEvent::Flow(event)) => run.evolve(event, &record.metadata),
            (Rebuilt::Registry(registry), AnyEvent::Registry(event)) => {
                registry.evolve(event, &record.metadata);
            }
            _ => {
                return Err(ReadError::Corrupt {
                    what: "the event is not one of this stream's category".to_owned(),
                    stream: Some(record.stream.clone()),
                    version: Some(Version(version)),
                    position: Some(stored.position),
                });
            }
        }
        building.version = Version(version);
        building.events += 1;
    }
    Ok(())
}

fn compare(
    reader: &dyn EventReader,
    stream: &StreamId,
    building: &StreamState,
    through: Position,
) -> Result<Option<Mismatch>, ReadError> {
    // A program that has the log open may have written more since.
    let next = Version(building.version.0.saturating_add(1));
    let later = reader.read_stream(stream, next, 1)?.first().is_some_and(|stored| stored.position > through);
    let until = later.then_some(building.version);
    let (version, difference) = match &building.state {
        Rebuilt::Task(task) => {
            let live = fold_stream::<Task>(reader, stream, until)?;
            let written = || first_difference(&task.to_json().tree(), &live.state.to_json().tree());
            (live.version, differ(**task == live.state, written, task.as_ref(), &live.state))
        }
        Rebuilt::Session(session) => {
            let live = fold_stream::<Session>(reader, stream, until)?;
            let written = || {
                let history = |session: &Session| session.history().to_json().tree();
                first_difference(&history(session), &history(&live.state))
            };
            (live.version, differ(**session == live.state, written, session.as_ref(), &live.state))
        }
        Rebuilt::Tool(store) => {
            let live = fold_stream::<ToolStore>(reader, stream, until)?;
            let kept = |store: &ToolStore| tool_store_json(store).tree();
            let written = || first_difference(&kept(store), &kept(&live.state));
            (live.version, differ(**store == live.state, written, store.as_ref(), &live.state))
        }
        Rebuilt::System(system) => {
            let live = fold_stream::<SystemHistory>(reader, stream, until)?;
            let written = || first_difference(&system_json(system).tree(), &system_json(&live.state).tree());
            (live.version, differ(**system == live.state, written, system.as_ref(), &live.state))
        }
        Rebuilt::Agent(agent) => {
            let live = fold_stream::<AgentHistory>(reader, stream, until)?;
            let written =
                || first_difference(&definition_json(agent).tree(), &definition_json(&live.state).tree());
            (live.version, differ(**agent == live.state, written, agent.as_ref(), &live.state))
        }
        Rebuilt::Flow(run) => {
            let live = fold_stream::<FlowRun>(reader, stream, until)?;
            let written = || first_difference(&flow_json(run).tree(), &flow_json(&live.state).tree());
            (live.version, differ(**run == live.state, written, run.as_ref(), &live.state))
        }
        Rebuilt::Registry(registry) => {
            let live = fold_stream::<RegistryState>(reader, stream, until)?;
            let written =
                || first_difference(&registry_json(registry).tree(), &registry_json(&live.state).tree());
            (live.version, differ(**registry == live.state, written, registry.as_ref(), &live.state))
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
    // Equal states are written alike; the trees of a long conversation would take ten times its memory.
    if same {
        return None;
    }
    if let Some(difference) = written() {
        return Some(difference);
    }
    let (left, right) = (format!("{rebuilt:?}"), format!("{live:?}"));
    let same = left.chars().zip(right.chars()).take_while(|(a, b)| a == b).count();
    let tail = |text: &str| text.chars().skip(same.saturating_sub(40)).take(160).collect();
    Some(Difference { path: "(inner state)".to_owned(), left: tail(&left), right: tail(&right) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;

    /// Fills a log with tasks of about a kilobyte each.
    fn filled(tasks: usize) -> MemoryStore {
        use proto_events::codec::Storable as _;
        use proto_events::codec::record::EventBody;
        use proto_events::id::ExpectedVersion;
        use proto_events::json::{JsonObject, JsonText};
        use proto_events::model::{PostedTask, TaskState};
        use proto_events::task::TaskEvent;

        use crate::api::append::{Append, AppendPart};
        use crate::api::store::EventStore as _;
        use crate::testing::conformance::sketch::{draft, id};

        let store = MemoryStore::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for n in 0..tasks {
            let event = TaskEvent::Submitted(Box::new(PostedTask {
                id: n.to_string(),
                state: TaskState::Submitted,
                messages: Vec::new(),
                artifacts: Vec::new(),
                metadata: [("x".to_owned(), JsonText::string(&"x".repeat(1_000)))]
                    .into_iter()
                    .collect::<JsonObject>(),
                flow_state: JsonText::empty_object(),
                created_at: None,
                filled_in: Vec::new(),
                source: None,
            }));
            let payload = event.encode().unwrap();
            let mut draft = draft(&format!("task-a/{n}"), 1, b"");
            draft.set_id = id(n as u64);
            draft.events = vec![EventBody {
                kind: payload.kind,
                schema: payload.schema,
                salt: [3; 16],
                body: payload.body,
            }];
            let (set_id, stream, fence) = (draft.set_id, draft.stream.clone(), store.fence());
            let record = draft.encode().unwrap();
            let part = AppendPart { stream, expected: ExpectedVersion::NoStream, record };
            runtime.block_on(store.append(Append { fence, set_id, parts: vec![part] })).unwrap();
        }
        store
    }

    #[test]
    fn a_log_is_replayed_in_passes_that_hold_no_more_states_than_allowed() {
        let store = filled(40);
        let whole = replay_all(&store).unwrap();
        assert_eq!((whole.tasks, whole.events, whole.mismatch.as_ref()), (40, 40, None));
        assert_eq!(passes(&store, REPLAY_PASS_BYTES).unwrap().len(), 1);
        let passes = passes(&store, 10_500).unwrap();
        assert!(passes.len() >= 4, "{}", passes.len());
        assert!(passes.iter().all(|pass| (1..=10).contains(&pass.streams.len())), "{passes:?}");
        assert_eq!(passes.iter().map(|pass| pass.streams.len()).sum::<usize>(), 40);
        assert!(
            passes.is_sorted_by(|before, next| before.through < next.from),
            "each reads its part: {passes:?}"
        );
        assert_eq!(replay_in_passes(&store, 10_500).unwrap(), whole);
        assert_eq!(replay_in_passes(&store, 1).unwrap(), whole, "a stream larger than a pass has its own");
    }
}
