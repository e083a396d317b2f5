//! Forgeries of what asked for a call, and of what its run made of its outcome.

use proto_events::call::{CallEvent, CallRequested};
use proto_events::codec::AnyEvent;
use proto_events::envelope::Principal;
use proto_events::json::JsonObject;
use proto_events::model::TaskState::{Completed, Failed, InputRequired, Working};
use proto_events::model::{Artifact, Part};
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;
use proto_events::turn::TurnMessage;

use super::Forgery;
use super::calls::change;
use super::events::*;
use super::log::{Log, SECOND};

/// Changes a message of a turn, of a session or a task.
fn of_turn(log: &mut Log, label: &str, at: usize, change: impl FnOnce(&mut TurnMessage)) {
    match log.event(label, at) {
        AnyEvent::Session(SessionEvent::MessageAppended(message))
        | AnyEvent::Task(TaskEvent::InferMessageAppended(message)) => change(message),
        other => panic!("{other:?} is no message of a turn"),
    }
}

/// Changes an artifact.
fn of_artifact(log: &mut Log, label: &str, at: usize, change: impl FnOnce(&mut Artifact)) {
    match log.event(label, at) {
        AnyEvent::Task(TaskEvent::ArtifactAppended { artifact, .. }) => change(artifact),
        other => panic!("{other:?} is no artifact"),
    }
}

/// Changes the parts of the message with which a task was submitted.
fn of_parts(log: &mut Log, label: &str, change: impl FnOnce(&mut Vec<Part>)) {
    match log.event(label, 0) {
        AnyEvent::Task(TaskEvent::Submitted(posted)) => change(&mut posted.messages[0].parts),
        other => panic!("{other:?} is no submission"),
    }
}

fn args(text: &str) -> impl FnOnce(&mut CallRequested) {
    let args = json(text);
    move |call| call.args = args
}

fn decided_by(log: &mut Log, by: Principal) {
    let AnyEvent::Task(TaskEvent::ApprovalDecided(decided)) = log.event("denied", 0) else { panic!() };
    decided.decided_by = by;
}

#[rustfmt::skip]
pub(crate) const ASKS: &[Forgery] = &[
    // Parts.
    ("a tool's call with another amount than its part", ("sending", 0), "has other arguments than part", |log| change(log, "sending", 0, args(r#"{"euros": 999}"#))),
    ("a tool's call with an argument that nobody asked for", ("sending", 0), "has arguments that nobody asked for and no schema fills in", |log| {
        *log.event("revised", 0) = revised(1, [1; 5], [Some("a"), Some("b"), Some(r#"[{"name": "send", "description": "", "input_schema": {"default": 7}}]"#), Some("[]"), Some("{}")]);
        change(log, "sending", 0, args(r#"{"euros": 5, "fast": true}"#));
    }),
    ("a tool's call of another tool than its part", ("sending", 0), "is of `give`, but part", |log| change(log, "sending", 0, |call| call.target = "give".into())),
    ("a tool's call of a part that asks for none", ("sending", 0), "is of part 99, which asks for no tool", |log| change(log, "sending", 0, |call| call.origin.part = 99)),
    ("a tool's call with the id of another part", ("sending", 0), "has another origin than part", |log| change(log, "sending", 0, |call| call.origin.part_call_id = Some("id".into()))),
    ("a second call of a part", ("paid twice", 0), "which has made a call already", |log| {
        let AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(first))) = log.event("reading", 0).clone() else { panic!() };
        let (call_id, idempotency_key) = ("q9".to_owned(), "key of q9".to_owned());
        log.add_after("reading", "paid twice", vec![requested(CallRequested { call_id, idempotency_key, ..*first })]);
    }),
    ("an approval of other arguments than the part's", ("wiping", 0), "approval `a2` is for a call that has other arguments than part", |log| {
        let AnyEvent::Task(TaskEvent::ApprovalRequested(asked)) = log.event("wiping", 0) else { panic!() };
        asked.args = json("[1]");
    }),
    ("an approval of arguments that nobody asked for", ("wiping", 0), "`a2` has arguments that nobody asked for and no schema fills in", |log| {
        *log.event("revised", 0) = revised(1, [1; 5], [Some("a"), Some("b"), Some(r#"[{"name": "wipe", "description": "", "input_schema": null}]"#), Some("[]"), Some("{}")]);
        let AnyEvent::Task(TaskEvent::ApprovalRequested(asked)) = log.event("wiping", 0) else { panic!() };
        asked.args = json(r#"{"all": true}"#);
    }),
    ("a handler's call of another message than the run's", ("handling", 0), "of the handler names another message than that of its run", |log| {
        log.insert("asker", 1, message("more"));
    }),
    ("a handler's call of a part", ("handling", 0), "of the handler has another origin than its run", |log| change(log, "handling", 0, |call| call.origin.part = 1)),
    // Inferences.
    ("an inference that a call asked for", ("inferring", 0), "is an inference, but names another call that asked for it", |log| change(log, "inferring", 0, |call| call.origin.part_call_id = Some("c".into()))),
    ("an inference that skips a step", ("inferring", 0), "is step 2 of its part, but follows step 0", |log| change(log, "inferring", 0, |call| call.origin.step = 2)),
    ("an inference of another model than it names", ("inferring", 0), "is of the model `test/other`, but its parameters name another one", |log| change(log, "inferring", 0, |call| call.target = "test/other".into())),
    ("an inference of a part that asks for a tool", ("inferring", 0), "is an inference of part 1, which asks for none", |log| change(log, "inferring", 0, |call| call.origin.part = 1)),
    ("an inference with another output schema", ("inferring", 0), "asks for another output than its part", |log| change(log, "inferring", 0, args(r#"{"backend": "test", "model": "model", "output_schema": {}}"#))),
    ("an inference in another session than the task names", ("inferring", 0), "but its task names the session `t`", |log| {
        let AnyEvent::Task(TaskEvent::Submitted(posted)) = log.event("begun", 0) else { panic!() };
        posted.metadata = JsonObject::new();
    }),
    // Replies.
    ("a model's call with another amount than in its reply", ("paying", 1), "for which the reply of `i1` did not ask", |log| change(log, "paying", 1, args(r#"{"euros": 999}"#))),
    ("a model's call of another step than its reply", ("paying", 1), "has another origin than the reply that asks for it", |log| change(log, "paying", 1, |call| call.origin.step = 2)),
    ("a request to another agent than in the reply", ("delegating", 1), "for which the reply of `n3` did not ask", |log| {
        *log.event("wished again", 0) = replied("n3", r#"{"content":"{\"type\":\"final\",\"content\":\"no\"}","model":"model"}"#);
    }),
    ("a request that no reply asks for", ("delegating", 1), "asks another agent, but no reply asked for it", |log| change(log, "delegating", 1, |call| call.origin.infer_call = None)),
    ("a request that sends another task", ("first child", 0), "sends another agent another task than it asks for", |log| change(log, "first child", 0, |call| {
        call.args = json(&call.args.as_str().replace(r#""content":{"prompt":"hello"}"#, r#""content":{"prompt":"pay"}"#));
    })),
    ("a model's call that its conversation does not ask for", ("paying", 1), "but no message of its conversation asks for it", |log| {
        of_turn(log, "reply", 0, |message| message.asks = vec!["c9".to_owned()]);
        of_turn(log, "answer", 0, |message| message.answers = Some("c9".to_owned()));
    }),
    ("a model's call that its task's turn does not ask for", ("delegating", 1), "but no message of the model asks for it", |log| {
        of_turn(log, "wished again", 1, |message| message.asks = vec!["p9".to_owned()]);
        of_turn(log, "wisher ends", 0, |message| message.answers = Some("p9".to_owned()));
    }),
    ("a message of an inference that is not there", ("reply", 0), "a message is of the inference `i9`, which", |log| of_turn(log, "reply", 0, |message| message.infer_call = Some("i9".to_owned()))),
    ("a result of a call that was dropped", ("plain told", 2), "with a result, but", |log| of_turn(log, "plain told", 2, |message| {
        message.infer_call = Some("n1".to_owned());
        r#"{"type": "tool_result", "tool": "pay", "result": 5}"#.clone_into(&mut message.message.content);
    })),
    // Outputs and ends.
    ("an output of a part that the run does not have", ("waiting", 0), "an output of part 99 was added, but the run has no such part", |log| {
        let AnyEvent::Task(TaskEvent::ArtifactAppended { part, .. }) = log.event("waiting", 0) else { panic!() };
        *part = Some(99);
    }),
    ("a second output of a part", ("waiting", 1), "part 0 has a second output", |log| {
        let output = log.event("waiting", 0).clone();
        log.insert("waiting", 1, output);
        of_artifact(log, "waiting", 1, |artifact| artifact.id = Some("art_9".to_owned()));
    }),
    ("an output of two parts", ("completed", 1), "the output of part 0 has 2 parts", |log| of_artifact(log, "completed", 1, |artifact| artifact.parts.push(Part::text("more")))),
    ("an output with the id of another artifact", ("waiting", 0), "the output of part 0 has the id of another artifact", |log| log.insert("reading", 0, artifact("art_1", None))),
    ("an output of no model", ("waiting", 0), "part 0 has an output, but no reply of the model", |log| of_artifact(log, "waiting", 0, |artifact| artifact.parts = vec![Part::text("yes")])),
    ("an output of no tool", ("completed", 1), "the output of part 0 is not that of a tool", |log| of_artifact(log, "completed", 1, |artifact| artifact.parts = vec![Part::text("yes")])),
    ("an output of another call", ("completed", 1), "the output of part 0 is that of another call", |log| {
        of_parts(log, "crashing", |parts| parts[0] = Part::tool_call_of("read", json(r#"{"euros": 5}"#), Some("mine")));
        change(log, "cut off", 0, |call| call.origin.part_call_id = Some("mine".into()));
    }),
    ("an output with another result than its call's", ("completed", 1), "the output of part 0 is not the outcome of its call", |log| of_artifact(log, "completed", 1, |artifact| artifact.parts = vec![Part::tool_output("made", json("false"))])),
    ("a failure in place of a call's result", ("completed", 1), "the output of part 0 is not the outcome of its call", |log| of_artifact(log, "completed", 1, |artifact| artifact.parts = vec![Part::tool_failure("made", json(r#"{"message": "no"}"#))])),
    ("an output of a call that was dropped", ("completed", 0), "part 0 has an output, but made no call", |log| {
        log.drop_record("cut off");
        log.drop_record("resent");
        log.remove("completed", 0);
    }),
    ("an output of a call without an outcome", ("completed", 0), "part 0 has an output, but its call has no outcome", |log| log.draft("completed").events.swap(0, 1)),
    ("an output of a part that cannot be carried out", ("completed", 1), "part 0 has an output, but cannot be carried out", |log| of_parts(log, "crashing", |parts| parts[0] = Part::new("tool_call", json("1")))),
    ("a completed task without its output", ("completed", 1), "the task is completed, but part 0 of its run has no output", |log| log.remove("completed", 1)),
    ("a completed task whose output is a failure", ("completed", 2), "the run ended, but its outputs lead to failed", |log| {
        *log.event("completed", 0) = failed("x1", 2, proto_events::call::FailureClass::AfterEffect);
        of_artifact(log, "completed", 1, |artifact| artifact.parts = vec![Part::tool_failure("made", json(r#"{"message": "no"}"#))]);
    }),
    ("a task that waits for nobody", ("completed", 2), "the run ended, but its outputs lead to completed", |log| *log.event("completed", 2) = changed(Working, InputRequired)),
    ("a completed task whose handler failed", ("handled", 1), "the task is completed, but call `h1` of its handler did not succeed", |log| *log.event("handled", 0) = failed("h1", 2, proto_events::call::FailureClass::AfterEffect)),
    ("a failure in place of a completion", ("completed", 2), "the task failed, but no error is given", |log| *log.event("completed", 2) = changed(Working, Failed)),
    ("a completion in place of a failure", ("wisher ends", 1), "the task is completed, but part 0 of its run has no output", |log| *log.event("wisher ends", 1) = changed(Working, Completed)),
    // People and times.
    ("a decision of another person than the record's", ("denied", 0), "`ada` decided, but the record is of a command of `mallory`", |log| log.draft("denied").by = "mallory"),
    ("a decision of a person whose name was checked, in a record of one whose was not", ("denied", 0), "the name of `ada`, who decided, is authenticated, but the record has it as asserted", |log| decided_by(log, Principal::authenticated("ada"))),
    ("an authenticated nobody", ("overdue", 0), "names nobody, but says that the name was checked", |log| log.draft("overdue").is_authenticated = true),
    ("an authenticated nobody who decided", ("denied", 0), "names nobody, but says that the name was checked", |log| decided_by(log, Principal::authenticated(""))),
    ("a first attempt after the deadline", ("sent late", 0), "was sent after its deadline", |log| {
        log.remove("sending", 1);
        let until = proto_events::envelope::Timestamp(log.draft("sending").at + SECOND / 2);
        change(log, "sending", 0, |call| call.deadline = Some(until));
        log.add_after("sending", "sent late", vec![sent("d1", 1, 1, "")]);
        log.draft("sent late").at += SECOND;
    }),
    ("a task before the first program", ("started", 0), "records of tasks or sessions stand before it", |log| {
        let first = log.drafts.iter().position(|draft| draft.label == "posted over").unwrap();
        let first = log.drafts.remove(first);
        log.drafts.insert(0, first);
    }),
    ("a time-out with another limit than its call's", ("overdue", 0), "timed out after 1 ms, which is none of its limits", |log| {
        let AnyEvent::Task(TaskEvent::Call(CallEvent::TimedOut { after_ms, .. })) = log.event("overdue", 0) else { panic!() };
        *after_ms = 1;
    }),
];

#[test]
fn an_answer_in_words_is_no_result_of_a_call() {
    let mut log = super::sound();
    of_turn(&mut log, "plain told", 2, |message| {
        message.infer_call = Some("n1".to_owned());
        message.message.content =
            r#"{"type": "tool_result", "tool": "pay", "result": null, "error": "not made"}"#.to_owned();
    });
    let found = taskreel_log::audit::verify(&log.seal());
    assert!(found.is_sound(), "{:#?}", found.findings);
}
