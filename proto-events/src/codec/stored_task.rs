//! Storage structs of task events.

use serde::{Deserialize, Serialize};

use crate::codec::code::CodedEnum;
use crate::codec::error::{CodecError, FieldError};
use crate::codec::storable::{Payload, Storable};
use crate::codec::stored_approval::{ApprovalDecidedV1, ApprovalRequestedV1};
use crate::codec::stored_model::{
    ArtifactV1, MessageV1, ObjectV1, PostedTaskV1, TurnMessageV1, state_code, state_of,
};
use crate::codec::upcast::{first_version, read, write};
use crate::codec::{kind, payload, stored_call, stored_webhook};
use crate::id::{Category, Digest};
use crate::model::run_budget::LimitUse;
use crate::model::task_state::TaskState;
use crate::task::event::TaskEvent;

#[derive(Serialize, Deserialize)]
struct StateChangedV1 {
    from: u8,
    to: u8,
    budget: Option<LimitUseV1>,
}

/// A limit of a budget, what was used of it, and what was allowed.
#[derive(Serialize, Deserialize)]
struct LimitUseV1 {
    limit: u8,
    used: f64,
    allowed: f64,
}

impl LimitUseV1 {
    fn from_use(over: &LimitUse) -> Self {
        Self { limit: over.limit.code(), used: over.used, allowed: over.allowed }
    }

    fn read(&self) -> Result<LimitUse, FieldError> {
        Ok(LimitUse { limit: CodedEnum::of_code(self.limit)?, used: self.used, allowed: self.allowed })
    }
}

#[derive(Serialize, Deserialize)]
struct ArtifactAppendedV1<'a> {
    #[serde(borrow)]
    artifact: ArtifactV1<'a>,
    part: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct ArtifactPartAppendedV1<'a> {
    #[serde(borrow)]
    artifact: ArtifactV1<'a>,
    is_last: bool,
}

#[derive(Serialize, Deserialize)]
struct PostedAgainV1 {
    source: [u8; 32],
}

#[derive(Serialize, Deserialize)]
struct CancelRequestedV1 {
    reason: Option<String>,
}

first_version!(
    PostedTaskV1<'a>,
    StateChangedV1,
    MessageV1<'a>,
    ArtifactAppendedV1<'a>,
    ArtifactPartAppendedV1<'a>,
    ObjectV1<'a>,
    CancelRequestedV1,
    PostedAgainV1,
    TurnMessageV1<'a>
);

/// Returns the state of a task after an event of its stream, if the event sets it. Of a posted task only the
/// front is decoded.
///
/// # Errors
/// [`CodecError`] if schema version or body do not belong to such an event.
pub fn state_after(kind: u16, schema: u8, body: &[u8]) -> Result<Option<TaskState>, CodecError> {
    let damaged = |why: String| CodecError::Damaged { kind, why };
    let code = match (kind, schema) {
        (kind::SUBMITTED, 1) => payload::read_front::<(&str, u8)>(body).map_err(damaged)?.1,
        (kind::STATE_CHANGED, _) => read::<StateChangedV1>(kind, schema, body)?.to,
        (kind::SUBMITTED, found) => return Err(CodecError::UnknownSchema { kind, found, known: 1 }),
        _ => return Ok(None),
    };
    state_of(code).map(Some).map_err(|error| damaged(error.to_string()))
}

impl Storable for TaskEvent {
    const CATEGORY: Category = Category::Task;

    fn encode(&self) -> Result<Payload, CodecError> {
        match self {
            Self::Submitted(posted) => write(kind::SUBMITTED, &PostedTaskV1::from_task(posted)),
            Self::StateChanged { from, to, budget } => {
                let (from, to) = (state_code(*from), state_code(*to));
                let budget = budget.as_ref().map(LimitUseV1::from_use);
                write(kind::STATE_CHANGED, &StateChangedV1 { from, to, budget })
            }
            Self::PostedAgain { source } => write(kind::POSTED_AGAIN, &PostedAgainV1 { source: source.0 }),
            Self::MessageAppended(message) => {
                write(kind::TASK_MESSAGE_APPENDED, &MessageV1::from_message(message))
            }
            Self::ArtifactAppended { artifact, part } => {
                let stored =
                    ArtifactAppendedV1 { artifact: ArtifactV1::from_artifact(artifact), part: *part };
                write(kind::ARTIFACT_APPENDED, &stored)
            }
            Self::ArtifactPartAppended { artifact, is_last } => {
                let stored = ArtifactPartAppendedV1 {
                    artifact: ArtifactV1::from_artifact(artifact),
                    is_last: *is_last,
                };
                write(kind::ARTIFACT_PART_APPENDED, &stored)
            }
            Self::MetadataMerged(entries) => write(kind::METADATA_MERGED, &ObjectV1::from_object(entries)),
            Self::CancelRequested { reason } => {
                write(kind::CANCEL_REQUESTED, &CancelRequestedV1 { reason: reason.clone() })
            }
            Self::ApprovalRequested(asked) => {
                write(kind::APPROVAL_REQUESTED, &ApprovalRequestedV1::from_request(asked))
            }
            Self::ApprovalDecided(decided) => {
                write(kind::APPROVAL_DECIDED, &ApprovalDecidedV1::from_decision(decided))
            }
            Self::InferMessageAppended(message) => {
                write(kind::INFER_MESSAGE_APPENDED, &TurnMessageV1::from_message(message))
            }
            Self::Webhook(event) => stored_webhook::encode(event),
            Self::Call(event) => stored_call::encode(event),
        }
    }

    fn decode(kind: u16, schema: u8, body: &[u8]) -> Result<Self, CodecError> {
        let damaged = |error: FieldError| CodecError::Damaged { kind, why: error.to_string() };
        Ok(match kind {
            kind::SUBMITTED => {
                let stored: PostedTaskV1<'_> = read(kind, schema, body)?;
                Self::Submitted(Box::new(stored.read().map_err(damaged)?))
            }
            kind::STATE_CHANGED => {
                let StateChangedV1 { from, to, budget } = read(kind, schema, body)?;
                let from = state_of(from).map_err(damaged)?;
                let to = state_of(to).map_err(damaged)?;
                let budget = budget.map(|over| over.read()).transpose().map_err(damaged)?;
                Self::StateChanged { from, to, budget }
            }
            kind::POSTED_AGAIN => {
                let PostedAgainV1 { source } = read(kind, schema, body)?;
                Self::PostedAgain { source: Digest(source) }
            }
            kind::TASK_MESSAGE_APPENDED => {
                let stored: MessageV1<'_> = read(kind, schema, body)?;
                Self::MessageAppended(stored.read().map_err(damaged)?)
            }
            kind::ARTIFACT_APPENDED => {
                let stored: ArtifactAppendedV1<'_> = read(kind, schema, body)?;
                let artifact = stored.artifact.read().map_err(damaged)?;
                Self::ArtifactAppended { artifact, part: stored.part }
            }
            kind::ARTIFACT_PART_APPENDED => {
                let stored: ArtifactPartAppendedV1<'_> = read(kind, schema, body)?;
                let artifact = stored.artifact.read().map_err(damaged)?;
                Self::ArtifactPartAppended { artifact, is_last: stored.is_last }
            }
            kind::METADATA_MERGED => {
                let stored: ObjectV1<'_> = read(kind, schema, body)?;
                Self::MetadataMerged(stored.read().map_err(damaged)?)
            }
            kind::CANCEL_REQUESTED => {
                let CancelRequestedV1 { reason } = read(kind, schema, body)?;
                Self::CancelRequested { reason }
            }
            kind::APPROVAL_REQUESTED => {
                let stored: ApprovalRequestedV1 = read(kind, schema, body)?;
                Self::ApprovalRequested(Box::new(stored.read().map_err(damaged)?))
            }
            kind::APPROVAL_DECIDED => {
                let stored: ApprovalDecidedV1 = read(kind, schema, body)?;
                Self::ApprovalDecided(stored.read().map_err(damaged)?)
            }
            kind::INFER_MESSAGE_APPENDED => {
                let stored: TurnMessageV1<'_> = read(kind, schema, body)?;
                Self::InferMessageAppended(stored.read().map_err(damaged)?)
            }
            kind::WEBHOOK_SET..=kind::WEBHOOK_FAILED => {
                Self::Webhook(stored_webhook::decode(kind, schema, body)?)
            }
            _ if kind::is_call(kind) => Self::Call(stored_call::decode(kind, schema, body)?),
            _ => {
                return Err(CodecError::UnknownKind { kind, category: Self::CATEGORY.as_str() });
            }
        })
    }
}
