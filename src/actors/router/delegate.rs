//! Calls to other agents: sending the task, and canceling it.

use std::sync::Arc;

use proto_events::call::recovery::RetryWish;
use proto_events::call::{Call, CallFailure, CallRequested, FailureClass, TokenUsage, Verdict};
use proto_events::id::{Digest, StreamId};
use proto_events::json::JsonObject;
use proto_events::model::{BudgetUsage, PostedTask, TaskState};
use taskreel_log::ports::{Clock, Ports};

use tokio::sync::oneshot;

use crate::actors::shared::messages::{
    AttemptEnd, Cause, Order, ProbeOrder, Recall, TaskOp, TaskReply, ToTask,
};
use crate::actors::shared::route::Route;
use crate::actors::shared::sleep::sleep_on;
use crate::agent::peer::{
    AcceptedSink, Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind, PeerFound, RecalledTask,
};
use crate::agent::peers::Peers;
use crate::limits::{QUESTION_BYTES_MAX, RECALL_RETRY_DELAY, RECALL_TRIES, RECALL_WITHIN};
use crate::run::child_wait::waits_for;
use crate::tools::panics::caught_in;
use crate::tools::texts::{short, shorten_to};

/// Carries out one attempt: sends the task that the intent holds, or takes up the one that the other agent has, and waits for
/// its end.
pub(crate) async fn attempt(
    peers: &Peers,
    order: &Order,
    mut ports: Ports,
    to_task: Route<Box<ToTask>>,
) -> AttemptEnd {
    let request = &order.request;
    let (Some(peer), Some(code)) = (peers.get(&request.target), peers.code_of(&request.target)) else {
        let text = format!("the agent knows no other agent '{}' any more", request.target);
        return failed(FailureClass::BeforeEffect, "UnknownPeer", text);
    };
    let task = task_of(request).and_then(|task| PostedTask::from_json(&task, &mut ports).ok());
    let Some(task) = task else {
        let text = "the intent holds no task for another agent".to_owned();
        return failed(FailureClass::BeforeEffect, "Malformed", text);
    };
    let mut delegation = Delegation::new(task, request.idempotency_key.clone(), order.attempt)
        .with_questions(order.questions.clone())
        .telling(telling(order, to_task));
    delegation.handle.clone_from(&order.handle);
    match code.send(delegation).await {
        Ok(PeerAnswer { error: Some(error), used, .. }) => broke(error, used),
        // Its task waits for a person in this log, and this call with it.
        Ok(answer) if peer.is_local && answer.state == TaskState::InputRequired => {
            AttemptEnd::Asked { question: waits_for(request) }
        }
        Ok(answer) => AttemptEnd::succeeded(answer.to_json()),
        Err(error) => refused(&error),
    }
}

/// Returns what records the id that the other agent gave the task.
fn telling(order: &Order, to_task: Route<Box<ToTask>>) -> AcceptedSink {
    let (stream, call_id) = (order.stream.clone(), order.request.call_id.clone());
    let (attempt, known) = (order.attempt, order.handle.clone());
    Arc::new(move |handle| {
        if known.as_ref() == Some(&handle) {
            return Box::pin(std::future::ready(Ok(())));
        }
        let (reply, answer) = oneshot::channel();
        to_task.do_send(accepted(stream.clone(), &call_id, attempt, handle, (false, Some(reply))));
        Box::pin(async move {
            let lost = |why: String| PeerError::new(PeerErrorKind::Lost, why);
            let answer = answer.await.map_err(|_| lost("the system is stopping".to_owned()))?;
            answer.map(drop).map_err(|not_done| lost(not_done.error.to_string()))
        })
    })
}

/// Returns the message to the task of a call that another agent has the task that it sent.
fn accepted(
    stream: StreamId,
    call_id: &str,
    attempt: u32,
    handle: String,
    (is_found, reply): (bool, Option<oneshot::Sender<TaskReply>>),
) -> Box<ToTask> {
    let name = Digest::compute(handle.as_bytes());
    let cause = Cause::from_system(format_args!("accepted:{call_id}:{attempt}:{name}"), call_id);
    let op = TaskOp::Accepted { call_id: call_id.to_owned(), attempt, handle, is_found };
    Box::new(ToTask { stream, op, cause, reply })
}

/// Asks another agent whether it has the task of a lost attempt, and returns what the call's task is told.
pub(crate) async fn probe(peers: &Peers, order: &ProbeOrder, mut ports: Ports) -> DelegationState {
    let request = &order.request;
    let unsure = |why: String| DelegationState::Verdict(Verdict::Inconclusive(short(&why)));
    let Some(code) = peers.code_of(&request.target) else {
        return unsure(format!("the agent knows no other agent '{}' any more", request.target));
    };
    let task = task_of(request).and_then(|task| PostedTask::from_json(&task, &mut ports).ok());
    let Some(task) = task else { return unsure("the intent holds no task for another agent".to_owned()) };
    match code.find(Delegation::new(task, request.idempotency_key.clone(), order.attempt)).await {
        Ok(PeerFound::Accepted(handle)) => DelegationState::Accepted(handle),
        Ok(PeerFound::NotSent) => DelegationState::Verdict(Verdict::DidNotHappen),
        Ok(PeerFound::Unsure(why)) => unsure(why),
        Err(error) => unsure(format!("the agent could not be asked: {error}")),
    }
}

/// The finding about a lost attempt.
pub(crate) enum DelegationState {
    /// Another agent has its task, under this id.
    Accepted(String),
    /// The verdict on whether it took effect.
    Verdict(Verdict),
}

impl DelegationState {
    /// Returns the message that tells the call's task.
    pub(crate) fn task_message(self, stream: StreamId, call_id: String, attempt: u32) -> Box<ToTask> {
        match self {
            Self::Accepted(handle) => accepted(stream, &call_id, attempt, handle, (true, None)),
            Self::Verdict(verdict) => {
                let cause = Cause::from_system(format_args!("probe:{call_id}:{attempt}"), &call_id);
                let op = TaskOp::Probed { call_id, attempt, verdict };
                Box::new(ToTask { stream, op, cause, reply: None })
            }
        }
    }
}

fn task_of(request: &CallRequested) -> Option<proto_events::json::JsonText> {
    request.args.read::<JsonObject>().ok()?.get("task").cloned()
}

fn refused(error: &PeerError) -> AttemptEnd {
    let text = error.to_string();
    match error.kind() {
        PeerErrorKind::Refused => failed(FailureClass::Rejected, "Refused", text),
        PeerErrorKind::Unreachable => failed(FailureClass::BeforeEffect, "ConnectionError", text),
        PeerErrorKind::Lost => AttemptEnd::Lost { why: text },
        PeerErrorKind::Asks => {
            let mut question = text;
            shorten_to(&mut question, QUESTION_BYTES_MAX);
            AttemptEnd::Asked { question }
        }
        PeerErrorKind::Failed | PeerErrorKind::NotFound => {
            failed(FailureClass::AfterEffect, "PeerError", text)
        }
    }
}

/// Returns the end of an attempt whose task broke. Its tokens were paid all the same.
fn broke(error: String, used: BudgetUsage) -> AttemptEnd {
    let BudgetUsage { input_tokens, output_tokens, .. } = used;
    let is_told = (input_tokens, output_tokens) != (0, 0);
    let usage = is_told.then_some(TokenUsage { input_tokens, output_tokens });
    let (class, error_type) = (FailureClass::AfterEffect, "RuntimeError".to_owned());
    let failure = CallFailure { class, error_type, message: error, usage };
    AttemptEnd::Failed { failure, retry: RetryWish::Unsaid }
}

fn failed(class: FailureClass, error_type: &str, message: String) -> AttemptEnd {
    let failure = CallFailure { class, error_type: error_type.to_owned(), message, usage: None };
    AttemptEnd::Failed { failure, retry: RetryWish::Unsaid }
}

/// Returns the order to cancel the task of a delegated call along with the call.
pub(crate) fn recall_of(call: &Call, reason: &str) -> Option<Recall> {
    let request = &call.request;
    let task_id = task_of(request)?.read::<JsonObject>().ok()?.get("id")?.to_str()?;
    let (handle, reason) = (call.handle.clone(), reason.to_owned());
    let recalled =
        RecalledTask { handle, reason, ..RecalledTask::new(task_id, request.idempotency_key.as_str()) };
    Some(Recall::Peer { peer: request.target.clone(), recalled })
}

/// Cancels the task sent to another agent. This is best effort: our own outcome is on disk already, so the
/// result changes nothing here.
pub(crate) async fn recall(peer: Arc<dyn Peer>, name: String, recalled: RecalledTask, clock: Arc<dyn Clock>) {
    let task_id = recalled.task_id.clone();
    let asked = async {
        for again in 1..=RECALL_TRIES {
            match peer.recall(recalled.clone()).await {
                // The task we sent may not have arrived there yet.
                Err(error) if error.kind() == PeerErrorKind::NotFound && again < RECALL_TRIES => {
                    sleep_on(&clock, RECALL_RETRY_DELAY).await;
                }
                done => return done,
            }
        }
        Ok(())
    };
    let failed = tokio::select! {
        done = caught_in(asked) => match done {
            Ok(Ok(())) => return,
            Ok(Err(error)) => short(&error.to_string()),
            Err(panic) => format!("it panicked: {panic}"),
        },
        () = sleep_on(&clock, RECALL_WITHIN) => "no answer in time".to_owned(),
    };
    tracing::warn!(peer = name, task = %task_id, error = %failed, "a delegated task could not be canceled");
}
