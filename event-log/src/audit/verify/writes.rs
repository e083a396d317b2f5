//! Checks writes to tools' states. A call's writes are in one append with the call's success; a write without
//! it belongs to no call.

use proto_events::call::CallEvent;
use proto_events::codec::{AnyEvent, kind};
use proto_events::id::{Category, Position, Version};
use proto_events::task::TaskEvent;

use crate::api::record::StoredRecord;
use crate::audit::verify::finding::{Finding, FindingKind};

/// The writes of one append whose calls' success has not been read yet.
#[derive(Default)]
pub(crate) struct WritesCheck {
    set_id: [u8; 16],
    unconfirmed: Vec<UnconfirmedWrite>,
}

/// A write, and the call that it names.
struct UnconfirmedWrite {
    task: String,
    call_id: String,
    finding: Finding,
}

impl WritesCheck {
    /// Takes the log's next record and returns the writes of the previous append that belong to no call.
    pub(crate) fn take(&mut self, stored: &StoredRecord) -> Vec<Finding> {
        let record = &stored.record;
        let left = if record.set_id == self.set_id { Vec::new() } else { self.end() };
        self.set_id = record.set_id;
        match record.stream.category() {
            Some(Category::Tool) => self.add_writes(stored),
            Some(Category::Task) if !self.unconfirmed.is_empty() => self.confirm(stored),
            Some(_) | None => {}
        }
        left
    }

    /// Returns the writes of the ended append that belong to no call.
    pub(crate) fn end(&mut self) -> Vec<Finding> {
        self.unconfirmed.drain(..).map(|write| write.finding).collect()
    }

    /// Drops the open append's writes: the record with the success may be what cannot be read.
    pub(crate) fn forget(&mut self) {
        self.unconfirmed.clear();
    }

    fn add_writes(&mut self, stored: &StoredRecord) {
        let record = &stored.record;
        let places = (stored.position.0..).zip(record.first_version.0..);
        for (event, (position, version)) in record.events.iter().zip(places) {
            let read = |body| AnyEvent::decode(Some(Category::Tool), event.kind, event.schema, body).ok();
            let Some(AnyEvent::Tool(event)) = event.body().and_then(read) else { continue };
            let (task, call_id) = event.call();
            let finding = Finding {
                kind: FindingKind::State,
                stream: Some(record.stream.clone()),
                version: Some(Version(version)),
                position: Some(Position(position)),
                what: format!(
                    "the write names the call `{call_id}` of {task}, but its append has no success of that call"
                ),
            };
            self.unconfirmed.push(UnconfirmedWrite {
                task: task.to_owned(),
                call_id: call_id.to_owned(),
                finding,
            });
        }
    }

    fn confirm(&mut self, stored: &StoredRecord) {
        let record = &stored.record;
        for event in record.events.iter().filter(|event| event.kind == kind::CALL_SUCCEEDED) {
            let read = |body| AnyEvent::decode(Some(Category::Task), event.kind, event.schema, body).ok();
            if let Some(AnyEvent::Task(TaskEvent::Call(CallEvent::Succeeded { call_id, .. }))) =
                event.body().and_then(read)
            {
                self.unconfirmed
                    .retain(|write| write.call_id != call_id || write.task != record.stream.as_str());
            }
        }
    }
}
