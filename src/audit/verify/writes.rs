//! What a call leaves in its tool's state stands in one append with the call's success: a write without it was made by
//! nobody.

use proto_events::call::CallEvent;
use proto_events::codec::{AnyEvent, kind};
use proto_events::id::{Position, Version};
use proto_events::task::TaskEvent;

use super::{Finding, FindingKind};
use crate::store::StoredRecord;

/// The writes of one append whose calls' success has not come yet.
#[derive(Default)]
pub(super) struct WritesCheck {
    set_id: [u8; 16],
    owed: Vec<Owed>,
}

/// A write, and the call that it says it is of.
struct Owed {
    task: String,
    call_id: String,
    finding: Finding,
}

impl WritesCheck {
    /// Takes the log's next record; answers writes of the append before it that no call made.
    pub(super) fn take(&mut self, stored: &StoredRecord) -> Vec<Finding> {
        let record = &stored.record;
        let left = if record.set_id == self.set_id { Vec::new() } else { self.end() };
        self.set_id = record.set_id;
        match record.stream.category() {
            "tool" => self.note(stored),
            "task" if !self.owed.is_empty() => self.settle(stored),
            _ => {}
        }
        left
    }

    /// The writes that no call made, when the append is over.
    pub(super) fn end(&mut self) -> Vec<Finding> {
        self.owed.drain(..).map(|owed| owed.finding).collect()
    }

    /// The append's other records may be what cannot be read.
    pub(super) fn forget(&mut self) {
        self.owed.clear();
    }

    fn note(&mut self, stored: &StoredRecord) {
        let record = &stored.record;
        let places = (stored.position.0..).zip(record.first_version.0..);
        for (event, (position, version)) in record.events.iter().zip(places) {
            let read = |body| AnyEvent::decode("tool", event.kind, event.schema, body).ok();
            let Some(AnyEvent::Tool(event)) = event.body().and_then(read) else { continue };
            let (task, call_id) = event.call();
            let finding = Finding {
                kind: FindingKind::State,
                stream: Some(record.stream.clone()),
                version: Some(Version(version)),
                position: Some(Position(position)),
                what: format!(
                    "the write says that it is of the call `{call_id}` of {task}, whose success is not in its append"
                ),
            };
            self.owed.push(Owed { task: task.to_owned(), call_id: call_id.to_owned(), finding });
        }
    }

    fn settle(&mut self, stored: &StoredRecord) {
        let record = &stored.record;
        for event in record.events.iter().filter(|event| event.kind == kind::CALL_SUCCEEDED) {
            let read = |body| AnyEvent::decode("task", event.kind, event.schema, body).ok();
            if let Some(AnyEvent::Task(TaskEvent::Call(CallEvent::Succeeded { call_id, .. }))) =
                event.body().and_then(read)
            {
                self.owed.retain(|owed| owed.call_id != call_id || owed.task != record.stream.as_str());
            }
        }
    }
}
