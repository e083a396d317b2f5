//! The message of a user that answers a question of a task, as a table of tasks and messages.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use proto_events::call::{CallEvent, CallKind, CallRequested, NewCall, Recovery};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::TaskState::{InputRequired, Submitted, Working};
use proto_events::model::{Message, Part, PostedTask, TaskState};
use proto_events::scenario::Scenario;
use proto_events::task::{Task, TaskEvent, TaskRejection};

fn submitted() -> Vec<TaskEvent> {
    let posted = PostedTask {
        filled_in: Vec::new(),
        source: None,
        id: "t".to_owned(),
        state: Submitted,
        messages: Vec::new(),
        artifacts: Vec::new(),
        metadata: JsonObject::new(),
        flow_state: JsonText::empty_object(),
        created_at: None,
    };
    vec![TaskEvent::Submitted(Box::new(posted)), TaskEvent::state_changed(Submitted, Working)]
}

fn request(call_id: &str, kind: CallKind, recovery: Recovery) -> CallRequested {
    CallRequested::new(NewCall {
        call_id: call_id.to_owned(),
        kind,
        target: "pay".to_owned(),
        args: JsonText::empty_object(),
        idempotency_key: "k".to_owned(),
        recovery,
        recovery_source: "tool".to_owned(),
        timeout_ms: 1_000,
        max_attempts: 1,
    })
}

#[test]
fn a_message_answers_the_one_open_question_of_a_task_that_waits_and_does_not_choose_among_several() {
    let of = |call_id: &str| {
        let asks =
            CallEvent::Asked { call_id: call_id.to_owned(), attempt: 1, question: "which?".to_owned() };
        let (call_id, cause) = (call_id.to_owned(), String::new());
        let request = request(&call_id, CallKind::Tool, Recovery::Manual);
        let sent = CallEvent::Dispatched { call_id, attempt: 1, epoch: 1, cause };
        [CallEvent::Requested(Box::new(request)), sent, asks].map(TaskEvent::Call)
    };
    let message = |role: &str| Message {
        id: None,
        role: Some(role.to_owned()),
        parts: vec![Part::text("this"), Part::text("one")],
        timestamp: None,
    };
    let task = |calls: &[&str], state: TaskState| {
        let asking = calls.iter().flat_map(|call_id| of(call_id));
        let rests = (state != Working).then(|| TaskEvent::state_changed(Working, state));
        Scenario::<Task>::given(submitted().into_iter().chain(asking).chain(rests)).state().clone()
    };
    let answer = Some(("c".to_owned(), "this\none".to_owned()));
    assert_eq!(task(&["c"], InputRequired).answered_by(&message("user")), Ok(answer));
    assert_eq!(task(&["c"], InputRequired).answered_by(&message("agent")), Ok(None));
    assert_eq!(task(&["c"], Working).answered_by(&message("user")), Ok(None), "the run goes on");
    assert_eq!(task(&[], InputRequired).answered_by(&message("user")), Ok(None));
    let several = task(&["c", "d"], InputRequired).answered_by(&message("user")).unwrap_err();
    assert_eq!(several, TaskRejection::WhichQuestion { questions: vec!["c:1".to_owned(), "d:1".to_owned()] });
    assert!(several.to_string().ends_with("answer each under its name (c:1, d:1)"), "{several}");
}
