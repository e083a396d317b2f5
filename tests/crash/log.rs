//! The log as the parent finds it, and its invariants after every kill.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use proto_events::call::{CallEvent, CallKind, CallRequested, Recovery};
use proto_events::id::{Category, Position, StreamId, Version};
use proto_events::model::TaskState;
use proto_events::session::{Session, SessionEvent};
use proto_events::task::{Task, TaskEvent};
use taskreel_log::api::{EventReader as _, EventStore as _, StoredRecord};
use taskreel_log::limits::RECORD_BYTES_MAX;
use taskreel_log::read::{FoldedStream, decode_record, fold_stream};
use taskreel_log::sled::{SledStore, blob_files};

use crate::child::{Ack, What};
use crate::load::{AGENT, LOG, PAID, RESERVED};

/// The lifecycle of one call, from its events.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    pub(crate) stream: StreamId,
    pub(crate) request: CallRequested,
    pub(crate) dispatched: u32,
    pub(crate) outcome: Option<CallEvent>,
}

impl Life {
    /// Returns the call's name in a ledger: a call's id is unique in its stream.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.stream.id(), self.request.call_id)
    }

    /// Whether the call was sent and has no outcome.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.dispatched > 0 && self.outcome.is_none()
    }

    /// Whether the call may be sent at most once.
    pub(crate) fn is_manual(&self) -> bool {
        self.request.kind == CallKind::Tool && self.request.recovery == Recovery::Manual
    }
}

/// The contents of the log and of the ledgers.
pub(crate) struct Log {
    pub(crate) records: Vec<StoredRecord>,
    pub(crate) tasks: BTreeMap<StreamId, FoldedStream<Task>>,
    pub(crate) calls: HashMap<String, Life>,
    pub(crate) paid: Vec<String>,
    reserved: Vec<String>,
    ends: HashMap<(StreamId, Version), String>,
    versions: HashMap<StreamId, Version>,
    states: HashMap<StreamId, Vec<(Version, TaskState)>>,
}

impl Log {
    /// Opens the log for reading, folds each of its streams (which checks versions and chain), and closes it.
    pub(crate) fn read(base: &Path) -> Self {
        let dir = base.join(LOG);
        let store = SledStore::open(&dir).unwrap();
        assert_eq!(blob_files(&dir).unwrap(), Vec::<std::path::PathBuf>::new());
        let records = all_records(&store);
        let streams = store.list_streams("", None, usize::MAX).unwrap();
        let (mut tasks, mut versions) = (BTreeMap::new(), HashMap::new());
        for info in &streams {
            let version = match info.stream.category() {
                Some(Category::Task) => {
                    let folded = fold_stream::<Task>(&store, &info.stream, None).unwrap();
                    let version = folded.version;
                    tasks.insert(info.stream.clone(), folded);
                    version
                }
                Some(Category::Session) => {
                    fold_stream::<Session>(&store, &info.stream, None).unwrap().version
                }
                _ => info.version,
            };
            assert_eq!(version, info.version, "{}", info.stream);
            versions.insert(info.stream.clone(), version);
        }
        store.close().unwrap();
        let ends = records.iter().map(|stored| {
            let record = &stored.record;
            ((record.stream.clone(), record.last_version()), stored.hash.to_string())
        });
        Self {
            calls: lives(&records),
            states: states(&records),
            ends: ends.collect(),
            paid: lines(&base.join(PAID)),
            reserved: lines(&base.join(RESERVED)),
            records,
            tasks,
            versions,
        }
    }

    /// Returns the number of events.
    pub(crate) fn events(&self) -> u64 {
        self.records.last().map_or(0, |last| last.last_position().0)
    }

    /// Returns the number of bodies that are too large for their record and stored in chunks.
    pub(crate) fn large(&self) -> usize {
        let events = self.records.iter().flat_map(|stored| &stored.record.events);
        events.filter(|event| event.body().is_some_and(|body| body.len() > RECORD_BYTES_MAX)).count()
    }

    /// Returns the call of this name.
    pub(crate) fn call(&self, name: &str) -> &Life {
        self.calls.get(name).unwrap_or_else(|| panic!("{name} took effect, and the log has no intent of it"))
    }

    /// Checks promise 1: what was acknowledged is there, unchanged.
    pub(crate) fn check_acks(&self, acks: &[Ack]) {
        for ack in acks {
            let there = self.versions.get(&ack.stream).copied().unwrap_or_default();
            assert!(there >= ack.version, "{ack:?} was acknowledged, the log ends at {there}");
            match &ack.what {
                What::Answered => {}
                What::Published(hash) => {
                    let end = (ack.stream.clone(), ack.version);
                    assert_eq!(self.ends.get(&end), Some(hash), "{ack:?} is another record now");
                }
                What::Ended(state) => self.check_end(ack, state),
            }
        }
    }

    /// Checks that the task was in this state at this version, by its own lifecycle.
    fn check_end(&self, ack: &Ack, state: &str) {
        let changes = self.states.get(&ack.stream).map_or(&[][..], Vec::as_slice);
        let last = changes.iter().rfind(|(version, _)| *version <= ack.version);
        let last = last.map_or(TaskState::Submitted, |(_, state)| *state);
        assert_eq!(last.as_str(), state, "{ack:?}");
    }

    /// Checks that all earlier records are still there, in their places.
    pub(crate) fn check_continues(&self, before: &Self) {
        let hashes = |log: &Self| log.records.iter().map(|stored| stored.hash).collect::<Vec<_>>();
        assert!(hashes(self).starts_with(&hashes(before)), "the log was rewritten");
    }

    /// Checks promises 2 and 4 against ledgers that are not part of the log.
    pub(crate) fn check_ledgers(&self) {
        let mut once = BTreeSet::new();
        for name in &self.paid {
            assert!(once.insert(name), "{name} paid twice");
            assert!(self.call(name).dispatched > 0, "{name} paid before its dispatch was on disk");
        }
        for life in self.calls.values().filter(|life| life.request.target == "pay") {
            assert!(life.dispatched <= 1, "{life:?} was sent twice");
            if matches!(life.outcome, Some(CallEvent::Succeeded { .. })) {
                assert!(once.contains(&life.name()), "{life:?} succeeded without an effect");
            }
        }
        let mut attempts = BTreeSet::new();
        for line in &self.reserved {
            assert!(attempts.insert(line), "an attempt was made twice: {line}");
            let [task, call, attempt, key] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("the ledger holds `{line}`");
            };
            let life = self.call(&format!("{task} {call}"));
            assert_eq!(life.request.idempotency_key, key, "another key than the intent's: {line}");
            assert!(attempt.parse::<u32>().unwrap() <= life.dispatched, "sent before its dispatch: {line}");
        }
    }

    /// Checks promise 6, append by append: readers see an append as a whole, so its session part and its task
    /// part are checked together, the session's first.
    pub(crate) fn check_conversations(&self) -> u64 {
        let mut asked: HashMap<String, Option<String>> = HashMap::new();
        let mut answers = 0;
        for append in self.records.chunk_by(|a, b| a.record.set_id == b.record.set_id) {
            let (tasks, sessions): (Vec<_>, Vec<_>) =
                append.iter().partition(|stored| stored.record.stream.category() == Some(Category::Task));
            let is_session =
                |stored: &&&StoredRecord| stored.record.stream.category() == Some(Category::Session);
            for stored in sessions.iter().filter(is_session) {
                let open = asked.entry(stored.record.stream.to_string()).or_default();
                for recorded in decode_record::<SessionEvent>(stored).unwrap() {
                    answers += u64::from(converse(open, recorded.event));
                }
            }
            for stored in tasks {
                for recorded in decode_record::<TaskEvent>(stored).unwrap() {
                    let TaskEvent::Call(CallEvent::Requested(request)) = recorded.event else {
                        continue;
                    };
                    let Some(session) = request.prompt.as_ref().and_then(|prompt| prompt.session.as_ref())
                    else {
                        continue;
                    };
                    let open = asked.get(session).and_then(Option::as_ref);
                    assert_eq!(open, None, "{} was asked before the answer", request.call_id);
                }
            }
        }
        answers
    }
}

/// Takes one event of a session; returns true if it is the reply that was awaited.
fn converse(open: &mut Option<String>, event: SessionEvent) -> bool {
    match event {
        SessionEvent::MessageAppended(message) => {
            let answers = open.is_some();
            assert_eq!(*open, message.answers, "{message:?} came where {open:?} waits");
            *open = message.asks.into_iter().next();
            return answers;
        }
        SessionEvent::TurnCommitted { turn_id } => assert_eq!(*open, None, "{turn_id} has no answer"),
        SessionEvent::TurnAborted { .. } => *open = None,
        _ => {}
    }
    false
}

fn all_records(store: &SledStore) -> Vec<StoredRecord> {
    let mut records: Vec<StoredRecord> = Vec::new();
    loop {
        let next = records.last().map_or(Position(1), |last| Position(last.last_position().0 + 1));
        let page = store.read_all(next, 1_000).unwrap();
        if page.is_empty() {
            assert_eq!(store.head().unwrap().0 + 1, next.0, "the log ends before its head");
            return records;
        }
        for stored in page {
            let end = records.last().map_or(0, |last| last.last_position().0);
            assert_eq!(stored.position.0, end + 1, "positions have a gap");
            records.push(stored);
        }
    }
}

/// Returns the states that each task went through, with the version at which each began.
fn states(records: &[StoredRecord]) -> HashMap<StreamId, Vec<(Version, TaskState)>> {
    let mut states: HashMap<StreamId, Vec<(Version, TaskState)>> = HashMap::new();
    let tasks = records.iter().filter(|stored| stored.record.stream.category() == Some(Category::Task));
    for recorded in tasks.flat_map(|stored| decode_record::<TaskEvent>(stored).unwrap()) {
        if let TaskEvent::StateChanged { to, .. } = recorded.event {
            states.entry(recorded.stream).or_default().push((recorded.version, to));
        }
    }
    states
}

/// Returns the lifecycle of every call, and checks that each has at most one outcome.
fn lives(records: &[StoredRecord]) -> HashMap<String, Life> {
    let mut lives: HashMap<String, Life> = HashMap::new();
    let tasks = records.iter().filter(|stored| stored.record.stream.category() == Some(Category::Task));
    for recorded in tasks.flat_map(|stored| decode_record::<TaskEvent>(stored).unwrap()) {
        assert_eq!(recorded.stream.agent(), AGENT);
        let TaskEvent::Call(event) = recorded.event else {
            continue;
        };
        let name = format!("{} {}", recorded.stream.id(), event.call_id());
        if let CallEvent::Requested(request) = event {
            let life = Life { stream: recorded.stream, request: *request, dispatched: 0, outcome: None };
            assert!(lives.insert(name.clone(), life).is_none(), "{name} has two intents");
            continue;
        }
        let life = lives.get_mut(&name).expect("an event of a call comes after the call's intent");
        match &event {
            CallEvent::Dispatched { attempt, .. } => {
                assert_eq!(*attempt, life.dispatched + 1, "{life:?}");
                assert!(life.outcome.is_none(), "sent after its outcome: {life:?}");
                life.dispatched += 1;
            }
            CallEvent::TimedOut { .. } | CallEvent::LateResultIgnored { .. } => {}
            _ => {
                assert!(life.outcome.is_none(), "a second outcome, {event:?}: {life:?}");
                life.outcome = Some(event);
            }
        }
    }
    lives
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
