//! The rules of tasks, sessions and calls, as scenarios: given these events, when this command, then that.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use proto_events::call::{
    CallCommand, CallEvent, CallFailure, CallKind, CallRejection, CallRequested, CancelStage, FailureClass,
    NewCall, Recovery,
};
use proto_events::decider::Decider;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, LlmMessage, LlmRole, Message, Part, PostedTask, TaskState};
use proto_events::scenario::Scenario;
use proto_events::session::{Session, SessionCommand, SessionEvent, SessionRejection};
use proto_events::task::{ApprovalDecided, Task, TaskCommand, TaskEvent, TaskRejection};
use proto_events::turn::{IllFormed, TurnMessage};

fn message(id: &str) -> Message {
    Message {
        id: Some(id.to_owned()),
        role: Some("user".to_owned()),
        parts: vec![Part::text("x")],
        timestamp: Some("2024".to_owned()),
    }
}

fn posted(state: TaskState, messages: &[&str]) -> Box<PostedTask> {
    Box::new(PostedTask {
        filled_in: Vec::new(),
        source: None,
        id: "t".to_owned(),
        state,
        messages: messages.iter().map(|id| message(id)).collect(),
        artifacts: Vec::new(),
        metadata: JsonObject::new(),
        flow_state: JsonText::empty_object(),
        created_at: None,
    })
}

fn submitted(state: TaskState) -> TaskEvent {
    TaskEvent::Submitted(posted(state, &["m1"]))
}

fn went(from: TaskState, to: TaskState) -> TaskEvent {
    TaskEvent::state_changed(from, to)
}

fn requested(call_id: &str, recovery: Recovery) -> Box<CallRequested> {
    Box::new(CallRequested::new(NewCall {
        call_id: call_id.to_owned(),
        kind: CallKind::Tool,
        target: "pay".to_owned(),
        args: JsonText::empty_object(),
        idempotency_key: "k".to_owned(),
        recovery,
        recovery_source: "tool".into(),
        timeout_ms: 1,
        max_attempts: 1,
    }))
}

fn intent(call_id: &str, recovery: Recovery) -> TaskEvent {
    TaskEvent::Call(CallEvent::Requested(requested(call_id, recovery)))
}

fn dispatched(call_id: &str) -> TaskEvent {
    TaskEvent::Call(CallEvent::Dispatched {
        call_id: call_id.to_owned(),
        attempt: 1,
        epoch: 1,
        cause: String::new(),
    })
}

fn succeed(call_id: &str) -> TaskCommand {
    let result = JsonText::parse("1").unwrap();
    TaskCommand::Call(CallCommand::Succeed { call_id: call_id.to_owned(), attempt: 1, result, usage: None })
}

fn succeeded(call_id: &str) -> TaskEvent {
    let result = JsonText::parse("1").unwrap();
    TaskEvent::Call(CallEvent::Succeeded { call_id: call_id.to_owned(), attempt: 1, result, usage: None })
}

use TaskState::{Canceled, Completed, Failed, InputRequired, Submitted, Working};

#[test]
fn a_repeated_state_is_no_event_but_the_commands_other_effects_are() {
    Scenario::<Task>::given([submitted(Working)]).when(TaskCommand::Begin).then([]);
    Scenario::<Task>::given([submitted(Completed)])
        .when(TaskCommand::Complete(Some(message("m2"))))
        .then([TaskEvent::MessageAppended(message("m2"))]);
}

#[test]
fn requiring_input_of_a_submitted_task_is_two_transitions_in_one_decision() {
    Scenario::<Task>::given([submitted(Submitted)])
        .when(TaskCommand::RequireInput(None))
        .then([went(Submitted, Working), went(Working, InputRequired)]);
}

#[test]
fn an_edge_that_the_lifecycle_lacks_is_refused_with_both_states() {
    Scenario::<Task>::given([submitted(Completed)])
        .when(TaskCommand::Begin)
        .then_rejected(&TaskRejection::InvalidTransition { from: Completed, to: Working });
}

#[test]
fn a_command_for_a_task_that_does_not_exist_is_refused() {
    Scenario::<Task>::given([]).when(TaskCommand::Begin).then_rejected(&TaskRejection::NotFound);
}

#[test]
fn the_same_post_again_adds_nothing_and_a_longer_one_adds_what_is_new() {
    let known = || {
        Scenario::<Task>::given([submitted(Submitted), went(Submitted, Working), went(Working, Completed)])
    };
    known().when(TaskCommand::Submit(posted(Submitted, &["m1"]))).then([]);
    known()
        .when(TaskCommand::Submit(posted(Submitted, &["m1", "m2"])))
        .then([TaskEvent::MessageAppended(message("m2"))]);
}

#[test]
fn a_longer_post_while_the_task_runs_is_refused_as_running() {
    Scenario::<Task>::given([submitted(Working)])
        .when(TaskCommand::Submit(posted(Submitted, &["m1", "m2"])))
        .then_rejected(&TaskRejection::AlreadyRunning("t".to_owned()));
}

#[test]
fn another_post_under_a_known_id_is_refused_with_the_first_difference() {
    let outcome = Scenario::<Task>::given([submitted(Completed)])
        .state()
        .decide(TaskCommand::Submit(posted(Submitted, &["other"])));
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("messages[0].id") && text.contains("`m1`") && text.contains("`other`"), "{text}");
}

#[test]
fn after_the_end_there_is_no_intent_and_no_artifact_but_messages_and_metadata() {
    let over = || Scenario::<Task>::given([submitted(Completed)]);
    over()
        .when(TaskCommand::Call(CallCommand::Request(requested("c", Recovery::Manual))))
        .then_rejected(&TaskRejection::Call(CallRejection::TaskOver("c".to_owned())));
    let artifact = Artifact {
        id: None,
        parts: Vec::new(),
        metadata: JsonObject::new(),
        timestamp: None,
        kind: "result".to_owned(),
        name: None,
        uri: None,
        media_type: None,
        action_id: None,
    };
    over()
        .when(TaskCommand::AppendArtifact { artifact, part: None })
        .then_rejected(&TaskRejection::Over(Completed));
    over().when(TaskCommand::AppendMessage(message("m2"))).then([TaskEvent::MessageAppended(message("m2"))]);
}

#[test]
fn a_cancel_closes_every_open_call_and_the_task_in_one_decision() {
    let reason = Some("enough".to_owned());
    let noted: JsonObject = [("cancel_reason".to_owned(), JsonText::string("enough"))].into_iter().collect();
    Scenario::<Task>::given([
        submitted(Working),
        intent("manual", Recovery::Manual),
        dispatched("manual"),
        intent("read", Recovery::ReadOnly),
        dispatched("read"),
        intent("waits", Recovery::Manual),
        intent("done", Recovery::Manual),
        dispatched("done"),
        succeeded("done"),
    ])
    .when(TaskCommand::Cancel { reason: reason.clone(), metadata: JsonObject::new() })
    .then([
        TaskEvent::CancelRequested { reason },
        TaskEvent::Call(CallEvent::OutcomeUnknown {
            call_id: "manual".to_owned(),
            attempt: 1,
            why: "its run ended while the call was in flight".to_owned(),
        }),
        TaskEvent::Call(CallEvent::Canceled { call_id: "read".to_owned(), stage: CancelStage::InFlight }),
        TaskEvent::Call(CallEvent::Canceled { call_id: "waits".to_owned(), stage: CancelStage::Requested }),
        TaskEvent::MetadataMerged(noted),
        went(Working, Canceled),
    ]);
}

#[test]
fn the_first_outcome_stands_and_a_later_one_is_evidence() {
    Scenario::<Task>::given([
        submitted(Working),
        intent("c", Recovery::Manual),
        dispatched("c"),
        succeeded("c"),
        went(Working, Completed),
    ])
    .when(succeed("c"))
    .then([TaskEvent::Call(CallEvent::LateResultIgnored {
        call_id: "c".to_owned(),
        attempt: 1,
        succeeded: true,
        said: "1".to_owned(),
    })]);
}

#[test]
fn a_call_is_sent_only_after_its_intent_and_not_twice_at_once() {
    let dispatch = |cause: &str| {
        let call_id = "c".to_owned();
        TaskCommand::Call(CallCommand::Dispatch { call_id, epoch: 1, cause: cause.to_owned() })
    };
    Scenario::<Task>::given([submitted(Working)])
        .when(dispatch(""))
        .then_rejected(&TaskRejection::Call(CallRejection::NotRequested("c".to_owned())));
    let in_flight =
        || Scenario::<Task>::given([submitted(Working), intent("c", Recovery::ReadOnly), dispatched("c")]);
    in_flight()
        .when(dispatch(""))
        .then_rejected(&TaskRejection::Call(CallRejection::InFlight("c".to_owned())));
    let again = in_flight().when(dispatch("the process ended")).and();
    assert_eq!(again.state().calls().get("c").unwrap().attempts, 2);
}

#[test]
fn a_failed_call_is_closed_and_not_sent_again() {
    let failure = CallFailure {
        class: FailureClass::AfterEffect,
        error_type: "E".to_owned(),
        message: "no".to_owned(),
        usage: None,
    };
    let fail = TaskCommand::Call(CallCommand::Fail { call_id: "c".to_owned(), attempt: 1, failure });
    let dispatch = TaskCommand::Call(CallCommand::Dispatch {
        call_id: "c".to_owned(),
        epoch: 1,
        cause: "again".to_owned(),
    });
    Scenario::<Task>::given([submitted(Working), intent("c", Recovery::ReadOnly), dispatched("c")])
        .when(fail)
        .and()
        .when(dispatch)
        .then_rejected(&TaskRejection::Call(CallRejection::Closed("c".to_owned())));
}

#[test]
fn failing_notes_the_error_and_failing_again_overwrites_it() {
    let noted = |text: &str| {
        TaskEvent::MetadataMerged([("error".to_owned(), JsonText::string(text))].into_iter().collect())
    };
    Scenario::<Task>::given([submitted(Working)])
        .when(TaskCommand::Fail { error: "a".to_owned() })
        .then([went(Working, Failed), noted("a")]);
    Scenario::<Task>::given([submitted(Working), went(Working, Failed), noted("a")])
        .when(TaskCommand::Fail { error: "b".to_owned() })
        .then([noted("b")]);
}

fn said(role: LlmRole) -> TurnMessage {
    let message = LlmMessage {
        role,
        content: "said".to_owned(),
        name: None,
        metadata: JsonObject::new(),
        id: "i".to_owned(),
        created_at: "2024-01-01T00:00:00+00:00".to_owned(),
        tool_calls: JsonText::empty_object(),
        tool_name: None,
    };
    TurnMessage { message, part: 0, infer_call: None, asks: Vec::new(), answers: None }
}

fn asking(calls: &[&str]) -> TurnMessage {
    TurnMessage { asks: calls.iter().map(|call| (*call).to_owned()).collect(), ..said(LlmRole::Assistant) }
}

fn answering(call: &str) -> TurnMessage {
    TurnMessage { answers: Some(call.to_owned()), ..said(LlmRole::System) }
}

fn open_session() -> Vec<SessionEvent> {
    vec![
        SessionEvent::Opened { session_id: "s".to_owned() },
        SessionEvent::TurnStarted { turn_id: "u1".to_owned(), task: "task-a/t".to_owned() },
        SessionEvent::SystemPromptSet(said(LlmRole::System).message),
        SessionEvent::MessageAppended(said(LlmRole::User)),
        SessionEvent::MessageAppended(asking(&["c", "d"])),
    ]
}

fn append(message: TurnMessage) -> SessionCommand {
    SessionCommand::AppendMessage { turn_id: "u1".to_owned(), message }
}

#[test]
fn between_a_tool_call_and_its_answer_there_is_no_other_message_and_no_commit() {
    let waits = || Scenario::<Session>::given(open_session());
    let commit = || SessionCommand::CommitTurn { turn_id: "u1".to_owned() };
    let ill = |call: &str| SessionRejection::IllFormed(IllFormed::Unanswered(call.to_owned()));
    let both = TurnMessage { asks: vec!["e".to_owned()], ..answering("c") };
    for early in [said(LlmRole::User), asking(&["other"]), answering("d"), answering("other"), both] {
        waits().when(append(early)).then_rejected(&ill("c"));
    }
    waits().when(commit()).then_rejected(&ill("c"));
    waits().when(append(answering("c"))).then([SessionEvent::MessageAppended(answering("c"))]);
    let half = || waits().when(append(answering("c"))).and();
    half().when(append(answering("c"))).then_rejected(&ill("d"));
    half().when(commit()).then_rejected(&ill("d"));
    let whole = || half().when(append(answering("d"))).and();
    let again = SessionRejection::IllFormed(IllFormed::NotAsked("d".to_owned()));
    whole().when(append(answering("d"))).then_rejected(&again);
    whole().when(commit()).then([SessionEvent::TurnCommitted { turn_id: "u1".to_owned() }]);
}

#[test]
fn a_committed_turn_becomes_history_and_an_aborted_one_leaves_it_as_it_was() {
    let answered = Scenario::<Session>::given(open_session()).when(append(answering("c"))).and();
    let answered = answered.when(append(answering("d"))).and();
    assert!(answered.state().history().is_empty(), "a turn is no history before it commits");
    let committed = answered.when(SessionCommand::CommitTurn { turn_id: "u1".to_owned() }).and();
    let roles: Vec<_> =
        committed.state().history().as_slice().iter().map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "system", "system"]);

    let abort = SessionCommand::AbortTurn { turn_id: "u1".to_owned(), reason: "canceled".to_owned() };
    let aborted = Scenario::<Session>::given(open_session()).when(abort).and();
    assert!(aborted.state().history().is_empty());
    assert!(aborted.state().open_turn().is_none());
}

#[test]
fn turns_of_one_session_run_one_after_another_and_a_prompt_that_is_the_same_is_not_set_again() {
    let start = |turn: &str| SessionCommand::StartTurn {
        session_id: "s".to_owned(),
        turn_id: turn.to_owned(),
        task: "task-a/t2".to_owned(),
        system_prompt: said(LlmRole::System).message,
    };
    Scenario::<Session>::given(open_session()).when(start("u2")).then_rejected(
        &SessionRejection::TurnInProgress { turn_id: "u1".to_owned(), task: "task-a/t".to_owned() },
    );
    let mut events = open_session();
    events.extend(["c", "d"].map(|call| SessionEvent::MessageAppended(answering(call))));
    events.push(SessionEvent::TurnCommitted { turn_id: "u1".to_owned() });
    Scenario::<Session>::given(events)
        .when(start("u2"))
        .then([SessionEvent::TurnStarted { turn_id: "u2".to_owned(), task: "task-a/t2".to_owned() }]);
}

#[test]
fn a_message_for_a_turn_that_is_not_open_is_refused() {
    Scenario::<Session>::given([])
        .when(append(said(LlmRole::User)))
        .then_rejected(&SessionRejection::NoSuchTurn("u1".to_owned()));
}

#[test]
fn a_commands_content_is_the_same_in_every_release_and_that_of_no_other_command() {
    // Logs contain digests of it: with another content, a repeated command would look like another one.
    let in_words = |words: &[&str]| {
        let field = |word: &&str| [&(word.len() as u64).to_be_bytes()[..], word.as_bytes()].concat();
        words.iter().flat_map(field).collect::<Vec<u8>>()
    };
    let (added, task) = (message("m"), posted(Submitted, &["m1"]));
    let (said, given) = (added.to_json(), task.to_json());
    for (command, words) in [
        (TaskCommand::Begin, &["begin"][..]),
        (TaskCommand::Fail { error: "boom".to_owned() }, &["fail", "boom"]),
        (TaskCommand::AppendMessage(added), &["append-message", said.as_str()]),
        (TaskCommand::Submit(task), &["submit", given.as_str()]),
        (TaskCommand::Cancel { reason: None, metadata: JsonObject::new() }, &["cancel", "", "{}"]),
        (
            TaskCommand::DecideApproval(ApprovalDecided {
                approval_id: "a".to_owned(),
                approved: true,
                reason: Some("fine".to_owned()),
                decided_by: "ada".into(),
            }),
            &["decide-approval", "a", "approved", "fine", "ada"],
        ),
    ] {
        assert_eq!(command.content(), in_words(words), "{command:?}");
    }
}
