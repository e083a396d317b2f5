//! Storage structs of the events of a run's flow state.

use serde::{Deserialize, Serialize};

use crate::codec::error::{CodecError, FieldError};
use crate::codec::kind;
use crate::codec::storable::{Payload, Storable};
use crate::codec::stored_model::json;
use crate::codec::upcast::{first_version, read, write};
use crate::flow::event::FlowEvent;
use crate::id::{Category, Version};

#[derive(Serialize, Deserialize)]
struct CheckpointPutV1<'a> {
    value: &'a str,
}

#[derive(Serialize, Deserialize)]
struct CheckpointDeletedV1 {
    version: u64,
}

first_version!(CheckpointPutV1<'a>, CheckpointDeletedV1);

impl Storable for FlowEvent {
    const CATEGORY: Category = Category::Flow;

    fn encode(&self) -> Result<Payload, CodecError> {
        match self {
            Self::CheckpointPut { value } => {
                write(kind::CHECKPOINT_PUT, &CheckpointPutV1 { value: value.as_str() })
            }
            Self::CheckpointDeleted { version } => {
                write(kind::CHECKPOINT_DELETED, &CheckpointDeletedV1 { version: version.0 })
            }
        }
    }

    fn decode(kind: u16, schema: u8, body: &[u8]) -> Result<Self, CodecError> {
        let damaged = |error: FieldError| CodecError::Damaged { kind, why: error.to_string() };
        Ok(match kind {
            kind::CHECKPOINT_PUT => {
                let CheckpointPutV1 { value } = read(kind, schema, body)?;
                Self::CheckpointPut { value: json(value).map_err(damaged)? }
            }
            kind::CHECKPOINT_DELETED => {
                let CheckpointDeletedV1 { version } = read(kind, schema, body)?;
                Self::CheckpointDeleted { version: Version(version) }
            }
            _ => {
                return Err(CodecError::UnknownKind { kind, category: Self::CATEGORY.as_str() });
            }
        })
    }
}
