//! Forgeries of the answers of other agents of the same program. The log has one agent, which asks itself here: nobody checks
//! that it must not.

use proto_events::call::{CallEvent, Recovery};
use proto_events::codec::AnyEvent;
use proto_events::model::TaskState::{Completed, Submitted, Working};
use proto_events::task::TaskEvent;

use super::Forgery;
use super::events::*;
use super::log::Log;
use super::sound::child;

/// Adds a tool's request to this agent, and the answer that its task has this state.
pub(crate) fn asks_for(log: &mut Log, agent: &str, state: &str) {
    let tool = vec![requested(intent("g0", "research", Recovery::ReadOnly, 1)), sent("g0", 1, 1, "")];
    log.add_after("reading", "giver", tool);
    let mut call = child("g1", "g0", 1);
    let sender = r#"{"taskreel.sent_by":{"task":"task-desk/t","call_id":"g1"}}"#;
    let messages = r#"[{"parts":[{"type":"infer","content":{"prompt":"hello"}}]}]"#;
    let args = format!(
        r#"{{"type":"agent_call","agent":"{agent}","action":"infer","prompt":"hello","task":{{"id":"given","metadata":{sender},"messages":{messages}}}}}"#
    );
    (call.target, call.args) = (agent.to_owned(), json(&args));
    log.add_after("giver", "giving", vec![requested(call), sent("g1", 1, 1, "")]);
    let result = json(&format!(r#"{{"state":"{state}","result":null}}"#));
    let answer = CallEvent::Succeeded { call_id: "g1".to_owned(), attempt: 1, result, usage: None };
    log.add_after("giving", "given back", vec![AnyEvent::Task(TaskEvent::Call(answer))]);
    log.add_after("given back", "giver ends", vec![succeeded("g0", 1)]);
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
