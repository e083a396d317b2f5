//! A sound log with every kind of event, as the system writes it.

use proto_events::call::{
    CallKind, CallRequested, CancelStage, FailureClass, ParentCall, PromptRef, Recovery, Verdict,
};
use proto_events::codec::AnyEvent;
use proto_events::id::StreamId;
use proto_events::json::JsonText;
use proto_events::model::LlmRole::{Assistant, System, User};
use proto_events::model::TaskState::{
    Canceled, Completed, Failed, InputRequired, Submitted, Unknown, Working,
};
use proto_events::model::{BudgetLimit, LimitUse};
use proto_events::task::TaskEvent;

use super::asking;
use super::events::*;
use super::log::Log;

/// The model's action that asks another agent, and the arguments of the intent that carries it out.
pub(crate) const WISH: &str = r#"{"type":"agent_call","agent":"peer","action":"infer","prompt":"hello"}"#;
pub(crate) const DELEGATED: &str = r#"{"type":"agent_call","agent":"peer","action":"infer","prompt":"hello","task":{"id":"child","messages":[{"parts":[{"type":"infer","content":{"prompt":"hello"}}]}]}}"#;

/// Returns the log.
pub(crate) fn sound() -> Log {
    let mut log = Log::default();
    log.epoch(1);
    let desk = StreamId::of_agent("desk").unwrap();
    let programs = StreamId::of_system(0);
    let first = revised(1, [1; 5], [Some("a"), Some("b"), Some("[]"), Some("[]"), Some("{}")]);
    log.append(vec![("revised", &desk, vec![first]), ("started", &programs, vec![started(1, 1)])]);
    conversation(&mut log);
    recovery(&mut log);
    approvals(&mut log);
    wisher(&mut log);
    ends(&mut log);
    asker(&mut log);
    lead(&mut log);
    other_tasks(&mut log);
    told(&mut log);
    log.epoch(2);
    let second = revised(2, [1, 2, 1, 1, 1], [None, Some("B"), None, None, None]);
    log.append(vec![("revised again", &desk, vec![second]), ("restarted", &programs, vec![started(2, 2)])]);
    let crashed = task("crashed");
    log.append(vec![("resent", &crashed, vec![sent("x1", 2, 2, "the process ended")])]);
    let done = vec![succeeded("x1", 2), artifact("art_x", Some(0)), changed(Working, Completed)];
    log.append(vec![("completed", &crashed, done)]);
    let again = vec![sent("l1", 2, 2, "the process ended"), sent("l3", 2, 2, "the process ended")];
    log.append(vec![("led again", &self::task("lead"), again)]);
    let led = vec![canceled("l3", CancelStage::InFlight), succeeded("l1", 2), artifact("art_l", Some(0))];
    log.append(vec![("led", &self::task("lead"), led)]);
    log.append(vec![("lead ends", &self::task("lead"), vec![changed(Working, Completed)])]);
    log.append(vec![("server", &programs, vec![server_seen(2)])]);
    log.append(vec![("stopped", &programs, vec![stopped(2)])]);
    asking::fill(&mut log);
    log
}

/// A task in a conversation: an inference, a call to a tool that keeps state, and its answer.
fn conversation(log: &mut Log) {
    let (task, session, pay) = (task("t"), session(), tool("pay"));
    let begun = vec![submitted("t", Submitted), metadata("run_context"), changed(Submitted, Working)];
    log.append(vec![("begun", &task, begun)]);
    log.draft("begun").is_named = true;
    let turn = vec![opened("s"), turn_started("turn 1", &task), system_prompt(System), said(User, None)];
    let mut infer = intent("i1", "model", Recovery::Reissue, 1);
    infer.prompt = Some(prompt(Some(&session)));
    let asks = vec![requested(infer), sent("i1", 1, 1, "")];
    log.append(vec![("turn", &session, turn), ("inferring", &task, asks)]);
    let wishes = vec![said(Assistant, Some("c1"))];
    let mut approval_of = asked("a1", "c1", "pay", json(r#"{"euros": 5}"#));
    approval_of.origin = of_reply("i1", 1);
    let reply =
        replied("i1", r#"{"content":"","calls":[{"tool":"pay","args":{"euros": 5}}],"model":"model"}"#);
    log.append(vec![("reply", &session, wishes), ("inferred", &task, vec![reply, approval(approval_of)])]);
    let mut paying = intent("c1", "pay", Recovery::Manual, 1);
    paying.approval = Some("a1".to_owned());
    paying.origin = of_reply("i1", 1);
    let paying = vec![decided("a1", true), requested(paying), sent("c1", 1, 1, "")];
    log.append(vec![("paying", &task, paying)]);
    log.append(vec![
        ("answer", &session, vec![said(User, Some("c1"))]),
        ("put", &pay, vec![put(&task, "c1", "ledger"), put(&task, "c1", "draft")]),
        ("paid", &task, vec![succeeded("c1", 1)]),
    ]);
    let again = vec![requested(intent("c2", "pay", Recovery::Manual, 1)), sent("c2", 1, 1, "")];
    log.append(vec![("paying again", &task, again)]);
    log.append(vec![
        ("deleted", &pay, vec![deleted(&task, "c2", "draft")]),
        ("paid again", &task, vec![succeeded("c2", 1)]),
    ]);
}

/// Calls whose attempts are lost, in each mode.
fn recovery(log: &mut Log) {
    let task = task("t");
    let book = intent("r1", "book", Recovery::Reconcile, 1);
    log.append(vec![("booking", &task, vec![requested(book), sent("r1", 1, 1, "")])]);
    log.append(vec![("overdue", &task, vec![timed_out("r1", 1)])]);
    log.append(vec![("booked", &task, vec![verdict("r1", 1, landed(), false), succeeded("r1", 1)])]);
    let mut send = intent("d1", "send", Recovery::Idempotent, 1);
    send.window_ms = Some(60_000);
    log.append(vec![("sending", &task, vec![requested(send), sent("d1", 1, 1, "")])]);
    log.append(vec![("sending again", &task, vec![sent("d1", 2, 1, "unreachable")])]);
    log.append(vec![("late", &task, vec![late("d1", 1), succeeded("d1", 2)])]);
    let flaky = intent("f1", "read", Recovery::ReadOnly, 1);
    log.append(vec![("trying", &task, vec![requested(flaky), sent("f1", 1, 1, "")])]);
    log.append(vec![("retrying", &task, vec![retried("f1", 1, FAR)])]);
    log.append(vec![("tried again", &task, vec![sent("f1", 2, 1, "no"), succeeded("f1", 2)])]);
    let probed = intent("r2", "book", Recovery::Reconcile, 1);
    log.append(vec![("probing", &task, vec![requested(probed), sent("r2", 1, 1, "")])]);
    let no = verdict("r2", 1, Verdict::DidNotHappen, false);
    log.append(vec![("not booked", &task, vec![no, sent("r2", 2, 1, "it had no effect")])]);
    let unclear = verdict("r2", 2, Verdict::Inconclusive("lost".to_owned()), false);
    log.append(vec![("unclear", &task, vec![unclear, unknown("r2", 2)])]);
    log.append(vec![("abandoned", &task, vec![abandoned("r2")])]);
    let read = intent("q1", "read", Recovery::ReadOnly, 1);
    log.append(vec![("reading", &task, vec![requested(read), failed("q1", 0, FailureClass::BeforeEffect)])]);
}

/// An approval that is denied.
fn approvals(log: &mut Log) {
    let task = task("t");
    let wipe = approval(asked("a2", "c3", "wipe", json("{}")));
    log.append(vec![("wiping", &task, vec![wipe])]);
    log.append(vec![("denied", &task, vec![decided("a2", false)])]);
}

/// A task whose model asks another agent, first without and then with an approval.
fn wisher(log: &mut Log) {
    let task = task("wisher");
    let begun = vec![submitted("wisher", Submitted), changed(Submitted, Working), said_in_task(User, None)];
    log.append(vec![("wisher", &task, begun)]);
    let infers = |id: &str, messages: u32| {
        let mut infer = intent(id, "model", Recovery::Reissue, 1);
        infer.prompt = Some(PromptRef { messages, ..prompt(None) });
        vec![requested(infer), sent(id, 1, 1, "")]
    };
    let wish = JsonText::string(WISH);
    let wish = format!(r#"{{"content":{},"model":"model"}}"#, wish.as_str());
    log.append(vec![("wisher infers", &task, infers("n2", 2))]);
    log.append(vec![("wished", &task, vec![replied("n2", &wish), said_in_task(Assistant, Some("p0"))])]);
    let mut first = asked("a3", "p0", "peer", json(WISH));
    first.origin = of_reply("n2", 1);
    log.append(vec![("wishing", &task, vec![approval(first)])]);
    let again = [vec![said_in_task(User, Some("p0"))], infers("n3", 4)].concat();
    log.append(vec![("wisher infers again", &task, again)]);
    log.append(vec![(
        "wished again",
        &task,
        vec![replied("n3", &wish), said_in_task(Assistant, Some("p1"))],
    )]);
    let mut delegate = intent("p1", "peer", Recovery::Idempotent, 1);
    (delegate.kind, delegate.args) = (CallKind::Delegate, json(DELEGATED));
    delegate.approval = Some("a3".to_owned());
    delegate.origin = of_reply("n3", 2);
    let delegating = vec![decided("a3", true), requested(delegate), sent("p1", 1, 1, "")];
    log.append(vec![("delegating", &task, delegating)]);
    log.append(vec![("delegated", &task, vec![failed("p1", 1, FailureClass::Rejected)])]);
    let fails = vec![said_in_task(User, Some("p1")), changed(Working, Failed), metadata("error")];
    log.append(vec![("wisher ends", &task, fails)]);
}

/// A task that waits for a person, goes on, and is canceled with a call in flight.
fn ends(log: &mut Log) {
    let (task, session) = (task("t"), session());
    let waits = vec![artifact("art_1", Some(0)), changed(Working, InputRequired), message("which?")];
    log.append(vec![("committed", &session, vec![turn_committed("turn 1")]), ("waiting", &task, waits)]);
    let again = vec![message("this"), posted_again("t2"), metadata("more"), changed(InputRequired, Working)];
    log.append(vec![("again", &task, again)]);
    log.draft("again").is_named = true;
    let turn = vec![turn_started("turn 2", &task), said(User, None)];
    let fire = vec![requested(intent("m1", "fire", Recovery::Manual, 2)), sent("m1", 1, 1, "")];
    log.append(vec![("second turn", &session, turn), ("firing", &task, fire)]);
    log.append(vec![("queued", &task, vec![requested(intent("q2", "read", Recovery::ReadOnly, 2))])]);
    let end = vec![
        cancel_requested(),
        unknown("m1", 1),
        canceled("q2", CancelStage::Requested),
        metadata("cancel_reason"),
        changed(Working, Canceled),
    ];
    log.append(vec![("aborted", &session, vec![turn_aborted("turn 2")]), ("canceled", &task, end)]);
    log.draft("canceled").is_named = true;
    log.append(vec![("evidence", &task, vec![late("m1", 1)])]);
    log.append(vec![("settled", &task, vec![verdict("m1", 1, landed(), true)])]);
    log.append(vec![("remark", &task, vec![message("thanks"), metadata("seen")])]);
    log.draft("remark").is_named = true;
}

/// Tasks of other kinds: posted as over, failed over its budget, without a conversation, cut off by a crash.
fn other_tasks(log: &mut Log) {
    let (over, unsure, poor) = (task("over"), task("unsure"), task("poor"));
    log.append(vec![("posted over", &over, vec![submitted("over", Completed)])]);
    log.append(vec![("unsure", &unsure, vec![submitted("unsure", Unknown)])]);
    log.append(vec![("poor", &poor, vec![submitted("poor", Submitted), changed(Submitted, Working)])]);
    let budget = Some(LimitUse { limit: BudgetLimit::Steps, used: 3.0, allowed: 2.0 });
    let failed = AnyEvent::Task(TaskEvent::StateChanged { from: Working, to: Failed, budget });
    log.append(vec![("failed", &poor, vec![failed, metadata("error")])]);
    let plain = task("plain");
    let asks = vec![submitted("plain", Submitted), changed(Submitted, Working), said_in_task(User, None)];
    log.append(vec![("plain", &plain, asks)]);
    let mut infer = intent("n1", "model", Recovery::Reissue, 1);
    infer.prompt = Some(prompt(None));
    log.append(vec![("plain infers", &plain, vec![requested(infer), sent("n1", 1, 1, "")])]);
    let told = vec![
        replied("n1", r#"{"content":"hello","model":"model"}"#),
        said_in_task(Assistant, Some("o1")),
        said_in_task(User, Some("o1")),
        artifact("art_n", Some(0)),
    ];
    log.append(vec![("plain told", &plain, told)]);
    log.append(vec![("plain ends", &plain, vec![changed(Working, Completed), message("bye")])]);
    let crashed = task("crashed");
    let begun = vec![submitted("crashed", Submitted), changed(Submitted, Working)];
    log.append(vec![("crashing", &crashed, begun)]);
    let read = vec![requested(intent("x1", "read", Recovery::ReadOnly, 1)), sent("x1", 1, 1, "")];
    log.append(vec![("cut off", &crashed, read)]);
}

/// A task whose handler adds an artifact in pieces, and asks a person in between.
fn asker(log: &mut Log) {
    let task = task("asker");
    log.append(vec![("asker", &task, vec![submitted("asker", Submitted), changed(Submitted, Working)])]);
    let mut handler = intent("h1", "desk", Recovery::Manual, 1);
    (handler.kind, handler.max_attempts) = (CallKind::Handler, 1);
    handler.args = json(r#"{"message": 0}"#);
    log.append(vec![("handling", &task, vec![requested(handler), sent("h1", 1, 1, "")])]);
    log.append(vec![("piece", &task, vec![piece(Some("art_p"), false)])]);
    let waits = vec![asks(1), changed(Working, InputRequired), message("which?")];
    log.append(vec![("asking", &task, waits)]);
    let goes_on = sent("h1", 2, 1, "its question was answered");
    log.append(vec![(
        "answering",
        &task,
        vec![answers(), message("this"), changed(InputRequired, Working), goes_on],
    )]);
    log.append(vec![("last piece", &task, vec![piece(Some("art_p"), true)])]);
    log.append(vec![("handled", &task, vec![succeeded("h1", 2), changed(Working, Completed)])]);
}

/// A task with two webhooks: one is told everything, the other is given up, registered again and removed.
pub(crate) fn told(log: &mut Log) {
    let task = task("told");
    log.append(vec![("told", &task, vec![submitted("told", Submitted), changed(Submitted, Working)])]);
    log.append(vec![("hooked", &task, vec![webhook_set("w", 2), webhook_set("x", 2)])]);
    log.append(vec![("said", &task, vec![message("so far")])]);
    log.append(vec![("told first", &task, vec![webhook_delivered("w", 5, false)])]);
    log.append(vec![("failing", &task, vec![webhook_failed("x", 3, false)])]);
    log.append(vec![("given up", &task, vec![webhook_failed("x", 16, true)])]);
    log.append(vec![("hooked again", &task, vec![webhook_set("x", 2)])]);
    log.append(vec![("unhooked", &task, vec![webhook_removed("x")])]);
    log.append(vec![("told ends", &task, vec![changed(Working, Completed)])]);
    log.append(vec![("told all", &task, vec![webhook_delivered("w", 11, true)])]);
}

/// The intent of a request to another agent that a tool's call makes in its middle.
pub(crate) fn child(id: &str, parent: &str, ordinal: u32) -> CallRequested {
    let mut child = intent(id, "peer", Recovery::Idempotent, 1);
    (child.kind, child.args) = (CallKind::Delegate, json(DELEGATED));
    child.origin.parent = Some(ParentCall { call_id: parent.to_owned(), ordinal });
    child
}

/// A task whose tool asks another agent twice, the second time with a crash in between and in vain.
fn lead(log: &mut Log) {
    let task = task("lead");
    log.append(vec![("lead", &task, vec![submitted("lead", Submitted), changed(Submitted, Working)])]);
    let tool = intent("l1", "research", Recovery::ReadOnly, 1);
    log.append(vec![("leading", &task, vec![requested(tool), sent("l1", 1, 1, "")])]);
    log.append(vec![("first child", &task, vec![requested(child("l2", "l1", 1)), sent("l2", 1, 1, "")])]);
    log.append(vec![("first answer", &task, vec![succeeded("l2", 1)])]);
    log.append(vec![("second child", &task, vec![requested(child("l3", "l1", 2)), sent("l3", 1, 1, "")])]);
}
