//! The decisions of a tool's store: all keys must still have the versions that the call read.

use std::collections::HashSet;

use crate::decider::Decider;
use crate::envelope::Metadata;
use crate::limits::{TOOL_KEYS_MAX, TOOL_STORE_BYTES_MAX, TOOL_WRITES_MAX};
use crate::tool_store::command::{ToolStoreCommand, ToolStoreRejection, ToolWrite, check_key};
use crate::tool_store::event::ToolStoreEvent;
use crate::tool_store::state::{ToolStore, entry_bytes};

impl Decider for ToolStore {
    type Command = ToolStoreCommand;
    type Event = ToolStoreEvent;
    type Rejection = ToolStoreRejection;

    fn decide(&self, command: ToolStoreCommand) -> Result<Vec<ToolStoreEvent>, ToolStoreRejection> {
        let (task, call_id, writes) = match command {
            ToolStoreCommand::Write { task, call_id, writes } => (task, call_id, writes),
            ToolStoreCommand::Set(write) => return self.set(write),
            ToolStoreCommand::Clear if self.is_empty() => return Ok(Vec::new()),
            ToolStoreCommand::Clear => {
                let keys = u32::try_from(self.len()).unwrap_or(u32::MAX);
                return Ok(vec![ToolStoreEvent::Cleared { keys }]);
            }
        };
        self.check(&writes)?;
        let event = |ToolWrite { key, value, .. }: ToolWrite| {
            let (task, call_id) = (task.clone(), call_id.clone());
            match value {
                Some(value) => Some(ToolStoreEvent::KeyPut { task, call_id, key, value }),
                // The deletion of an absent key adds no event.
                None => {
                    self.get(&key).map(|_| ToolStoreEvent::KeyDeleted { task, call_id, key: key.clone() })
                }
            }
        };
        Ok(writes.into_iter().filter_map(event).collect())
    }

    fn evolve(&mut self, event: &ToolStoreEvent, _metadata: &Metadata) {
        self.fold(event);
    }
}

impl ToolStore {
    fn set(&self, write: ToolWrite) -> Result<Vec<ToolStoreEvent>, ToolStoreRejection> {
        self.check(std::slice::from_ref(&write))?;
        let ToolWrite { key, value, .. } = write;
        Ok(match value {
            Some(value) => vec![ToolStoreEvent::KeySet { key, value }],
            None if self.get(&key).is_none() => Vec::new(),
            None => vec![ToolStoreEvent::KeyRemoved { key }],
        })
    }

    fn check(&self, writes: &[ToolWrite]) -> Result<(), ToolStoreRejection> {
        if writes.len() > TOOL_WRITES_MAX {
            return Err(ToolStoreRejection::TooManyWrites(writes.len()));
        }
        let (mut seen, mut keys, mut bytes) = (HashSet::new(), self.len(), self.bytes());
        for ToolWrite { key, expected, value } in writes {
            check_key(key)?;
            if !seen.insert(key) {
                return Err(ToolStoreRejection::Twice(key.clone()));
            }
            let actual = self.version_of(key);
            if actual != *expected {
                return Err(ToolStoreRejection::Conflict { key: key.clone(), expected: *expected, actual });
            }
            if let Some(old) = self.get(key) {
                (keys, bytes) = (keys.saturating_sub(1), bytes.saturating_sub(entry_bytes(key, &old.value)));
            }
            if let Some(value) = value {
                (keys, bytes) = (keys + 1, bytes.saturating_add(entry_bytes(key, value)));
            }
        }
        // A write that only shrinks the store is never rejected.
        if keys > TOOL_KEYS_MAX && keys > self.len() {
            return Err(ToolStoreRejection::TooManyKeys(keys));
        }
        if bytes > TOOL_STORE_BYTES_MAX && bytes > self.bytes() {
            return Err(ToolStoreRejection::TooLarge(bytes));
        }
        Ok(())
    }
}
