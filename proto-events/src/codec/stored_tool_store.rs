//! Storage structs of a tool store's events, and of its fold.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::stored_model::json;
use super::upcast::{first_version, read, write};
use super::{CodecError, FieldError, Payload, Storable, kind};
use crate::id::Version;
use crate::tool_store::{ToolEntry, ToolStore, ToolStoreEvent};

#[derive(Serialize, Deserialize)]
struct PutV1<'a> {
    task: &'a str,
    call_id: &'a str,
    key: &'a str,
    value: &'a str,
}

#[derive(Serialize, Deserialize)]
struct DeletedV1<'a> {
    task: &'a str,
    call_id: &'a str,
    key: &'a str,
}

first_version!(PutV1<'a>, DeletedV1<'a>);

impl Storable for ToolStoreEvent {
    const CATEGORY: &'static str = "tool";

    fn encode(&self) -> Result<Payload, CodecError> {
        match self {
            Self::KeyPut { task, call_id, key, value } => {
                write(kind::TOOL_KEY_PUT, &PutV1 { task, call_id, key, value: value.as_str() })
            }
            Self::KeyDeleted { task, call_id, key } => {
                write(kind::TOOL_KEY_DELETED, &DeletedV1 { task, call_id, key })
            }
        }
    }

    fn decode(kind: u16, schema: u8, body: &[u8]) -> Result<Self, CodecError> {
        let damaged = |error: FieldError| CodecError::Damaged { kind, why: error.to_string() };
        Ok(match kind {
            kind::TOOL_KEY_PUT => {
                let PutV1 { task, call_id, key, value } = read(kind, schema, body)?;
                let (task, call_id, key) = (task.to_owned(), call_id.to_owned(), key.to_owned());
                Self::KeyPut { task, call_id, key, value: json(value).map_err(damaged)? }
            }
            kind::TOOL_KEY_DELETED => {
                let DeletedV1 { task, call_id, key } = read(kind, schema, body)?;
                Self::KeyDeleted { task: task.to_owned(), call_id: call_id.to_owned(), key: key.to_owned() }
            }
            _ => {
                return Err(CodecError::UnknownKind { kind, category: Self::CATEGORY });
            }
        })
    }
}

/// A tool's store as snapshots keep it.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredToolStore<'a> {
    #[serde(borrow)]
    entries: Vec<(&'a str, &'a str, u64)>,
    version: u64,
    bytes: usize,
}

impl<'a> StoredToolStore<'a> {
    pub(super) fn of(store: &'a ToolStore) -> Self {
        let ToolStore { entries, version, bytes } = store;
        let entry =
            |(key, entry): (&'a String, &'a ToolEntry)| (key.as_str(), entry.value.as_str(), entry.version.0);
        Self { entries: entries.iter().map(entry).collect(), version: version.0, bytes: *bytes }
    }

    pub(super) fn read(self) -> Result<ToolStore, FieldError> {
        let mut entries = BTreeMap::new();
        for (key, value, version) in self.entries {
            entries.insert(key.to_owned(), ToolEntry { value: json(value)?, version: Version(version) });
        }
        Ok(ToolStore { entries, version: Version(self.version), bytes: self.bytes })
    }
}
