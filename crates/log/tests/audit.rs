//! Audit from the log alone: each fault of a log is reported with its stream and version.
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]

#[path = "audit/failing.rs"]
mod failing;

use std::sync::Arc;

use proto_events::call::{
    CallEvent, CallFailure, CallKind, CallOrigin, CallRequested, FailureClass, NewCall, Recovery,
};
use proto_events::codec::Storable;
use proto_events::codec::record::{Body, EventBody, Record, RecordDraft};
use proto_events::envelope::Metadata;
use proto_events::id::{Digest, Position, StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Message, Part, PostedTask, TaskState};
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;
use taskreel_log::api::{EventReader, ReadError, StoredRecord, StreamInfo};
use taskreel_log::audit::{FindingKind, replay_all, replay_stream, verify};

/// A log with arbitrary contents: reads by stream can differ from reads by position.
#[derive(Default, Clone)]
struct Doctored {
    all: Vec<StoredRecord>,
    hidden_from_streams: Vec<Position>,
}

impl EventReader for Doctored {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let of = |stored: &&StoredRecord| {
            stored.record.stream == *stream
                && stored.record.last_version() >= from
                && !self.hidden_from_streams.contains(&stored.position)
        };
        Ok(self.all.iter().filter(of).take(limit).cloned().collect())
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        let behind = self.all.iter().filter(|stored| stored.last_position() >= from);
        Ok(behind.take(limit).cloned().collect())
    }

    fn head(&self) -> Result<Position, ReadError> {
        Ok(self.all.last().map(StoredRecord::last_position).unwrap_or_default())
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        let last = self.all.iter().rev().find(|stored| stored.record.stream == *stream);
        Ok(last.map(|stored| stored.record.last_version()).unwrap_or_default())
    }

    fn list_streams(&self, _: &str, _: Option<&StreamId>, _: usize) -> Result<Vec<StreamInfo>, ReadError> {
        Ok(Vec::new())
    }
}

impl Doctored {
    /// Adds a record of these events to a stream, as a store would.
    fn add<E: Storable>(&mut self, stream: &StreamId, events: &[E]) {
        let before = self.all.iter().rev().find(|stored| stored.record.stream == *stream);
        let set_id = [u8::try_from(self.all.len()).unwrap(); 16];
        let draft = RecordDraft {
            stream: stream.clone(),
            first_version: Version(before.map_or(0, |stored| stored.record.last_version().0) + 1),
            set_id,
            part: 0,
            parts: 1,
            partition: 0,
            epoch: 1,
            metadata: Metadata::default(),
            fields: Vec::new(),
            previous: before.map(|stored| stored.hash).unwrap_or_default(),
            events: events.iter().map(body).collect(),
        };
        let encoded = draft.encode().unwrap();
        self.all.push(StoredRecord {
            position: Position(self.head().unwrap().0 + 1),
            hash: encoded.hash(),
            record: Record::decode(encoded.bytes()).unwrap(),
            bytes: Arc::clone(encoded.bytes()),
        });
    }

    /// Returns the kinds of verify's findings.
    fn faults(&self) -> Vec<FindingKind> {
        verify(self).findings.into_iter().map(|finding| finding.kind).collect()
    }
}

fn body<E: Storable>(event: &E) -> EventBody {
    let payload = event.encode().unwrap();
    EventBody { kind: payload.kind, schema: payload.schema, salt: [7; 16], body: payload.body }
}

fn stream() -> StreamId {
    StreamId::task("agent", "t").unwrap()
}

fn submitted() -> TaskEvent {
    TaskEvent::Submitted(Box::new(PostedTask {
        filled_in: Vec::new(),
        source: None,
        id: "t".to_owned(),
        state: TaskState::Submitted,
        messages: vec![Message {
            id: None,
            role: Some("user".to_owned()),
            parts: vec![Part::tool_call_of("pay", JsonText::empty_object(), None)],
            timestamp: None,
        }],
        artifacts: Vec::new(),
        metadata: JsonObject::from_iter([("error".to_owned(), JsonText::string("no"))]),
        flow_state: JsonText::empty_object(),
        created_at: None,
    }))
}

fn changed(from: TaskState, to: TaskState) -> TaskEvent {
    TaskEvent::state_changed(from, to)
}

fn requested() -> TaskEvent {
    let call = NewCall {
        call_id: "c".to_owned(),
        kind: CallKind::Tool,
        target: "pay".to_owned(),
        args: JsonText::empty_object(),
        idempotency_key: "k".to_owned(),
        recovery: Recovery::Manual,
        recovery_source: "tool".into(),
        timeout_ms: 1,
        max_attempts: 1,
    };
    let origin = CallOrigin { run: 1, ..CallOrigin::default() };
    TaskEvent::Call(CallEvent::Requested(Box::new(CallRequested { origin, ..CallRequested::new(call) })))
}

fn dispatched(attempt: u32) -> TaskEvent {
    TaskEvent::Call(CallEvent::Dispatched {
        call_id: "c".to_owned(),
        attempt,
        epoch: 1,
        cause: String::new(),
    })
}

fn failed() -> TaskEvent {
    let failure = CallFailure {
        class: FailureClass::AfterEffect,
        error_type: "Error".to_owned(),
        message: "no".to_owned(),
        usage: None,
    };
    TaskEvent::Call(CallEvent::Failed { call_id: "c".to_owned(), attempt: 1, failure })
}

/// Returns a log without faults: three records of one task.
fn sound() -> Doctored {
    let mut log = Doctored::default();
    log.add(&stream(), &[submitted(), changed(TaskState::Submitted, TaskState::Working)]);
    log.add(&stream(), &[requested(), dispatched(1)]);
    log.add(&stream(), &[failed(), changed(TaskState::Working, TaskState::Failed)]);
    log
}

#[test]
fn a_sound_log_has_no_faults_and_what_was_not_checked_is_said() {
    let found = verify(&sound());
    assert!(found.is_sound(), "{:?}", found.findings);
    assert_eq!((found.records, found.events, found.streams), (3, 6, 1));
    assert!(!found.unchecked.is_empty());
}

#[test]
fn a_record_that_is_gone_leaves_a_gap_of_positions_versions_and_hashes() {
    let mut log = sound();
    log.all.remove(1);
    let found = verify(&log);
    for kind in [FindingKind::Position, FindingKind::Version, FindingKind::Chain] {
        let finding = found.findings.iter().find(|finding| finding.kind == kind).unwrap();
        assert_eq!((&finding.stream, finding.version), (&Some(stream()), Some(Version(5))));
        assert_eq!(finding.position, Some(Position(5)));
    }
    assert!(found.findings.iter().any(|finding| finding.kind == FindingKind::Call), "its intent is gone too");
}

#[test]
fn a_body_or_a_hash_that_was_changed_is_found() {
    let mut log = sound();
    let Body::Inline { bytes, .. } = &mut log.all[0].record.events[0].place else { unreachable!() };
    *bytes.last_mut().unwrap() ^= 1;
    assert!(log.faults().contains(&FindingKind::Hash));
    let mut log = sound();
    log.all[0].hash = Digest::compute(b"another");
    assert_eq!(log.faults(), [FindingKind::Hash, FindingKind::Chain]);
}

#[test]
fn an_append_that_is_not_whole_is_found() {
    let mut log = sound();
    log.all[1].record.parts = 2;
    assert_eq!(log.faults(), [FindingKind::Append]);
    log.all.truncate(2);
    assert_eq!(log.faults(), [FindingKind::Append]);
    let mut log = sound();
    log.all[2].record.epoch = 0;
    assert_eq!(log.faults(), [FindingKind::Append]);
}

#[test]
fn a_lifecycle_that_went_where_it_cannot_is_found() {
    let cases = [
        vec![changed(TaskState::Submitted, TaskState::Working)],
        vec![submitted(), submitted()],
        vec![submitted(), changed(TaskState::Submitted, TaskState::Completed)],
        vec![submitted(), changed(TaskState::Working, TaskState::Completed)],
    ];
    for events in cases {
        let mut log = Doctored::default();
        log.add(&stream(), &events);
        assert_eq!(log.faults(), [FindingKind::Lifecycle], "{events:?}");
    }
}

#[test]
fn a_call_without_an_intent_with_two_outcomes_or_repeated_against_its_mode_is_found() {
    let begun = || vec![submitted(), changed(TaskState::Submitted, TaskState::Working)];
    let ended = || vec![submitted(), changed(TaskState::Submitted, TaskState::Failed)];
    for (faults, events) in [
        (1, [begun(), vec![failed()]].concat()),
        (1, [begun(), vec![requested(), dispatched(1), failed(), failed()]].concat()),
        // Under one idempotency key and of one part as well.
        (3, [begun(), vec![requested(), requested()]].concat()),
        (1, [begun(), vec![requested(), failed()]].concat()),
        // Over its limit as well.
        (2, [begun(), vec![requested(), dispatched(1), dispatched(2)]].concat()),
        (1, [ended(), vec![requested()]].concat()),
    ] {
        let mut log = Doctored::default();
        log.add(&stream(), &events);
        assert_eq!(log.faults(), vec![FindingKind::Call; faults], "{events:?}");
    }
}

#[test]
fn a_turn_that_is_not_well_formed_is_found() {
    let session = StreamId::session("agent", "s").unwrap();
    let opened = || SessionEvent::Opened { session_id: "s".to_owned() };
    let started =
        |turn: &str| SessionEvent::TurnStarted { turn_id: turn.to_owned(), task: "task-agent/t".to_owned() };
    let committed = || SessionEvent::TurnCommitted { turn_id: "1".to_owned() };
    for events in [
        vec![started("1")],
        vec![opened(), committed()],
        vec![opened(), started("1"), started("2")],
        vec![opened(), started("2"), committed()],
    ] {
        let mut log = Doctored::default();
        log.add(&stream(), &[submitted()]);
        log.add(&session, &events);
        assert_eq!(log.faults(), [FindingKind::Turn], "{events:?}");
    }
    let mut log = Doctored::default();
    log.add(&stream(), &[submitted()]);
    log.add(&session, &[opened(), started("1"), committed()]);
    assert!(verify(&log).is_sound());
}

#[test]
fn replay_agrees_with_the_live_fold_of_a_sound_log() {
    let report = replay_all(&sound()).unwrap();
    assert_eq!((report.events, report.tasks, report.mismatch), (6, 1, None));
}

#[test]
fn replay_finds_the_first_difference_to_a_live_fold_that_lost_an_event() {
    let mut log = sound();
    log.hidden_from_streams.push(Position(5));
    let mismatch = replay_stream(&log, &stream()).unwrap().mismatch.unwrap();
    assert_eq!(
        (mismatch.path.as_str(), mismatch.rebuilt.as_str(), mismatch.live.as_str()),
        ("version", "6", "4")
    );
}
