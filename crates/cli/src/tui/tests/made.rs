//! Logs in memory: of one task with any text and any number of events, and one that grows.

use std::collections::HashMap;
use std::sync::Arc;

use proto_events::call::{CallEvent, CallKind, CallRequested, NewCall, Recovery};
use proto_events::codec::record::{EventBody, RecordDraft};
use proto_events::codec::{Payload, Storable as _};
use proto_events::envelope::{Metadata, Timestamp};
use proto_events::id::{Digest, ExpectedVersion, StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Message, Part, PostedTask, TaskState};
use proto_events::task::TaskEvent;
use taskreel_log::api::{Append, AppendPart, EventReader, EventStore as _};
use taskreel_log::memory::MemoryStore;

/// The calls of a record.
const CALLS_EACH: usize = 60;

fn submitted(id: &str, text: &str) -> TaskEvent {
    TaskEvent::Submitted(Box::new(PostedTask {
        filled_in: Vec::new(),
        source: None,
        id: id.to_owned(),
        state: TaskState::Submitted,
        messages: vec![Message {
            id: Some("m".to_owned()),
            role: Some("user".to_owned()),
            parts: vec![Part::text(text)],
            timestamp: Some("2026-11-21T10:00:00.000000+00:00".to_owned()),
        }],
        artifacts: Vec::new(),
        metadata: JsonObject::new(),
        flow_state: JsonText::empty_object(),
        created_at: Some("2026-11-21T10:00:00.000000+00:00".to_owned()),
    }))
}

/// Returns the events of a call whose texts begin with these words.
fn call(number: usize, words: &str) -> [TaskEvent; 3] {
    let call_id = format!("call-{number:06}");
    let request = CallRequested::new(NewCall {
        call_id: call_id.clone(),
        kind: CallKind::Tool,
        target: format!("{words}tool"),
        args: JsonText::string(words),
        idempotency_key: call_id.clone(),
        recovery: Recovery::Manual,
        recovery_source: "tool".to_owned(),
        timeout_ms: 1_000,
        max_attempts: 1,
    });
    [
        TaskEvent::Call(CallEvent::Requested(Box::new(request))),
        TaskEvent::Call(CallEvent::Dispatched {
            call_id: call_id.clone(),
            attempt: 1,
            epoch: 1,
            cause: String::new(),
        }),
        TaskEvent::Call(CallEvent::Succeeded {
            call_id,
            attempt: 1,
            result: JsonText::string(words),
            usage: None,
        }),
    ]
}

/// A log in memory that grows.
pub(super) struct Growing {
    pub(super) store: Arc<MemoryStore>,
    runtime: tokio::runtime::Runtime,
    ends: HashMap<StreamId, (Version, Digest)>,
    sets: u128,
}

impl Growing {
    pub(super) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { store: Arc::new(MemoryStore::new()), runtime, ends: HashMap::new(), sets: 0 }
    }

    /// Writes these events of a task, as one record.
    pub(super) fn write(&mut self, stream: &StreamId, events: &[TaskEvent]) {
        self.sets += 1;
        let (set_id, fence) = (self.sets.to_be_bytes(), self.store.fence());
        let (version, previous) = self.ends.get(stream).copied().unwrap_or_default();
        let body = |event: &TaskEvent| {
            let Payload { kind, schema, body } = event.encode().unwrap();
            EventBody { kind, schema, salt: set_id, body }
        };
        let draft = RecordDraft {
            stream: stream.clone(),
            first_version: Version(version.0 + 1),
            set_id,
            part: 0,
            parts: 1,
            partition: fence.partition,
            epoch: fence.epoch,
            metadata: Metadata {
                at: Timestamp(1_795_000_000_123_456),
                command_id: format!("{:032x}", self.sets),
                ..Metadata::default()
            },
            fields: Vec::new(),
            previous,
            events: events.iter().map(body).collect(),
        };
        let record = draft.encode_within(taskreel_log::limits::RECORD_BYTES_MAX).unwrap();
        let expected = ExpectedVersion::exactly(version);
        self.ends.insert(stream.clone(), (record.last_version(), record.hash()));
        let part = AppendPart { stream: stream.clone(), expected, record };
        self.runtime.block_on(self.store.append(Append { fence, set_id, parts: vec![part] })).unwrap();
    }

    /// Writes what happens next in the task of this number: it begins, then waits for a person, then works again, and so on.
    pub(super) fn touch(&mut self, number: usize) {
        let id = format!("task-{number:04}");
        let stream = StreamId::task("agent", &id).unwrap();
        let events = match self.ends.get(&stream).map(|(version, _)| version.0 % 2) {
            None => {
                vec![submitted(&id, "go"), TaskEvent::state_changed(TaskState::Submitted, TaskState::Working)]
            }
            Some(0) => vec![TaskEvent::state_changed(TaskState::Working, TaskState::InputRequired)],
            Some(_) => vec![TaskEvent::state_changed(TaskState::InputRequired, TaskState::Working)],
        };
        self.write(&stream, &events);
    }
}

/// Returns the log of one task with this message and so many calls; each call has three events.
pub(super) fn log(text: &str, calls: usize) -> (Arc<dyn EventReader>, StreamId) {
    let stream = StreamId::task("agent", "order-0001").unwrap();
    let mut growing = Growing::new();
    let words: String = text.chars().take(40).collect();
    let first =
        [submitted("order-0001", text), TaskEvent::state_changed(TaskState::Submitted, TaskState::Working)];
    growing.write(&stream, &first);
    let calls: Vec<usize> = (0..calls).collect();
    for some in calls.chunks(CALLS_EACH) {
        let events: Vec<_> = some.iter().flat_map(|it| call(*it, &words)).collect();
        growing.write(&stream, &events);
    }
    (growing.store, stream)
}
