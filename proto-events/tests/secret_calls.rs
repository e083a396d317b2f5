//! Secret arguments in the vocabulary: an intent holds references only, and a task says which values it still needs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use proto_events::call::{
    CallBook, CallCommand, CallEvent, CallFailure, CallKind, CallOrigin, CallRejection, CallRequested,
    FailureClass, NewCall, Recovery,
};
use proto_events::decider::Decider;
use proto_events::envelope::Metadata;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Message, Part, PostedTask, TaskState};
use proto_events::secret::KeptSecret;
use proto_events::task::{Task, TaskEvent};

fn reference() -> String {
    KeptSecret::new([3; 16], &JsonText::string("hunter2")).to_string()
}

fn args(value: &str) -> JsonText {
    let fields: JsonObject = [("token".to_owned(), JsonText::string(value))].into_iter().collect();
    fields.to_text()
}

fn intent(value: &str) -> CallRequested {
    CallRequested {
        secrets: vec!["token".to_owned()],
        origin: CallOrigin { run: 1, ..CallOrigin::default() },
        ..CallRequested::new(NewCall {
            call_id: "c".to_owned(),
            kind: CallKind::Tool,
            target: "login".to_owned(),
            args: args(value),
            idempotency_key: "k".to_owned(),
            recovery: Recovery::Manual,
            recovery_source: "tool".to_owned(),
            timeout_ms: 1_000,
            max_attempts: 1,
        })
    }
}

#[test]
fn an_intent_with_a_secret_in_clear_is_rejected() {
    let decide =
        |value: &str| CallBook::default().decide(CallCommand::Request(Box::new(intent(value))), false);
    let rejected = CallRejection::SecretInClear { call_id: "c".to_owned(), argument: "token".to_owned() };
    assert_eq!(decide("hunter2"), Err(rejected));
    assert!(decide(&reference()).is_ok() && decide("secret:name").is_ok());
}

/// A task whose one part calls with this value, after these events.
fn task(value: &str, events: impl IntoIterator<Item = TaskEvent>) -> Task {
    let message = Message {
        id: Some("m".to_owned()),
        role: Some("user".to_owned()),
        parts: vec![Part::tool_call_of("login", args(value), None)],
        timestamp: Some("2026-11-22T00:00:00+00:00".to_owned()),
    };
    let posted = PostedTask {
        id: "t".to_owned(),
        state: TaskState::Submitted,
        messages: vec![message],
        artifacts: Vec::new(),
        metadata: JsonObject::new(),
        flow_state: JsonText::empty_object(),
        created_at: None,
        filled_in: Vec::new(),
        source: None,
    };
    let mut task = Task::default();
    for event in std::iter::once(TaskEvent::Submitted(Box::new(posted))).chain(events) {
        task.evolve(&event, &Metadata::default());
    }
    task
}

fn changed(from: TaskState, to: TaskState) -> TaskEvent {
    TaskEvent::StateChanged { from, to, budget: None }
}

#[test]
fn a_value_is_needed_from_the_post_until_its_call_is_settled() {
    let call_id = || "c".to_owned();
    let began = || changed(TaskState::Submitted, TaskState::Working);
    let requested = || TaskEvent::Call(CallEvent::Requested(Box::new(intent(&reference()))));
    let sent = || {
        TaskEvent::Call(CallEvent::Dispatched {
            call_id: call_id(),
            attempt: 1,
            epoch: 1,
            cause: String::new(),
        })
    };
    let unknown = || {
        let why = "lost".to_owned();
        TaskEvent::Call(CallEvent::OutcomeUnknown { call_id: call_id(), attempt: 1, why })
    };
    let failed = || {
        let (error_type, message) = ("E".to_owned(), "no".to_owned());
        let failure = CallFailure { class: FailureClass::AfterEffect, error_type, message, usage: None };
        TaskEvent::Call(CallEvent::Failed { call_id: call_id(), attempt: 1, failure })
    };
    let waits = || changed(TaskState::Working, TaskState::InputRequired);
    let ended = || changed(TaskState::Working, TaskState::Completed);
    assert!(Task::default().secrets_needed().is_empty());
    for (needed, events) in [
        (true, vec![]),
        (true, vec![began()]),
        (true, vec![began(), requested(), sent()]),
        (true, vec![began(), requested(), sent(), unknown(), waits()]),
        (false, vec![began(), requested(), sent(), failed(), ended()]),
        (
            false,
            vec![began(), requested(), sent(), unknown(), changed(TaskState::Working, TaskState::Failed)],
        ),
    ] {
        let last = format!("{:?}", events.last());
        let task = task(&reference(), events);
        let names: Vec<_> = task.secrets_needed().iter().map(ToString::to_string).collect();
        assert_eq!(names, if needed { vec![reference()] } else { Vec::new() }, "after {last}");
    }
    // A model's call, which no part names.
    let by_model = |events: Vec<TaskEvent>| !task("secret:other", events).secrets_needed().is_empty();
    assert!(by_model(vec![began(), requested(), sent(), unknown(), waits()]));
    assert!(!by_model(vec![began(), requested(), sent(), failed(), waits()]));
}
