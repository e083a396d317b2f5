//! Forgeries of who decided, in which program, and in whose turn.

use proto_events::call::{CallEvent, CallKind, CallRequested, Recovery};
use proto_events::codec::AnyEvent;
use proto_events::id::StreamId;
use proto_events::model::TaskState::{Submitted, Working};
use proto_events::model::{Message, Part};
use proto_events::task::{ApprovalRequested, TaskEvent};

use super::Forgery;
use super::events::*;
use super::log::Log;

/// Inserts a question whether the run goes on under a changed agent, and an intent behind it.
fn ask_about_agent(log: &mut Log, label: &str, decision: Option<AnyEvent>) {
    let question = asked("a9", "revision_1", "desk", json(r#"{"from": 1, "to": 2}"#));
    ask_first(log, label, question, decision);
}

/// Inserts a question whether the run goes on beyond its budget, in the same way.
fn ask_about_budget(log: &mut Log, label: &str, decision: Option<AnyEvent>) {
    ask_first(log, label, over_budget("a9", "budget_1"), decision);
}

/// Inserts a question to a person before what a record holds, and the decision, if there is one.
pub(crate) fn ask_first(log: &mut Log, label: &str, question: ApprovalRequested, decision: Option<AnyEvent>) {
    log.insert(label, 0, approval(question));
    if let Some(decision) = decision {
        log.insert(label, 1, decision);
        log.draft(label).by = "ada";
    }
}

fn handler(log: &mut Log, change: impl FnOnce(&mut CallRequested)) {
    let mut call = intent("h1", "desk", Recovery::Manual, 1);
    (call.kind, call.max_attempts, call.args) = (CallKind::Handler, 1, json(r#"{"message": 0}"#));
    change(&mut call);
    *log.event("handling", 0) = requested(call);
}

#[rustfmt::skip]
pub(crate) const PROGRAMS: &[Forgery] = &[
    ("a call while nobody has accepted the changed agent", ("reading", 1), "of the changed agent was not granted", |log| ask_about_agent(log, "reading", None)),
    ("a call after the changed agent was refused", ("reading", 2), "of the changed agent was not granted", |log| ask_about_agent(log, "reading", Some(decided("a9", false)))),
    ("an attempt while nobody has accepted the changed agent", ("sending again", 1), "of the changed agent was not granted", |log| ask_about_agent(log, "sending again", None)),
    ("a call while nobody has granted more than the budget", ("reading", 1), "of the exceeded budget was not granted", |log| ask_about_budget(log, "reading", None)),
    ("a call after more than the budget was denied", ("reading", 2), "of the exceeded budget was not granted", |log| ask_about_budget(log, "reading", Some(decided("a9", false)))),
    ("an attempt while nobody has granted more than the budget", ("sending again", 1), "of the exceeded budget was not granted", |log| ask_about_budget(log, "sending again", None)),
    ("a call beyond a budget that was granted once, and asked about again", ("reading", 3), "approval `a8` of the exceeded budget was not granted", |log| {
        ask_about_budget(log, "reading", Some(decided("a9", true)));
        log.insert("reading", 2, approval(over_budget("a8", "budget_2")));
    }),
    ("a call of a run whose changed agent was accepted, but not its budget", ("reading", 3), "of the exceeded budget was not granted", |log| {
        ask_about_agent(log, "reading", Some(decided("a9", true)));
        log.insert("reading", 2, approval(over_budget("a8", "budget_1")));
    }),
    ("a handler of another agent", ("handling", 0), "is of the handler of `other`, but the task is of `desk`", |log| handler(log, |call| call.target = "other".into())),
    ("a handler's call on a message that is not there", ("handling", 0), "of the handler names another message than that of its run", |log| handler(log, |call| call.args = json(r#"{"message": 1}"#))),
    ("a handler's call on no message", ("handling", 0), "of the handler names another message than that of its run", |log| handler(log, |call| call.args = json("{}"))),
    ("a user's tool call while the task works", ("queued", 0), "a message asks for a tool call while the task works", |log| {
        let parts = vec![Part::tool_call_of("pay", json("{}"), None)];
        let message = Message { id: Some("m9".into()), role: Some("user".into()), parts, timestamp: None };
        log.insert("queued", 0, AnyEvent::Task(TaskEvent::MessageAppended(message)));
    }),
    ("a further request to cancel that changes nothing", ("evidence", 0), "its cancellation was requested again, which changed nothing", |log| log.insert("evidence", 0, cancel_requested())),
    ("a further request to cancel behind the change that it claims", ("remark", 2), "its cancellation was requested again, which changed nothing", |log| log.insert("remark", 2, cancel_requested())),
    ("a call of an agent that no program had", ("foreign", 2), "but no program of epoch 2 had the agent `other`", |log| {
        let call = requested(intent("z1", "read", Recovery::ReadOnly, 1));
        log.add_after("lead ends", "foreign", vec![submitted("x", Submitted), changed(Submitted, Working), call]);
        log.draft("foreign").stream = StreamId::task("other", "x").unwrap();
    }),
    ("a task after the orderly end of its program", ("afterwards", 0), "it begins work in epoch 2, whose program had ended", |log| {
        log.add_after("stopped", "afterwards", vec![submitted("after", Submitted)]);
        log.draft("afterwards").stream = task("after");
    }),
    ("a call after the orderly end of its program", ("afterwards", 1), "it begins work in epoch 2, whose program had ended", |log| {
        log.remove("completed", 2);
        let call = requested(intent("x9", "read", Recovery::ReadOnly, 1));
        log.add_after("stopped", "afterwards", vec![artifact("art_late", Some(1)), call]);
        log.draft("afterwards").stream = task("crashed");
    }),
    ("the digest of a caller's text under an id of the system's own", ("remark", 0), "but its id is the system's own", |log| "~x".clone_into(&mut log.draft("remark").command)),
    ("one command decided twice at one time", ("remark", 0), "already, and again here", |log| {
        let (command, at) = (log.draft("again").command.clone(), log.draft("again").at);
        (log.draft("remark").command, log.draft("remark").at) = (command, at);
    }),
    ("a prompt of no renderer", ("inferring", 0), "names renderer 0, but the first one has the number 1", |log| {
        let AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request))) = log.event("inferring", 0) else { panic!() };
        request.prompt.as_mut().unwrap().renderer = 0;
    }),
    ("an inference in a session without an open turn", ("again", 4), "in which no turn is open", |log| {
        let mut infer = intent("i9", "model", Recovery::Reissue, 2);
        infer.prompt = Some(prompt(Some(&session())));
        log.insert("again", 4, requested(infer));
    }),
    ("an inference in another task's turn", ("inferring", 0), "in which the open turn is of task-desk/asker", |log| *log.event("turn", 1) = turn_started("turn 1", &task("asker"))),
    ("a second call under an approval whose own call was made", ("delegating", 2), "which was used before", |log| {
        let mut own = intent("p0", "peer", Recovery::Idempotent, 1);
        (own.kind, own.args) = (CallKind::Delegate, json(super::sound::DELEGATED));
        log.insert("delegating", 1, requested(own));
    }),
    ("a decision about which the record says nobody", ("denied", 0), "`ada` decided, but the record names nobody", |log| log.draft("denied").by = ""),
    ("a verdict about which the record says nobody", ("settled", 0), "`ada` decided, but the record names nobody", |log| log.draft("settled").by = ""),
    ("an abandoned call about which the record says nobody", ("abandoned", 0), "`ada` decided, but the record names nobody", |log| log.draft("abandoned").by = ""),
];
