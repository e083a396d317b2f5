//! A log in memory of one task, with any text and any number of events.

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

fn submitted(text: &str) -> TaskEvent {
    TaskEvent::Submitted(Box::new(PostedTask {
        filled_in: Vec::new(),
        source: None,
        id: "order-0001".to_owned(),
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
    let request = CallRequested::of(NewCall {
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

/// Returns the log of one task with this message and so many calls; each call has three events.
pub(super) fn log(text: &str, calls: usize) -> (Arc<dyn EventReader>, StreamId) {
    let stream = StreamId::task("agent", "order-0001").unwrap();
    let store = MemoryStore::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let fence = store.fence();
    let words: String = text.chars().take(40).collect();
    let first = vec![submitted(text), TaskEvent::state_changed(TaskState::Submitted, TaskState::Working)];
    let calls: Vec<usize> = (0..calls).collect();
    let later = calls.chunks(CALLS_EACH).map(|some| some.iter().flat_map(|it| call(*it, &words)).collect());
    let (mut version, mut previous) = (Version(0), Digest::default());
    for (set, events) in (1_u128..).zip(std::iter::once(first).chain(later)) {
        let set_id = set.to_be_bytes();
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
                command_id: format!("{set:032x}"),
                ..Metadata::default()
            },
            fields: Vec::new(),
            previous,
            events: events.iter().map(body).collect(),
        };
        let record = draft.encode_within(taskreel_log::limits::RECORD_BYTES_MAX).unwrap();
        let expected = ExpectedVersion::at(version);
        (version, previous) = (record.last_version(), record.hash());
        let part = AppendPart { stream: stream.clone(), expected, record };
        runtime.block_on(store.append(Append { fence, set_id, parts: vec![part] })).unwrap();
    }
    (Arc::new(store), stream)
}
