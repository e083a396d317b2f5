//! Forgeries of calls and approvals.

use proto_events::call::{CallEvent, CallKind, CancelStage, FailureClass, Recovery, Verdict};
use proto_events::codec::AnyEvent;
use proto_events::envelope::Timestamp;
use proto_events::limits::LATE_RESULT_BYTES_MAX;
use proto_events::model::TaskState::{InputRequired, Working};
use proto_events::task::TaskEvent;

use super::Forgery;
use super::events::*;
use super::log::{Log, SECOND};

/// Changes the intent in a record.
pub(crate) fn change(
    log: &mut Log,
    label: &str,
    at: usize,
    change: impl FnOnce(&mut proto_events::call::CallRequested),
) {
    match log.event(label, at) {
        AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request))) => change(request),
        other => panic!("{other:?} is no intent"),
    }
}

/// Changes the approval request in a record.
fn ask(
    log: &mut Log,
    label: &str,
    at: usize,
    change: impl FnOnce(&mut proto_events::task::ApprovalRequested),
) {
    match log.event(label, at) {
        AnyEvent::Task(TaskEvent::ApprovalRequested(asked)) => change(asked),
        other => panic!("{other:?} is no approval request"),
    }
}

fn manual(id: &str) -> AnyEvent {
    requested(intent(id, "fire", Recovery::Manual, 1))
}

#[rustfmt::skip]
pub(crate) const CALLS: &[Forgery] = &[
    // Intents.
    ("an intent of a submitted task", ("begun", 2), "was intended while the task was submitted, outside a", |log| log.insert("begun", 2, manual("z"))),
    ("an intent of a task that waits for a person", ("again", 1), "was intended while the task was input-required, outside a", |log| log.insert("again", 1, manual("z"))),
    ("an intent of a task in an unknown state", ("unsure", 1), "was intended while the task was unknown, outside a", |log| log.insert("unsure", 1, manual("z"))),
    ("an intent after the end", ("evidence", 0), "was intended after the task's end", |log| log.insert("evidence", 0, manual("z"))),
    ("an intent of a task that was posted as over", ("posted over", 1), "was intended after the task's end", |log| log.insert("posted over", 1, manual("z"))),
    ("an intent of another run", ("booking", 0), "but was intended in run", |log| change(log, "booking", 0, |call| call.origin.run = 2)),
    ("a second intent of a call", ("sending", 0), "was intended twice", |log| change(log, "sending", 0, |call| call.call_id = "r1".into())),
    ("an inference that is no call of the task", ("paying", 1), "which was never intended", |log| change(log, "paying", 1, |call| call.origin.infer_call = Some("i9".into()))),
    ("a tool's call in the place of an inference", ("paying again", 0), "which was never intended", |log| change(log, "paying again", 0, |call| call.origin.infer_call = Some("c1".into()))),
    ("a tool that is reissued", ("reading", 0), "has the mode reissue: inferences are reissued, and nothing", |log| change(log, "reading", 0, |call| call.recovery = Recovery::Reissue)),
    ("an inference that is not reissued", ("inferring", 0), "has the mode manual: inferences are reissued, and nothing", |log| change(log, "inferring", 0, |call| call.recovery = Recovery::Manual)),
    ("one idempotency key for two calls", ("sending", 0), "has the idempotency key of the call at position", |log| change(log, "sending", 0, |call| call.idempotency_key = "key of r1".into())),
    ("one idempotency key for calls of two tasks", ("cut off", 0), "has the idempotency key of the call at position", |log| change(log, "cut off", 0, |call| call.idempotency_key = "key of r1".into())),
    ("a secret argument in clear", ("sending", 0), "has its secret argument `euros` in clear", |log| change(log, "sending", 0, |call| call.secrets = vec!["euros".into()])),
    ("no idempotency key", ("sending", 0), "has no idempotency key", |log| change(log, "sending", 0, |call| call.idempotency_key.clear())),
    ("a prompt of a session that does not exist", ("inferring", 0), "was shown the session session-desk/none, which its agent does", |log| change(log, "inferring", 0, |call| call.prompt = Some(prompt(Some(&proto_events::id::StreamId::session("desk", "none").unwrap()))))),
    ("a prompt of another agent's session", ("inferring", 0), "was shown the session session-other/s, which its agent does", |log| change(log, "inferring", 0, |call| call.prompt = Some(prompt(Some(&proto_events::id::StreamId::session("other", "s").unwrap()))))),
    ("a prompt of a stream that is no session", ("inferring", 0), "was shown the session task-desk/t, which its agent does", |log| change(log, "inferring", 0, |call| call.prompt = Some(prompt(Some(&task("t")))))),
    ("an inference while a tool call has no answer", ("paying again", 0), "was intended while the tool call", |log| {
        log.draft("answer").events[0] = said(proto_events::model::LlmRole::Assistant, None);
        log.draft("reply").events[0] = said(proto_events::model::LlmRole::Assistant, None);
        log.insert("answer", 1, said(proto_events::model::LlmRole::Assistant, Some("c9")));
        log.insert("committed", 0, said(proto_events::model::LlmRole::User, Some("c9")));
        change(log, "paying again", 0, |call| {
            (call.kind, call.recovery, call.prompt) = (CallKind::Infer, Recovery::Reissue, Some(prompt(Some(&session()))));
        });
        log.drop_record("deleted");
        log.draft("paid again").parts = 1;
        log.draft("paid again").part = 0;
    }),
    ("an inference of a plain task while a tool call has no answer", ("plain told", 2), "an inference was intended while the tool call", |log| {
        let mut infer = intent("n2", "model", Recovery::Reissue, 1);
        infer.prompt = Some(prompt(None));
        log.insert("plain told", 2, requested(infer));
        log.insert("plain told", 3, failed("n2", 0, FailureClass::BeforeEffect));
    }),
    // Attempts.
    ("an attempt without an intent", ("sending", 1), "sent without an intent", |log| *log.event("sending", 1) = sent("d9", 1, 1, "")),
    ("an attempt in another epoch than its record's", ("sending", 1), "but its record is of epoch", |log| *log.event("sending", 1) = sent("d1", 1, 9, "")),
    ("an attempt that skips a number", ("sending again", 0), "follows attempt", |log| *log.event("sending again", 0) = sent("d1", 3, 1, "again")),
    ("an attempt over the limit", ("sending again", 0), "is over its limit of", |log| change(log, "sending", 0, |call| call.max_attempts = 1)),
    ("a second attempt against the mode", ("overdue", 0), "times, though its mode is reconcile", |log| *log.event("overdue", 0) = sent("r1", 2, 1, "again")),
    ("a second attempt of a manual call after its time was up", ("firing", 3), "times, though its mode is manual", |log| {
        log.insert("firing", 2, timed_out("m1", 1));
        log.insert("firing", 3, sent("m1", 2, 1, "again"));
        *log.event("canceled", 1) = unknown("m1", 2);
        *log.event("settled", 0) = verdict("m1", 2, landed(), true);
    }),
    ("a second attempt in flight without a cause", ("sending again", 0), "was sent again in flight, and no cause is", |log| *log.event("sending again", 0) = sent("d1", 2, 1, "")),
    ("a second attempt after the key was forgotten", ("sending again", 0), "was sent again after its target had forgotten the", |log| change(log, "sending", 0, |call| call.window_ms = Some(500))),
    ("a second attempt after the deadline", ("sending again", 0), "was sent again after its deadline", |log| {
        let until = Timestamp(log.draft("sending again").at - SECOND / 2);
        change(log, "sending", 0, |call| call.deadline = Some(until));
    }),
    ("a scheduled retry of a manual call", ("retrying", 0), "was to be sent again, though its mode is manual", |log| change(log, "trying", 0, |call| call.recovery = Recovery::Manual)),
    ("a scheduled retry after the last attempt", ("retrying", 0), "was to be sent again after its last attempt of 1", |log| change(log, "trying", 0, |call| call.max_attempts = 1)),
    ("a scheduled retry after the deadline", ("retrying", 0), "was to be sent again after its deadline", |log| change(log, "trying", 0, |call| call.deadline = Some(FAR))),
    ("a scheduled retry that is due before the failure", ("retrying", 0), "was to be sent again at", |log| *log.event("retrying", 0) = retried("f1", 1, Timestamp(0))),
    ("a scheduled retry after an attempt that was never sent", ("retrying", 0), "attempt 2 failed, but was never sent", |log| *log.event("retrying", 0) = retried("f1", 2, FAR)),
    ("a timeout of a call that waits for its retry", ("tried again", 0), "timed out, but it is retry-scheduled", |log| *log.event("tried again", 0) = timed_out("f1", 1)),
    ("an attempt after the outcome", ("sent late", 0), "was sent again after its outcome (succeeded", |log| log.add_after("paid", "sent late", vec![sent("c1", 2, 1, "again")])),
    // Outcomes.
    ("a success without an intent", ("paid", 0), "succeeded without an intent", |log| { log.insert("paid", 0, succeeded("c9", 1)); }),
    ("a success of an attempt never sent", ("paid again", 0), "answered, but was never sent", |log| *log.event("paid again", 0) = succeeded("c2", 2)),
    ("a success of an older attempt", ("late", 1), "answered after attempt", |log| *log.event("late", 1) = succeeded("d1", 1)),
    ("a success after the time was up", ("booked", 0), "succeeded after its time was up, without a verdict", |log| log.remove("booked", 0)),
    ("a success of a call never sent", ("reading", 1), "succeeded, but it is requested", |log| *log.event("reading", 1) = succeeded("q1", 0)),
    ("a second outcome", ("paid", 1), "has a second outcome: succeeded, then failed", |log| log.insert("paid", 1, failed("c1", 1, FailureClass::AfterEffect))),
    ("a failure of an attempt never sent", ("delegated", 0), "answered, but was never sent", |log| *log.event("delegated", 0) = failed("p1", 2, FailureClass::Rejected)),
    ("a failure of an older attempt", ("late", 1), "answered after attempt", |log| *log.event("late", 1) = failed("d1", 1, FailureClass::AfterEffect)),
    ("a target's failure of a call never sent", ("reading", 1), "failed at its target, but was never sent", |log| *log.event("reading", 1) = failed("q1", 0, FailureClass::AfterEffect)),
    ("an exhausted call that was never sent", ("reading", 1), "failed at its target, but was never sent", |log| *log.event("reading", 1) = failed("q1", 0, FailureClass::Exhausted)),
    ("a timeout of an attempt never sent", ("overdue", 0), "timed out, but was never sent", |log| *log.event("overdue", 0) = timed_out("r1", 2)),
    ("a silence of a call that need not report progress", ("overdue", 0), "timed out without progress, but need not report any", |log| *log.event("overdue", 0) = silent("r1", 1)),
    ("a timeout of an older attempt", ("late", 0), "timed out after attempt", |log| *log.event("late", 0) = timed_out("d1", 1)),
    ("a timeout of a call never sent", ("reading", 1), "timed out, but it is requested", |log| log.insert("reading", 1, timed_out("q1", 0))),
    ("a timeout after the outcome", ("paid", 1), "timed out after its outcome (succeeded", |log| log.insert("paid", 1, timed_out("c1", 1))),
    ("an unknown outcome of a call never sent", ("canceled", 2), "has an unknown outcome, but was never sent", |log| *log.event("canceled", 2) = unknown("q2", 0)),
    ("an unknown outcome of another attempt", ("canceled", 1), "was lost, but was never sent", |log| *log.event("canceled", 1) = unknown("m1", 2)),
    ("an unknown outcome of a call that is repeated", ("completed", 0), "has an unknown outcome, though its mode read-only decides", |log| *log.event("completed", 0) = unknown("x1", 2)),
    ("an unknown outcome of a call whose key is never forgotten", ("late", 1), "has an unknown outcome, though its mode idempotent decides", |log| {
        change(log, "sending", 0, |call| call.window_ms = None);
        *log.event("late", 1) = unknown("d1", 2);
    }),
    ("an unknown outcome without the probe's verdict", ("unclear", 0), "has an unknown outcome, though its mode reconcile decides", |log| log.remove("unclear", 0)),
    ("a cancellation in flight of a call never sent", ("canceled", 2), "its cancellation says otherwise, but it was not sent", |log| *log.event("canceled", 2) = canceled("q2", CancelStage::InFlight)),
    ("a cancellation before its sending of a call that was sent", ("completed", 0), "its cancellation says otherwise, but it was sent", |log| *log.event("completed", 0) = canceled("x1", CancelStage::Requested)),
    ("a cancellation that hides an unknown outcome", ("canceled", 1), "was canceled in flight, though its outcome is unknown", |log| *log.event("canceled", 1) = canceled("m1", CancelStage::InFlight)),
    ("a cancellation in the middle of a run", ("late", 1), "was canceled, but its record does not end the", |log| *log.event("late", 1) = canceled("d1", CancelStage::InFlight)),
    ("a call that a failed inference asked for", ("paying", 1), "names the inference `i1`, which has no reply", |log| *log.event("inferred", 0) = failed("i1", 1, FailureClass::AfterEffect)),
    // What a program says of an attempt that an earlier one had sent.
    ("a success after a crash that nobody received", ("completed", 0), "attempt 1 ended in epoch 2, but had been sent in epoch 1", |log| {
        log.drop_record("resent");
        *log.event("completed", 0) = succeeded("x1", 1);
    }),
    ("a failure after a crash that nobody received", ("completed", 0), "attempt 1 ended in epoch 2, but had been sent in epoch 1", |log| {
        log.drop_record("resent");
        *log.event("completed", 0) = failed("x1", 1, FailureClass::AfterEffect);
    }),
    ("a time-out of an attempt that nobody awaited", ("resent", 0), "attempt 1 ended in epoch 2, but had been sent in epoch 1", |log| {
        log.insert("resent", 1, sent("x1", 2, 2, "the process ended"));
        *log.event("resent", 0) = timed_out("x1", 1);
    }),
    ("a scheduled retry of an attempt that nobody awaited", ("resent", 0), "attempt 1 ended in epoch 2, but had been sent in epoch 1", |log| {
        log.insert("resent", 1, sent("x1", 2, 2, "the process ended"));
        *log.event("resent", 0) = retried("x1", 1, FAR);
    }),
    // Failures that hide an unknown outcome.
    ("a manual call in flight that is called exhausted", ("canceled", 1), "is called exhausted, but its mode manual leaves a lost attempt", |log| {
        *log.event("canceled", 1) = failed("m1", 1, FailureClass::Exhausted);
        log.drop_record("settled");
    }),
    ("a call over its time that is called exhausted before its probe", ("booked", 0), "is called exhausted, but its mode reconcile leaves a lost attempt", |log| {
        log.remove("booked", 1);
        *log.event("booked", 0) = failed("r1", 1, FailureClass::Exhausted);
    }),
    ("a manual call in flight that is called superseded", ("paying again", 2), "was superseded, but is no inference", |log| {
        log.insert("paying again", 2, failed("c2", 1, FailureClass::Superseded));
        log.drop_record("deleted");
        log.drop_record("paid again");
    }),
    // Verdicts and evidence.
    ("a verdict on a call never sent", ("reading", 1), "was looked into, but was never sent", |log| log.insert("reading", 1, verdict("q1", 0, Verdict::DidNotHappen, false))),
    ("a verdict on another attempt", ("booked", 0), "was looked into, but was never sent", |log| *log.event("booked", 0) = verdict("r1", 2, landed(), false)),
    ("a person's verdict on an open call", ("booked", 0), "was settled by a person while it was open", |log| *log.event("booked", 0) = verdict("r1", 1, landed(), true)),
    ("a probe's verdict that lets a manual call be sent again", ("firing", 2), "was looked into by a probe, though its mode is manual", |log| {
        log.insert("firing", 2, verdict("m1", 1, Verdict::DidNotHappen, false));
        log.insert("firing", 3, sent("m1", 2, 1, "the previous attempt had no effect"));
        *log.event("canceled", 1) = unknown("m1", 2);
        *log.event("settled", 0) = verdict("m1", 2, landed(), true);
    }),
    ("a probe's verdict that makes a manual call successful", ("firing", 2), "was looked into by a probe, though its mode is manual", |log| {
        log.insert("firing", 2, verdict("m1", 1, landed(), false));
        log.insert("firing", 3, succeeded("m1", 1));
        log.remove("canceled", 1);
        log.drop_record("settled");
    }),
    ("a verdict without the outcome found", ("booked", 0), "was looked into (landed), but the outcome found does", |log| log.remove("booked", 1)),
    ("a verdict with another outcome than the one found", ("booked", 0), "was looked into (landed), but the outcome found does", |log| *log.event("booked", 1) = failed("r1", 1, FailureClass::Exhausted)),
    ("a verdict with another result than the one found", ("booked", 0), "was looked into (landed), but the outcome found does", |log| *log.event("booked", 0) = verdict("r1", 1, Verdict::Landed(json("false")), false)),
    ("a probe's second verdict on an attempt without effect", ("not booked", 1), "was looked into, but it is not-landed", |log| log.insert("not booked", 1, verdict("r2", 1, Verdict::DidNotHappen, false))),
    ("a second retry of one attempt", ("retrying", 1), "failed and was to be sent again, but it is retry-scheduled", |log| log.insert("retrying", 1, retried("f1", 1, FAR))),
    ("an attempt after the end", ("evidence", 0), "was sent after the task's end", |log| log.insert("evidence", 0, sent("m1", 2, 1, "again"))),
    ("a verdict after the outcome", ("paid", 1), "was looked into after its outcome (succeeded", |log| log.insert("paid", 1, verdict("c1", 1, landed(), true))),
    ("a second verdict", ("settled", 1), "was looked into after its outcome (landed", |log| log.insert("settled", 1, verdict("m1", 1, landed(), true))),
    ("an abandoned call whose outcome is known", ("abandoned", 0), "was abandoned, but its outcome is not unknown", |log| *log.event("abandoned", 0) = abandoned("c1")),
    ("a call that was abandoned twice", ("abandoned", 1), "was abandoned, but its outcome is not unknown", |log| log.insert("abandoned", 1, abandoned("r2"))),
    ("a late answer of an attempt never sent", ("late", 0), "answered late, but was never sent", |log| *log.event("late", 0) = late("d1", 3)),
    ("a late answer of a call without an intent", ("late", 0), "late result without an intent", |log| *log.event("late", 0) = late("d9", 1)),
    ("a late answer that was awaited", ("late", 0), "is called late, but was awaited", |log| *log.event("late", 0) = late("d1", 2)),
    ("a late answer over the limit", ("late", 0), "a late answer of", |log| {
        let AnyEvent::Task(TaskEvent::Call(CallEvent::LateResultIgnored { said, .. })) = log.event("late", 0) else { panic!() };
        *said = "x".repeat(LATE_RESULT_BYTES_MAX + 1);
    }),
    // Approvals.
    ("other arguments under an approval", ("paying", 1), "which is for other arguments", |log| change(log, "paying", 1, |call| call.args = json(r#"{"euros": 500}"#))),
    ("other arguments in the request for approval", ("paying", 1), "which is for other arguments", |log| ask(log, "inferred", 1, |asked| asked.args = json("{}"))),
    ("another tool under an approval", ("paying", 1), "which is for another tool", |log| ask(log, "inferred", 1, |asked| asked.tool = "book".into())),
    ("another call under an approval", ("paying", 1), "which is for another call", |log| ask(log, "inferred", 1, |asked| asked.call_id = "c9".into())),
    ("a call under an approval that was denied", ("paying", 1), "which was not granted", |log| *log.event("paying", 0) = decided("a1", false)),
    ("a call under an approval that is not decided", ("paying", 0), "which was not granted", |log| log.remove("paying", 0)),
    ("a call under an approval that nobody requested", ("paying again", 0), "which was never requested", |log| change(log, "paying again", 0, |call| call.approval = Some("a9".into()))),
    ("two calls under one approval", ("paying again", 0), "which is for another call", |log| change(log, "paying again", 0, |call| call.approval = Some("a1".into()))),
    ("a call under the consent to a changed agent", ("denied", 3), "which is about the agent and permits no call", |log| {
        let args = json(r#"{"from": 1, "to": 2}"#);
        let mut call = intent("revision_1", "desk", Recovery::Manual, 1);
        (call.args, call.approval) = (args.clone(), Some("a9".to_owned()));
        log.insert("denied", 1, approval(asked("a9", "revision_1", "desk", args)));
        log.insert("denied", 2, decided("a9", true));
        log.insert("denied", 3, requested(call));
        log.insert("denied", 4, failed("revision_1", 0, FailureClass::BeforeEffect));
    }),
    ("a call under the consent to a larger budget", ("denied", 3), "which is about the budget and permits no call", |log| {
        let stop = over_budget("a9", "budget_1");
        let mut call = intent("budget_1", "desk", Recovery::Manual, 1);
        (call.args, call.approval) = (stop.args.clone(), Some("a9".to_owned()));
        log.insert("denied", 1, approval(stop));
        log.insert("denied", 2, decided("a9", true));
        log.insert("denied", 3, requested(call));
        log.insert("denied", 4, failed("budget_1", 0, FailureClass::BeforeEffect));
    }),
    ("a denied call that names no approval", ("denied", 1), "was denied", |log| {
        log.insert("denied", 1, requested(intent("c3", "wipe", Recovery::Manual, 1)));
        log.insert("denied", 2, failed("c3", 0, FailureClass::BeforeEffect));
    }),
    ("an approved agent that is sent another task", ("delegating", 1), "which is for another task", |log| change(log, "delegating", 1, |call| {
        let other = super::sound::DELEGATED.replace(r#"{"prompt":"hello"}}"#, r#"{"prompt":"delete all"}}"#);
        assert_ne!(other, super::sound::DELEGATED);
        call.args = json(&other);
    })),
    ("two calls to an agent under one approval", ("delegated", 1), "which was used before", |log| {
        let mut second = intent("p2", "peer", Recovery::Idempotent, 1);
        (second.kind, second.args) = (CallKind::Delegate, json(super::sound::DELEGATED));
        second.approval = Some("a3".to_owned());
        log.insert("delegated", 1, requested(second));
        log.insert("delegated", 2, failed("p2", 0, FailureClass::BeforeEffect));
    }),
    ("an approval requested twice", ("wiping", 1), "was requested twice", |log| log.insert("wiping", 1, approval(asked("a2", "c3", "wipe", json("{}"))))),
    ("an approval requested for another run", ("wiping", 0), "which is not active", |log| ask(log, "wiping", 0, |asked| asked.origin.run = 2)),
    ("an approval requested outside a run", ("waiting", 3), "which is not active", |log| log.insert("waiting", 3, approval(asked("a9", "c9", "wipe", json("{}"))))),
    ("a decision nobody requested", ("denied", 0), "was decided, but never requested", |log| *log.event("denied", 0) = decided("a9", false)),
    ("a second decision", ("denied", 1), "was decided twice", |log| log.insert("denied", 1, decided("a2", true))),
    ("a decision after the end", ("evidence", 0), "was decided although the task is canceled", |log| {
        log.drop_record("denied");
        log.insert("evidence", 0, decided("a2", true));
    }),
    ("a decision after the task continued without it", ("queued", 0), "was decided after the task had continued without it", |log| {
        log.drop_record("denied");
        log.insert("queued", 0, decided("a2", true));
    }),
    ("a decision on a call that was made", ("denied", 0), "was decided after the task had continued without it", |log| {
        ask(log, "wiping", 0, |asked| asked.call_id = "q1".into());
    }),
    ("a state that leaves a call open", ("canceled", 3), "working -> canceled, but its call", |log| log.remove("canceled", 2)),
    ("a completed task with an open call", ("completed", 1), "working -> completed, but its call", |log| log.remove("completed", 0)),
    ("a canceled task with an open call", ("canceled", 3), "working -> canceled, but its call", |log| log.remove("canceled", 1)),
    ("a task that waits with an open call", ("waiting", 1), "working -> input-required, but its call", |log| { log.remove("reading", 1); }),
    ("a run that begins again in flight", ("plain infers", 2), "working -> input-required, but its call", |log| {
        log.insert("plain infers", 2, changed(Working, InputRequired));
        log.insert("plain infers", 3, changed(InputRequired, Working));
    }),
    ("an intent before the task began", ("crashing", 1), "was intended while the task was submitted, outside a", |log| {
        log.insert("crashing", 1, requested(intent("y", "read", Recovery::ReadOnly, 0)));
        log.insert("crashing", 2, failed("y", 0, FailureClass::BeforeEffect));
    }),
];
