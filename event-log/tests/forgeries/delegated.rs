//! Forgeries of the answers of other agents of the same program. The log has one agent, which asks itself here: nobody checks
//! that it must not.

use proto_events::call::{CallEvent, CallKind, Recovery};
use proto_events::codec::AnyEvent;
use proto_events::model::TaskState::{Completed, Submitted, Working};
use proto_events::task::TaskEvent;

use super::Forgery;
use super::events::*;
use super::log::Log;

/// The arguments of the request, with the task that it sends.
const ARGS: &str =
    r#"{"task":{"id":"given","metadata":{"taskreel.sent_by":{"task":"task-desk/t","call_id":"g1"}}}}"#;

/// Adds a request to this agent, and the answer that its task has this state.
pub(crate) fn asks_for(log: &mut Log, agent: &str, state: &str) {
    let mut call = intent("g1", agent, Recovery::Idempotent, 1);
    (call.kind, call.args) = (CallKind::Delegate, json(ARGS));
    log.add_after("reading", "giving", vec![requested(call), sent("g1", 1, 1, "")]);
    let result = json(&format!(r#"{{"state":"{state}","result":null}}"#));
    let answer = CallEvent::Succeeded { call_id: "g1".to_owned(), attempt: 1, result, usage: None };
    log.add_after("giving", "given back", vec![AnyEvent::Task(TaskEvent::Call(answer))]);
}

/// Adds a request of the task `t`, the task that it sends, which is completed, and the answer that it has this state.
pub(crate) fn delegates(log: &mut Log, state: &str) {
    asks_for(log, "desk", state);
    let begun = vec![submitted("given", Submitted), changed(Submitted, Working)];
    log.add_after("giving", "given", begun);
    log.draft("given").stream = task("given");
    log.add_after("given", "given ends", vec![changed(Working, Completed)]);
}

#[rustfmt::skip]
pub(crate) const DELEGATED: &[Forgery] = &[
    ("an answer that names another end than its task has", ("given back", 0), "was answered by a task that is failed, but task-desk/given is completed", |log| delegates(log, "failed")),
    ("an answer of a task that goes on", ("given back", 0), "was answered by a task that is completed, but task-desk/given is working", |log| {
        delegates(log, "completed");
        log.drop_record("given ends");
    }),
    ("an answer of a task that ends later", ("given back", 0), "was answered by a task that is completed, but task-desk/given is working", |log| {
        delegates(log, "completed");
        log.drop_record("given ends");
        log.add_after("given back", "given ends late", vec![changed(Working, Completed)]);
        log.draft("given ends late").stream = task("given");
    }),
    ("an answer of a task that is not there", ("given back", 0), "was answered by a task that is canceled, but task-desk/given does not exist", |log| asks_for(log, "desk", "canceled")),
];
