//! Storage structs of the folds themselves, for snapshots. A snapshot is a cache: its form has no schema versions and
//! no upcasters, only the fold's revision, which is raised whenever the form or what `evolve` makes of events changes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::stored_approval::StoredApproval;
use super::stored_call::RequestedV2;
use super::stored_model::{
    ArtifactV1, LlmMessageV1, MessageV1, ObjectV1, TurnMessageV1, json, state_code, state_of,
};
use super::{FieldError, stored_call};
use crate::call::{Call, CallBook, CallStatus, TokenUsage};
use crate::envelope::Timestamp;
use crate::id::Digest;
use crate::model::ConversationHistory;
use crate::session::{OpenTurn, Session};
use crate::task::{ApprovalBook, ItemRef, Run, StateChange, Task};
use crate::turn::Turn;

type Read<T> = Result<T, FieldError>;

/// Statuses from here on are verdicts, by their code.
const VERDICTS: u8 = 16;

#[derive(Serialize, Deserialize)]
pub(super) struct StoredTask<'a> {
    id: String,
    state: Option<u8>,
    #[serde(borrow)]
    messages: Vec<MessageV1<'a>>,
    #[serde(borrow)]
    artifacts: Vec<ArtifactV1<'a>>,
    #[serde(borrow)]
    metadata: ObjectV1<'a>,
    flow_state: String,
    created_at: Option<String>,
    history: Vec<(u8, u8, i64)>,
    last: Option<StoredItem>,
    calls: Vec<StoredCall>,
    approvals: Vec<StoredApproval>,
    #[serde(borrow)]
    turn: Vec<TurnMessageV1<'a>>,
    run: Option<StoredRun>,
    paused: Option<StoredRun>,
    runs: u32,
    outputs: Vec<usize>,
}

#[derive(Serialize, Deserialize)]
struct StoredItem {
    is_artifact: bool,
    at: usize,
}

#[derive(Serialize, Deserialize)]
struct StoredRun {
    item: Option<StoredItem>,
    next_part: u32,
    began: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredCall {
    request: RequestedV2,
    attempts: u32,
    epoch: u64,
    requested_at: i64,
    first_sent_at: Option<i64>,
    sent_at: Option<i64>,
    delay_ms: u64,
    status: u8,
    /// What a status that says more says: a result, why it is unknown.
    says: String,
    /// Class, type and message.
    failure: Option<(u8, String, String)>,
    usage: Option<(u64, u64)>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredSession<'a> {
    id: String,
    #[serde(borrow)]
    history: Vec<LlmMessageV1<'a>>,
    digest: [u8; 32],
    #[serde(borrow)]
    open: Option<StoredTurn<'a>>,
    commits: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredTurn<'a> {
    turn_id: String,
    task: String,
    #[serde(borrow)]
    system_prompt: Option<LlmMessageV1<'a>>,
    #[serde(borrow)]
    turn: Vec<TurnMessageV1<'a>>,
}

impl<'a> StoredTask<'a> {
    pub(super) fn of(task: &'a Task) -> Self {
        // Taken apart by name, so that a field that is added cannot be forgotten here.
        let Task {
            id,
            state,
            messages,
            artifacts,
            metadata,
            flow_state,
            created_at,
            history,
            last,
            calls,
            approvals,
            turn,
            run,
            paused,
            runs,
            outputs,
        } = task;
        let change = |change: &StateChange| (state_code(change.from), state_code(change.to), change.at.0);
        Self {
            id: id.clone(),
            state: state.map(state_code),
            messages: messages.iter().map(MessageV1::of).collect(),
            artifacts: artifacts.iter().map(ArtifactV1::of).collect(),
            metadata: ObjectV1::of(metadata),
            flow_state: flow_state.as_str().to_owned(),
            created_at: created_at.clone(),
            history: history.iter().map(change).collect(),
            last: last.map(StoredItem::of),
            calls: calls.0.iter().map(StoredCall::of).collect(),
            approvals: approvals.0.iter().map(StoredApproval::of).collect(),
            turn: turn.0.iter().map(TurnMessageV1::of).collect(),
            run: run.map(StoredRun::of),
            paused: paused.map(StoredRun::of),
            runs: *runs,
            outputs: outputs.clone(),
        }
    }

    pub(super) fn read(self) -> Read<Task> {
        let change =
            |(from, to, at)| Ok(StateChange { from: state_of(from)?, to: state_of(to)?, at: Timestamp(at) });
        Ok(Task {
            id: self.id,
            state: self.state.map(state_of).transpose()?,
            messages: self.messages.into_iter().map(MessageV1::read).collect::<Read<_>>()?,
            artifacts: self.artifacts.into_iter().map(ArtifactV1::read).collect::<Read<_>>()?,
            metadata: self.metadata.read()?,
            flow_state: json(&self.flow_state)?,
            created_at: self.created_at,
            history: self.history.into_iter().map(change).collect::<Read<_>>()?,
            last: self.last.map(StoredItem::read),
            calls: CallBook(self.calls.into_iter().map(StoredCall::read).collect::<Read<_>>()?),
            approvals: ApprovalBook(
                self.approvals.into_iter().map(StoredApproval::read).collect::<Read<_>>()?,
            ),
            turn: Turn(self.turn.into_iter().map(TurnMessageV1::read).collect::<Read<_>>()?),
            run: self.run.map(StoredRun::read),
            paused: self.paused.map(StoredRun::read),
            runs: self.runs,
            outputs: self.outputs,
        })
    }
}

impl StoredRun {
    fn of(run: Run) -> Self {
        let Run { item, next_part, began } = run;
        Self { item: item.map(StoredItem::of), next_part, began: began.0 }
    }

    fn read(self) -> Run {
        Run { item: self.item.map(StoredItem::read), next_part: self.next_part, began: Timestamp(self.began) }
    }
}

impl StoredItem {
    fn of(item: ItemRef) -> Self {
        match item {
            ItemRef::Message(at) => Self { is_artifact: false, at },
            ItemRef::Artifact(at) => Self { is_artifact: true, at },
        }
    }

    fn read(self) -> ItemRef {
        if self.is_artifact { ItemRef::Artifact(self.at) } else { ItemRef::Message(self.at) }
    }
}

impl StoredCall {
    fn of(call: &Call) -> Self {
        let Call { request, attempts, epoch, requested_at, first_sent_at, sent_at, delay_ms, status, usage } =
            call;
        let (mut says, mut failure) = (String::new(), None);
        let status = match status {
            CallStatus::Requested => 0,
            CallStatus::Dispatched => 1,
            CallStatus::TimedOut => 2,
            CallStatus::Succeeded(result) => {
                result.as_str().clone_into(&mut says);
                3
            }
            CallStatus::Failed(why) => {
                failure = Some(stored_call::failure_of(why));
                4
            }
            CallStatus::Canceled => 5,
            CallStatus::Unknown(why) => {
                says.clone_from(why);
                6
            }
            CallStatus::Unsent => 7,
            CallStatus::Abandoned(reason) => {
                says.clone_from(reason);
                8
            }
            CallStatus::Reconciled(verdict) => {
                let (code, text) = stored_call::verdict_of(verdict);
                says = text;
                VERDICTS + code
            }
        };
        Self {
            request: RequestedV2::of(request.clone()),
            attempts: *attempts,
            epoch: *epoch,
            requested_at: requested_at.0,
            first_sent_at: first_sent_at.map(|at| at.0),
            sent_at: sent_at.map(|at| at.0),
            delay_ms: *delay_ms,
            status,
            says,
            failure,
            usage: usage.map(|usage| (usage.input_tokens, usage.output_tokens)),
        }
    }

    fn read(self) -> Read<Call> {
        let status = match (self.status, self.failure) {
            (0, None) => CallStatus::Requested,
            (1, None) => CallStatus::Dispatched,
            (2, None) => CallStatus::TimedOut,
            (3, None) => CallStatus::Succeeded(json(&self.says)?),
            (4, Some(failure)) => CallStatus::Failed(stored_call::read_failure(failure)?),
            (5, None) => CallStatus::Canceled,
            (6, None) => CallStatus::Unknown(self.says),
            (7, None) => CallStatus::Unsent,
            (8, None) => CallStatus::Abandoned(self.says),
            (code @ VERDICTS.., None) => {
                CallStatus::Reconciled(stored_call::read_verdict(code - VERDICTS, self.says)?)
            }
            (other, _) => return Err(FieldError::Code(other)),
        };
        let usage = |(input_tokens, output_tokens)| TokenUsage { input_tokens, output_tokens };
        Ok(Call {
            request: self.request.read()?,
            attempts: self.attempts,
            epoch: self.epoch,
            requested_at: Timestamp(self.requested_at),
            first_sent_at: self.first_sent_at.map(Timestamp),
            sent_at: self.sent_at.map(Timestamp),
            delay_ms: self.delay_ms,
            status,
            usage: self.usage.map(usage),
        })
    }
}

impl<'a> StoredSession<'a> {
    pub(super) fn of(session: &'a Session) -> Self {
        let Session { id, history, digest, open, commits } = session;
        Self {
            id: id.clone(),
            history: history.0.iter().map(LlmMessageV1::of).collect(),
            digest: digest.0,
            open: open.as_ref().map(StoredTurn::of),
            commits: *commits,
        }
    }

    pub(super) fn read(self) -> Read<Session> {
        let history = self.history.into_iter().map(LlmMessageV1::read).collect::<Read<_>>()?;
        Ok(Session {
            id: self.id,
            history: Arc::new(ConversationHistory(history)),
            digest: Digest(self.digest),
            open: self.open.map(StoredTurn::read).transpose()?,
            commits: self.commits,
        })
    }
}

impl<'a> StoredTurn<'a> {
    fn of(open: &'a OpenTurn) -> Self {
        let OpenTurn { turn_id, task, system_prompt, turn } = open;
        Self {
            turn_id: turn_id.clone(),
            task: task.clone(),
            system_prompt: system_prompt.as_ref().map(LlmMessageV1::of),
            turn: turn.0.iter().map(TurnMessageV1::of).collect(),
        }
    }

    fn read(self) -> Read<OpenTurn> {
        Ok(OpenTurn {
            turn_id: self.turn_id,
            task: self.task,
            system_prompt: self.system_prompt.map(LlmMessageV1::read).transpose()?,
            turn: Turn(self.turn.into_iter().map(TurnMessageV1::read).collect::<Read<_>>()?),
        })
    }
}
