//! The end of a turn that did not come to its answer: what it did stays in the conversation.

use proto_events::call::{Call, CallBook, CallKind, CallStatus, Verdict};
use proto_events::id::Mint;
use proto_events::model::{LlmMessage, LlmRole};
use proto_events::session::{OpenTurn, SessionCommand};
use proto_events::task::Task;
use proto_events::turn::TurnMessage;

use crate::agent::loop_rules::LoopRules;
use crate::agent::peer::PeerAnswer;
use crate::limits::KEPT_RESULT_BYTES_MAX;
use crate::models::message::{answer_to, is_native};
use crate::run::notes;
use crate::tools::texts::short;

/// Returns the commands that end an open turn before its answer. A turn whose run sent a call is committed, with an answer to
/// each call that has none and a note that says why it ended: the next run of the conversation knows what was done. A turn
/// without such a call is aborted and leaves the history as it was.
pub(crate) fn ended_early(
    rules: LoopRules,
    open: &OpenTurn,
    task: &Task,
    why: &str,
    mint: &mut dyn Mint,
) -> Vec<SessionCommand> {
    if rules == LoopRules::Protolink || !sent_calls(task) {
        return vec![SessionCommand::AbortTurn { turn_id: open.turn_id.clone(), reason: why.to_owned() }];
    }
    closed(open, Some(task.calls()), why, mint)
}

/// Returns the commands that end an open turn of which nobody has the task: as [`ended_early`], where every call that was asked
/// for may have been made.
pub(crate) fn ended_without_task(open: &OpenTurn, why: &str, mint: &mut dyn Mint) -> Vec<SessionCommand> {
    if open.turn.messages().iter().all(|message| message.asks.is_empty()) {
        return vec![SessionCommand::AbortTurn { turn_id: open.turn_id.clone(), reason: why.to_owned() }];
    }
    closed(open, None, why, mint)
}

/// Whether the task's run sent a call other than to the model, or continues one.
fn sent_calls(task: &Task) -> bool {
    let run = task.runs();
    let is_effect = |call: &&Call| call.request.kind != CallKind::Infer && call.attempts > 0;
    task.calls().iter().filter(is_effect).any(|call| call.request.origin.run == run)
        || task.continued().is_some_and(|call| is_effect(&call))
}

fn closed(open: &OpenTurn, calls: Option<&CallBook>, why: &str, mint: &mut dyn Mint) -> Vec<SessionCommand> {
    let messages = open.turn.messages();
    let asking = messages.iter().rfind(|message| !message.asks.is_empty());
    let mut said: Vec<TurnMessage> = Vec::new();
    for call_id in open.turn.unanswered() {
        let asking = asking.map(|asking| (&asking.message, asking.infer_call.clone()));
        let message = answer_to(
            asking.as_ref().map(|(message, _)| *message),
            call_id,
            outcome(calls, call_id, asking.as_ref().is_some_and(|(message, _)| is_native(message))),
            mint,
        );
        said.push(TurnMessage {
            message,
            part: messages.last().map_or(0, |last| last.part),
            infer_call: asking.and_then(|(_, infer_call)| infer_call),
            asks: Vec::new(),
            answers: Some(call_id.clone()),
        });
    }
    let note = LlmMessage::new(LlmRole::System, notes::turn_ended(&short(why)), mint);
    let part = messages.last().map_or(0, |last| last.part);
    said.push(TurnMessage { message: note, part, infer_call: None, asks: Vec::new(), answers: None });
    let turn_id = &open.turn_id;
    let append = |message| SessionCommand::AppendMessage { turn_id: turn_id.clone(), message };
    let commit = SessionCommand::CommitTurn { turn_id: turn_id.clone() };
    said.into_iter().map(append).chain([commit]).collect()
}

/// Returns what is known of a call at the end of its turn.
fn outcome(calls: Option<&CallBook>, call_id: &str, is_native: bool) -> String {
    let Some(calls) = calls else { return notes::outcome_elsewhere().to_owned() };
    let Some(call) = calls.get(call_id).filter(|call| call.attempts > 0) else {
        return notes::never_made().to_owned();
    };
    let target = call.request.target.as_str();
    match &call.status {
        CallStatus::Succeeded(result) | CallStatus::Reconciled(Verdict::Landed(result)) => {
            let result = match (call.request.kind, &call.status) {
                (CallKind::Delegate, CallStatus::Succeeded(answer)) => PeerAnswer::result_in(answer),
                _ => result.clone(),
            };
            if result.as_str().len() > KEPT_RESULT_BYTES_MAX {
                return notes::result_left_out(target, result.as_str().len());
            }
            if is_native { result.as_str().to_owned() } else { notes::tool_result(target, &result) }
        }
        CallStatus::Failed(failure) => notes::fatal_tool(target, &short(&failure.message)),
        CallStatus::Reconciled(Verdict::DidNotHappen) => notes::did_not_happen(target),
        CallStatus::Abandoned(reason) => notes::abandoned(target, reason),
        _ => notes::outcome_unknown(target),
    }
}
