//! Calls to other agents: sending the task, and canceling it.

use std::sync::Arc;

use proto_events::call::recovery::RetryWish;
use proto_events::call::{CallFailure, CallRequested, FailureClass, TokenUsage};
use proto_events::json::JsonObject;
use proto_events::model::{BudgetUsage, PostedTask, TaskState};
use taskreel_log::ports::{Clock, Ports};

use crate::actors::shared::messages::{AttemptEnd, Recall};
use crate::actors::shared::sleep::sleep_on;
use crate::agent::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind};
use crate::agent::peers::Peers;
use crate::limits::{RECALL_RETRY_DELAY, RECALL_TRIES, RECALL_WITHIN};
use crate::run::child_wait::waits_for;
use crate::tools::panics::caught_in;
use crate::tools::texts::short;

/// Carries out one attempt: sends the task that the intent holds, and waits for its end.
pub(crate) async fn attempt(
    peers: &Peers,
    request: &CallRequested,
    attempt: u32,
    mut ports: Ports,
) -> AttemptEnd {
    let (Some(peer), Some(code)) = (peers.get(&request.target), peers.code_of(&request.target)) else {
        let text = format!("the agent knows no other agent '{}' any more", request.target);
        return failed(FailureClass::BeforeEffect, "UnknownPeer", text);
    };
    let task = task_of(request).and_then(|task| PostedTask::from_json(&task, &mut ports).ok());
    let Some(task) = task else {
        let text = "the intent holds no task for another agent".to_owned();
        return failed(FailureClass::BeforeEffect, "Malformed", text);
    };
    let delegation = Delegation::new(task, request.idempotency_key.clone(), attempt);
    match code.send(delegation).await {
        Ok(PeerAnswer { error: Some(error), used, .. }) => broke(error, used),
        // Its task waits for a person in this log, and this call with it.
        Ok(answer) if peer.is_local && answer.state == TaskState::InputRequired => {
            AttemptEnd::Asked { question: waits_for(request) }
        }
        Ok(answer) => AttemptEnd::Succeeded { result: answer.to_json(), usage: None, writes: Vec::new() },
        Err(error) => refused(&error),
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
pub(crate) fn recall_of(request: &CallRequested, reason: &str) -> Option<Recall> {
    let task_id = task_of(request)?.read::<JsonObject>().ok()?.get("id")?.to_str()?;
    Some(Recall { peer: request.target.clone(), task_id, reason: reason.to_owned() })
}

/// Cancels the task sent to another agent. This is best effort: our own outcome is on disk already, so the
/// result changes nothing here.
pub(crate) async fn recall(peer: Arc<dyn Peer>, recall: Recall, clock: Arc<dyn Clock>) {
    let Recall { peer: name, task_id, reason } = recall;
    let asked = async {
        for again in 1..=RECALL_TRIES {
            match peer.cancel(&task_id, &reason).await {
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
