//! The rules of questions to a person and of handlers, as scenarios: which attempt may ask, who may answer, what follows,
//! and what a handler may add to its task.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use proto_events::call::recovery::{FailedAttempt, Moment, Next, RetryWish, after_failure, resume};
use proto_events::call::{
    Answer, CallBook, CallCommand, CallEvent, CallFailure, CallKind, CallRejection, CallRequested,
    CancelStage, FailureClass, NewCall, Recovery, TimeLimit,
};
use proto_events::envelope::Timestamp;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::TaskState::{Completed, Failed as TaskFailed, InputRequired, Submitted, Working};
use proto_events::model::{Artifact, Message, Part, PostedTask, TaskState};
use proto_events::scenario::Scenario;
use proto_events::task::{HandlerSays, Task, TaskCommand, TaskEvent, TaskRejection};

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

fn sent(attempt: u32) -> CallEvent {
    CallEvent::Dispatched { call_id: "c".to_owned(), attempt, epoch: 1, cause: String::new() }
}

fn asked(attempt: u32, question: &str) -> CallEvent {
    CallEvent::Asked { call_id: "c".to_owned(), attempt, question: question.to_owned() }
}

fn answered(text: &str) -> CallEvent {
    CallEvent::Answered { call_id: "c".to_owned(), answer: Answer::Given(text.to_owned()) }
}

fn answer(text: &str) -> CallCommand {
    answer_to(None, text)
}

fn answer_to(question: Option<u32>, text: &str) -> CallCommand {
    CallCommand::Answer { call_id: "c".to_owned(), question, answer: Answer::Given(text.to_owned()) }
}

fn ask(attempt: u32) -> CallCommand {
    CallCommand::Ask { call_id: "c".to_owned(), attempt, question: "which?".to_owned() }
}

/// Folds these events, each a second after the one before.
fn book(request: CallRequested, events: &[CallEvent]) -> CallBook {
    let mut book = CallBook::default();
    book.evolve(&CallEvent::Requested(Box::new(request)), Timestamp(0));
    for (event, second) in events.iter().zip(1..) {
        book.evolve(event, Timestamp(second * 1_000_000));
    }
    book
}

fn manual(events: &[CallEvent]) -> CallBook {
    book(request("c", CallKind::Tool, Recovery::Manual), events)
}

fn at(second: i64) -> Moment {
    Moment::new(2, Timestamp(second * 1_000_000))
}

#[test]
fn an_attempt_that_asked_is_neither_failed_nor_counted_and_a_manual_call_is_sent_again() {
    let asked = manual(&[sent(1), asked(1, "which?")]);
    let call = asked.get("c").unwrap();
    assert_eq!((call.attempts, call.counted_attempts(), call.open_question()), (1, 0, Some("which?")));
    assert_eq!(resume(call, at(3)), None, "it waits for a person, in any process");
    let answered = manual(&[sent(1), self::asked(1, "which?"), answered("this")]);
    let call = answered.get("c").unwrap();
    let Some(Next::Write(CallCommand::Dispatch { cause, .. })) = resume(call, at(4)) else {
        panic!("{call:?}")
    };
    assert_eq!(cause, "its question was answered");
}

#[test]
fn an_attempt_after_an_answer_that_is_lost_follows_its_mode_as_the_first_would() {
    let lost = manual(&[sent(1), asked(1, "which?"), answered("this"), sent(2)]);
    let call = lost.get("c").unwrap();
    assert_eq!(call.counted_attempts(), 1);
    assert!(matches!(resume(call, at(5)), Some(Next::Write(CallCommand::MarkUnknown { .. }))));
}

#[test]
fn a_question_uses_up_no_retry() {
    let mut request = request("c", CallKind::Tool, Recovery::Idempotent);
    (request.max_attempts, request.retry_errors) = (2, true);
    let failure = || CallFailure {
        class: FailureClass::AfterEffect,
        error_type: "E".into(),
        message: "no".into(),
        usage: None,
    };
    let after = |events: &[CallEvent], attempt| {
        let book = book(request.clone(), events);
        let failed = FailedAttempt { attempt, failure: failure(), retry: RetryWish::After(1) };
        after_failure(book.get("c").unwrap(), failed, at(9))
    };
    let first = [sent(1), asked(1, "which?"), answered("this"), sent(2)];
    assert!(
        matches!(after(&first, 2), CallCommand::ScheduleRetry { .. }),
        "its first failure of two attempts"
    );
    assert!(
        matches!(after(&[sent(1), sent(2)], 2), CallCommand::Fail { .. }),
        "without a question it was the last"
    );
}

#[test]
fn the_time_until_an_answer_does_not_count_for_the_deadline() {
    let mut request = request("c", CallKind::Tool, Recovery::Manual);
    request.deadline = Some(Timestamp(3_000_000));
    // Asked at second 2, answered at second 3: one second more.
    let book = book(request, &[sent(1), asked(1, "which?"), answered("this")]);
    let call = book.get("c").unwrap();
    assert_eq!(call.deadline(), Some(Timestamp(4_000_000)));
    assert!(matches!(resume(call, at(3)), Some(Next::Write(CallCommand::Dispatch { .. }))));
    assert!(matches!(resume(call, at(4)), Some(Next::Write(CallCommand::Fail { .. }))));
}

#[test]
fn a_key_that_its_target_forgot_while_a_person_thought_is_not_sent_again() {
    let mut request = request("c", CallKind::Tool, Recovery::Idempotent);
    request.window_ms = Some(5_000);
    let book = book(request, &[sent(1), asked(1, "which?"), answered("this")]);
    let call = book.get("c").unwrap();
    assert!(matches!(resume(call, at(5)), Some(Next::Write(CallCommand::Dispatch { .. }))));
    assert!(matches!(resume(call, at(6)), Some(Next::Write(CallCommand::Fail { .. }))));
}

#[test]
fn a_question_is_answered_once_and_only_while_it_is_open() {
    let decide = |events: &[CallEvent], command| manual(events).decide(command, false);
    let open = [sent(1), asked(1, "which?")];
    assert_eq!(decide(&open, answer("this")), Ok(vec![answered("this")]));
    let not_asked = |status| Err(CallRejection::NotAsked { call_id: "c".to_owned(), status });
    assert_eq!(decide(&[sent(1)], answer("this")), not_asked("in-flight"));
    let again = [sent(1), asked(1, "which?"), answered("this"), sent(2)];
    assert_eq!(decide(&again, answer("this")), Ok(Vec::new()), "the same answer again");
    assert_eq!(decide(&again, answer("that")), Err(CallRejection::AlreadyAnswered("c".to_owned())));
    let second = [&again[..], &[asked(2, "when?")]].concat();
    assert_eq!(
        decide(&second, answer_to(Some(2), "this")),
        Ok(vec![answered("this")]),
        "an equal answer to another question"
    );
    let dispatch = CallCommand::Dispatch { call_id: "c".to_owned(), epoch: 1, cause: "again".to_owned() };
    assert_eq!(
        decide(&open, dispatch),
        Err(CallRejection::Closed("c".to_owned())),
        "nothing is sent while it is open"
    );
}

#[test]
fn only_the_last_attempt_asks_and_an_inference_never() {
    let is_late = |book: &CallBook, attempt| {
        let events = book.decide(ask(attempt), false).unwrap();
        matches!(events[..], [CallEvent::LateResultIgnored { succeeded: false, .. }])
    };
    for (kind, recovery, may) in [
        (CallKind::Tool, Recovery::Manual, true),
        (CallKind::Handler, Recovery::Manual, true),
        (CallKind::Delegate, Recovery::Manual, true),
        (CallKind::Infer, Recovery::Reissue, false),
    ] {
        let book = book(request("c", kind, recovery), &[sent(1)]);
        assert_eq!(is_late(&book, 1), !may, "{kind:?}");
    }
    assert!(is_late(&manual(&[sent(1), sent(2)]), 1), "an attempt that was followed by another");
    assert!(is_late(
        &manual(&[
            sent(1),
            CallEvent::TimedOut { call_id: "c".into(), attempt: 1, after_ms: 1, limit: TimeLimit::Attempt }
        ]),
        1
    ));
}

#[test]
fn a_call_that_waits_for_a_person_is_canceled_and_never_unknown() {
    for events in [&[sent(1), asked(1, "which?")][..], &[sent(1), asked(1, "which?"), answered("this")]] {
        let canceled = CallEvent::Canceled { call_id: "c".to_owned(), stage: CancelStage::Requested };
        assert_eq!(manual(events).cancel(), [canceled]);
    }
}

fn message(id: &str) -> Message {
    let parts = vec![Part::text("x")];
    Message { id: Some(id.into()), role: Some("user".into()), parts, timestamp: Some("2026".into()) }
}

fn artifact(id: Option<&str>) -> Artifact {
    Artifact {
        id: id.map(str::to_owned),
        parts: vec![Part::text("piece")],
        metadata: JsonObject::new(),
        timestamp: None,
        kind: "result".into(),
        name: None,
        uri: None,
        media_type: None,
        action_id: None,
    }
}

fn went(from: TaskState, to: TaskState) -> TaskEvent {
    TaskEvent::state_changed(from, to)
}

/// A task in work whose call of this kind has these events.
fn running(kind: CallKind, events: &[CallEvent]) -> Vec<TaskEvent> {
    let posted = PostedTask {
        filled_in: Vec::new(),
        source: None,
        id: "t".to_owned(),
        state: Submitted,
        messages: vec![message("m1")],
        artifacts: Vec::new(),
        metadata: JsonObject::new(),
        flow_state: JsonText::empty_object(),
        created_at: None,
    };
    let mut request = request("c", kind, Recovery::Manual);
    request.origin.run = 1;
    let mut all = vec![TaskEvent::Submitted(Box::new(posted)), went(Submitted, Working)];
    all.push(TaskEvent::Call(CallEvent::Requested(Box::new(request))));
    all.extend(events.iter().cloned().map(TaskEvent::Call));
    all
}

/// A task that waits for the answer of its call.
fn waiting() -> Vec<TaskEvent> {
    let mut events = running(CallKind::Tool, &[sent(1), asked(1, "which?")]);
    events.extend([went(Working, InputRequired), TaskEvent::MessageAppended(message("q"))]);
    events
}

fn await_answer(call_id: &str) -> TaskCommand {
    TaskCommand::AwaitAnswer { call_id: call_id.to_owned(), question: message("q") }
}

#[test]
fn a_task_that_waits_for_an_answer_keeps_the_call_that_asks_and_closes_all_others() {
    let other =
        TaskEvent::Call(CallEvent::Requested(Box::new(request("d", CallKind::Tool, Recovery::ReadOnly))));
    let mut given = running(CallKind::Tool, &[sent(1), asked(1, "which?")]);
    given.push(other);
    Scenario::<Task>::given(given).when(await_answer("c")).then(&[
        TaskEvent::Call(CallEvent::Canceled { call_id: "d".into(), stage: CancelStage::Requested }),
        went(Working, InputRequired),
        TaskEvent::MessageAppended(message("q")),
    ]);
    Scenario::<Task>::given(running(CallKind::Tool, &[sent(1)]))
        .when(await_answer("c"))
        .then_rejected(&TaskRejection::NotAsked("c".to_owned()));
}

#[test]
fn a_task_that_goes_on_without_an_answer_gives_its_question_up() {
    let canceled =
        || TaskEvent::Call(CallEvent::Canceled { call_id: "c".into(), stage: CancelStage::Requested });
    Scenario::<Task>::given(waiting())
        .when(TaskCommand::Begin)
        .then(&[canceled(), went(InputRequired, Working)]);
    Scenario::<Task>::given(waiting()).when(TaskCommand::Complete(None)).then(&[
        canceled(),
        went(InputRequired, Working),
        went(Working, Completed),
    ]);
    let mut over = waiting();
    over.extend([canceled(), went(InputRequired, TaskFailed)]);
    Scenario::<Task>::given(over)
        .when(TaskCommand::Call(answer("this")))
        .then_rejected(&CallRejection::NotAsked { call_id: "c".into(), status: "canceled" }.into());
}

#[test]
fn the_run_that_an_answer_begins_continues_the_call_and_no_other_run_does() {
    let fold = |events: Vec<TaskEvent>| Scenario::<Task>::given(events).state().clone();
    let mut answered_task = waiting();
    answered_task.push(TaskEvent::Call(answered("this")));
    let begun = [answered_task.clone(), vec![went(InputRequired, Working)]].concat();
    assert_eq!(
        fold(begun.clone()).continued().map(|call| call.request.call_id.clone()),
        Some("c".to_owned())
    );
    let asked_again = [begun, vec![went(Working, InputRequired)]].concat();
    assert!(fold(asked_again.clone()).continued().is_some(), "a call may ask again");
    let next = [asked_again, vec![went(InputRequired, Working)]].concat();
    assert!(fold(next).continued().is_none());
}

fn says(attempt: u32, says: HandlerSays) -> TaskCommand {
    TaskCommand::OfHandler { call_id: "c".to_owned(), attempt, says: Box::new(says) }
}

#[test]
fn a_handler_adds_to_its_task_only_while_its_attempt_is_under_way() {
    let say = |attempt| says(attempt, HandlerSays::Message(message("m2")));
    let over = |attempt| TaskRejection::HandlerOver { call_id: "c".to_owned(), attempt };
    Scenario::<Task>::given(running(CallKind::Handler, &[sent(1)]))
        .when(say(1))
        .then(&[TaskEvent::MessageAppended(message("m2"))]);
    for (kind, events) in [
        (CallKind::Tool, vec![sent(1)]),
        (CallKind::Handler, vec![sent(1), sent(2)]),
        (
            CallKind::Handler,
            vec![
                sent(1),
                CallEvent::TimedOut {
                    call_id: "c".into(),
                    attempt: 1,
                    after_ms: 1,
                    limit: TimeLimit::Attempt,
                },
            ],
        ),
        (CallKind::Handler, vec![sent(1), asked(1, "which?")]),
        (CallKind::Handler, vec![]),
    ] {
        Scenario::<Task>::given(running(kind, &events)).when(say(1)).then_rejected(&over(1));
    }
    let mut ended = running(CallKind::Handler, &[sent(1)]);
    ended.push(went(Working, Completed));
    Scenario::<Task>::given(ended).when(say(1)).then_rejected(&over(1));
}

#[test]
fn an_artifact_in_pieces_takes_pieces_until_the_last_and_a_whole_one_takes_none() {
    let piece = |id: Option<&str>, is_last| HandlerSays::ArtifactPart { artifact: artifact(id), is_last };
    let appended = |is_last| TaskEvent::ArtifactPartAppended { artifact: artifact(Some("a")), is_last };
    let given = |events: &[TaskEvent]| [running(CallKind::Handler, &[sent(1)]), events.to_vec()].concat();
    let two = given(&[appended(false), appended(false)]);
    Scenario::<Task>::given(two.clone()).when(says(1, piece(Some("a"), true))).then(&[appended(true)]);
    let task = Scenario::<Task>::given(two).state().clone();
    assert_eq!(task.artifacts().iter().map(|artifact| artifact.parts.len()).collect::<Vec<_>>(), [2]);
    let complete = TaskRejection::ArtifactComplete("a".to_owned());
    let whole = TaskEvent::ArtifactAppended { artifact: artifact(Some("a")), part: None };
    for events in [vec![appended(false), appended(true)], vec![whole]] {
        Scenario::<Task>::given(given(&events))
            .when(says(1, piece(Some("a"), false)))
            .then_rejected(&complete);
    }
    Scenario::<Task>::given(given(&[]))
        .when(says(1, piece(None, false)))
        .then_rejected(&TaskRejection::ArtifactWithoutId);
    let mut over = given(&[appended(false)]);
    over.push(went(Working, Completed));
    Scenario::<Task>::given(over)
        .when(TaskCommand::AppendArtifactPart { artifact: artifact(Some("a")), is_last: true })
        .then_rejected(&TaskRejection::Over(Completed));
}

#[test]
fn an_answer_is_about_the_question_that_it_names() {
    let events = [sent(1), asked(1, "which?"), answered("this"), sent(2), asked(2, "how many?")];
    let book = manual(&events);
    let to = |question, text: &str| book.decide(answer_to(question, text), false);
    assert_eq!(book.get("c").unwrap().question_id(), "c:2");
    assert_eq!(to(Some(2), "this"), Ok(vec![answered("this")]));
    assert_eq!(to(Some(1), "this"), Ok(Vec::new()), "the first question has this answer");
    assert_eq!(to(Some(1), "that"), Err(CallRejection::AlreadyAnswered("c".to_owned())));
    assert_eq!(to(None, "this"), Err(CallRejection::WhichQuestion { call_id: "c".to_owned(), asked: 2 }));
    for question in [0, 3] {
        let refused = CallRejection::NoSuchQuestion { call_id: "c".to_owned(), question, asked: 2 };
        assert_eq!(to(Some(question), "this"), Err(refused));
    }
}

#[test]
fn a_name_is_that_of_a_call_before_it_is_that_of_a_question() {
    let mut book = manual(&[sent(1), asked(1, "which?")]);
    let named = |book: &CallBook, name: &str| book.question_named(name);
    assert_eq!(named(&book, "c:1"), ("c".to_owned(), Some(1)));
    assert_eq!(named(&book, "c"), ("c".to_owned(), None));
    assert_eq!(named(&book, "c:x"), ("c:x".to_owned(), None));
    assert_eq!(named(&book, "d:1"), ("d:1".to_owned(), None));
    let other = request("c:1", CallKind::Tool, Recovery::Manual);
    book.evolve(&CallEvent::Requested(Box::new(other)), Timestamp(9));
    assert_eq!(named(&book, "c:1"), ("c:1".to_owned(), None));
    assert_eq!(named(&book, "c:1:1"), ("c:1".to_owned(), Some(1)));
}
