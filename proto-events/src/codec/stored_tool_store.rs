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

first_version!(PutV1<'a>, DeletedV1<'a>);

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
                return Err(CodecError::UnknownKind { kind, category: Self::CATEGORY.as_str() });
            }
        })
    }
}
