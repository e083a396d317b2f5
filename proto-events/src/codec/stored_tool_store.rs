//! Storage structs of a tool store's events, and of its fold.

use serde::{Deserialize, Serialize};

use crate::codec::error::{CodecError, FieldError};
use crate::codec::kind;
use crate::codec::storable::{Payload, Storable};
use crate::codec::stored_model::json;
use crate::codec::upcast::{first_version, read, write};
use crate::id::Category;
use crate::tool_store::event::ToolStoreEvent;

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

#[derive(Serialize, Deserialize)]
struct SetV1<'a> {
    key: &'a str,
    value: &'a str,
}

#[derive(Serialize, Deserialize)]
struct RemovedV1<'a> {
    key: &'a str,
}

#[derive(Serialize, Deserialize)]
struct ToolStoreClearedV1 {
    keys: u32,
}

first_version!(PutV1<'a>, DeletedV1<'a>, SetV1<'a>, RemovedV1<'a>, ToolStoreClearedV1);

impl Storable for ToolStoreEvent {
    const CATEGORY: Category = Category::Tool;

    fn encode(&self) -> Result<Payload, CodecError> {
        match self {
            Self::KeyPut { task, call_id, key, value } => {
                write(kind::TOOL_KEY_PUT, &PutV1 { task, call_id, key, value: value.as_str() })
            }
            Self::KeyDeleted { task, call_id, key } => {
                write(kind::TOOL_KEY_DELETED, &DeletedV1 { task, call_id, key })
            }
            Self::KeySet { key, value } => write(kind::TOOL_KEY_SET, &SetV1 { key, value: value.as_str() }),
            Self::KeyRemoved { key } => write(kind::TOOL_KEY_REMOVED, &RemovedV1 { key }),
            Self::Cleared { keys } => write(kind::TOOL_CLEARED, &ToolStoreClearedV1 { keys: *keys }),
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
            kind::TOOL_KEY_SET => {
                let SetV1 { key, value } = read(kind, schema, body)?;
                Self::KeySet { key: key.to_owned(), value: json(value).map_err(damaged)? }
            }
            kind::TOOL_KEY_REMOVED => {
                let RemovedV1 { key } = read(kind, schema, body)?;
                Self::KeyRemoved { key: key.to_owned() }
            }
            kind::TOOL_CLEARED => {
                let ToolStoreClearedV1 { keys } = read(kind, schema, body)?;
                Self::Cleared { keys }
            }
            _ => {
                return Err(CodecError::UnknownKind { kind, category: Self::CATEGORY.as_str() });
            }
        })
    }
}
