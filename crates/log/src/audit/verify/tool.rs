//! Checks a tool's state: one call, or nobody but a caller from outside, writes each record, each key once and within the
//! limits, and deletes only keys that exist.

use std::collections::{BTreeMap, BTreeSet};

use proto_events::limits::{TOOL_KEYS_MAX, TOOL_STORE_BYTES_MAX, TOOL_WRITES_MAX};
use proto_events::tool_store::{ToolStoreEvent, check_key};

/// The writer of a record.
#[derive(Clone, PartialEq)]
enum ToolWriter {
    /// A call: its task's stream and its id.
    Call(String, String),
    /// A caller from outside.
    Outside,
}

/// The writes of the open record.
#[derive(Default)]
struct Writes {
    /// The writer of the record; `None` before its first event.
    writer: Option<ToolWriter>,
    keys: BTreeSet<String>,
    /// The numbers of keys and bytes before the record.
    before: (usize, usize),
}

/// A tool's state as read so far.
#[derive(Default)]
pub(crate) struct ToolCheck {
    /// The size of each key and its value, in bytes.
    keys: BTreeMap<String, usize>,
    bytes: usize,
    record: Writes,
}

impl ToolCheck {
    /// Takes the tool's next event.
    ///
    /// # Errors
    /// The fault of the event.
    pub(crate) fn accept_event(&mut self, event: &ToolStoreEvent) -> Result<(), String> {
        let writer = match event.call() {
            Some((task, call_id)) => ToolWriter::Call(task.to_owned(), call_id.to_owned()),
            None => ToolWriter::Outside,
        };
        if self.record.writer.is_none() {
            self.record.before = (self.keys.len(), self.bytes);
        }
        let first = self.record.writer.get_or_insert_with(|| writer.clone());
        let other = (*first != writer).then(|| match (&*first, &writer) {
            (ToolWriter::Call(_, first), ToolWriter::Call(_, second)) => {
                format!("its record has writes of two calls, `{first}` and `{second}`")
            }
            _ => "its record has writes of a call beside a change from outside".to_owned(),
        });
        let Some(key) = event.key() else { return self.cleared(event, other) };
        let twice = !self.record.keys.insert(key.to_owned());
        let (value, removed) = match event {
            ToolStoreEvent::KeyPut { value, .. } | ToolStoreEvent::KeySet { value, .. } => {
                let size = key.len().saturating_add(value.as_str().len());
                (Some(size), self.keys.insert(key.to_owned(), size))
            }
            _ => (None, self.keys.remove(key)),
        };
        self.bytes = self.bytes.saturating_add(value.unwrap_or(0)).saturating_sub(removed.unwrap_or(0));
        if let Some(what) = other {
            return Err(what);
        }
        check_key(key).map_err(|error| error.to_string())?;
        if twice {
            return Err(format!("the key `{key}` was written twice by one call"));
        }
        if value.is_none() && removed.is_none() {
            return Err(format!("the key `{key}` was deleted, but did not exist"));
        }
        Ok(())
    }

    /// Takes the deletion of all keys.
    fn cleared(&mut self, event: &ToolStoreEvent, other: Option<String>) -> Result<(), String> {
        let there = std::mem::take(&mut self.keys).len();
        self.bytes = 0;
        match (other, event) {
            (Some(what), _) => Err(what),
            (None, ToolStoreEvent::Cleared { keys }) if usize::try_from(*keys) != Ok(there) => {
                Err(format!("{keys} keys were cleared, but the state had {there}"))
            }
            _ => Ok(()),
        }
    }

    /// Takes the end of a record and returns its fault.
    pub(crate) fn end_record(&mut self) -> Option<String> {
        let Writes { keys, before, .. } = std::mem::take(&mut self.record);
        let (now, bytes) = (self.keys.len(), self.bytes);
        if keys.len() > TOOL_WRITES_MAX {
            return Some(format!("one call wrote {} keys; the limit is {TOOL_WRITES_MAX}", keys.len()));
        }
        if now > TOOL_KEYS_MAX && now > before.0 {
            return Some(format!("the tool's state has {now} keys; the limit is {TOOL_KEYS_MAX}"));
        }
        let large = bytes > TOOL_STORE_BYTES_MAX && bytes > before.1;
        large.then(|| format!("the tool's state has {bytes} bytes; the limit is {TOOL_STORE_BYTES_MAX}"))
    }
}
