//! The comparison of what a log says that models were sent with what they received, and logs whose intents say something else.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]
#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::HashMap;

use proto_events::call::{Call, CallEvent, CallRequested, Selection};
use proto_events::codec::Storable as _;
use proto_events::codec::record::{EventBody, Record, RecordDraft, StoredEvent};
use proto_events::id::{ExpectedVersion, StreamId, Version};
use proto_events::task::{Task, TaskEvent};
use taskreel::infer::InferRequest;
use taskreel_log::api::{Append, AppendPart, EventReader, EventStore, StoredRecord};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::read::{fold_stream, for_each_stream};
use taskreel_log::shown::{prompt_digest, prompt_of};

/// Returns the inferences of a log, each with the stream of its task.
pub(crate) fn inferences(log: &dyn EventReader) -> Vec<(StreamId, Call)> {
    let mut found = Vec::new();
    for_each_stream(log, "task-", |info| {
        let task = fold_stream::<Task>(log, &info.stream, None).unwrap().state;
        let calls = task.calls().iter().filter(|call| call.request.prompt.is_some());
        found.extend(calls.map(|call| (info.stream.clone(), call.clone())));
    })
    .unwrap();
    found
}

pub(crate) fn selection(call: &Call) -> Option<&Selection> {
    call.request.prompt.as_ref().unwrap().selection.as_ref()
}

/// Checks that the log alone renders each prompt and each offer of tools as the model received it, and that all its digests
/// hold.
pub(crate) fn assert_rendered(log: &dyn EventReader, requests: &[InferRequest]) {
    let found = inferences(log);
    for request in requests {
        let (stream, call) = found.iter().find(|(_, call)| call.request.call_id == request.call_id).unwrap();
        let prompt = prompt_of(log, stream, &request.call_id).unwrap();
        let shown: Vec<(&str, &str)> = std::iter::once(("system", prompt.system.as_str()))
            .chain(prompt.messages.iter().map(|message| (message.role.as_str(), message.content.as_str())))
            .collect();
        let sent: Vec<(&str, &str)> = request
            .messages
            .iter()
            .map(|message| (message.role.as_str(), message.content.as_str()))
            .collect();
        assert_eq!(shown, sent);
        assert_eq!(call.request.prompt.as_ref().unwrap().messages as usize, sent.len());
        let offered: Vec<_> = prompt
            .offer
            .tools
            .iter()
            .map(|tool| (&tool.name, &tool.description, &tool.input_schema))
            .collect();
        let tools: Vec<_> =
            request.tools.iter().map(|tool| (&tool.name, &tool.description, &*tool.input_schema)).collect();
        assert_eq!(offered, tools);
        assert!(prompt_digest(log, stream, &request.call_id).unwrap().is_equal());
    }
    let verified = verify(log);
    assert!(verified.is_sound(), "{:#?}", verified.findings);
}

/// Returns the log that a program would have left whose intents were changed like this, sealed again.
pub(crate) async fn with_other_intents(
    log: &dyn EventStore,
    change: impl Fn(&mut CallRequested),
) -> MemoryStore {
    let (other, mut ends) = (MemoryStore::new(), HashMap::new());
    for append in taskreel::testing::appends(log).unwrap() {
        let part = |stored: &StoredRecord| {
            let Record { stream, first_version, set_id, part, parts, partition, epoch, .. } =
                stored.record.clone();
            let body = |event: &StoredEvent| {
                let (mut schema, mut body) = (event.schema, event.body().unwrap().to_vec());
                if let Ok(TaskEvent::Call(CallEvent::Requested(mut asked))) =
                    TaskEvent::decode(event.kind, event.schema, &body)
                {
                    change(&mut asked);
                    let encoded = TaskEvent::Call(CallEvent::Requested(asked)).encode().unwrap();
                    (schema, body) = (encoded.schema, encoded.body);
                }
                EventBody { kind: event.kind, schema, salt: [1; 16], body }
            };
            let draft = RecordDraft {
                previous: ends.get(&stream).copied().unwrap_or_default(),
                events: stored.record.events.iter().map(body).collect(),
                metadata: stored.record.metadata.clone(),
                fields: stored.record.fields.clone(),
                stream: stream.clone(),
                first_version,
                set_id,
                part,
                parts,
                partition,
                epoch,
            };
            let record = draft.encode().unwrap();
            ends.insert(stream.clone(), record.hash());
            let expected = ExpectedVersion::exactly(Version(first_version.0 - 1));
            AppendPart { stream, expected, record }
        };
        let (fence, set_id) = (other.fence(), append[0].record.set_id);
        let parts = append.iter().map(part).collect();
        other.append(Append { fence, set_id, parts }).await.unwrap();
    }
    other
}
