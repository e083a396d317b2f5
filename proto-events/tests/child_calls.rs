//! The rules of calls that a tool's or a handler's call asks for in its middle, as scenarios: who may ask, how the calls are
//! numbered, when they are sent, and that they end with the call that asked.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use proto_events::call::{
    CallBook, CallCommand, CallEvent, CallFailure, CallKind, CallOrigin, CallRejection, CallRequested,
    CallStatus, CancelStage, FailureClass, NewCall, ParentCall, Recovery, TimeLimit, Verdict, VerdictBy,
};
use proto_events::decider::Decider;
use proto_events::envelope::{Metadata, Timestamp};
use proto_events::json::JsonText;
use proto_events::model::TaskState::{Canceled, Submitted, Working};
use proto_events::model::{Message, Part, PostedTask, TaskState};
use proto_events::scenario::Scenario;
use proto_events::task::{ApprovalDecided, ApprovalRequested, Task, TaskCommand, TaskEvent};

fn request(call_id: &str, kind: CallKind, recovery: Recovery) -> CallRequested {
    CallRequested::new(NewCall {
        call_id: call_id.to_owned(),
        kind,
        target: "peer".to_owned(),
        args: JsonText::empty_object(),
        idempotency_key: call_id.to_owned(),
        recovery,
        recovery_source: "tool".to_owned(),
        timeout_ms: 1_000,
        max_attempts: 3,
    })
}

fn child_of(parent: &str, call_id: &str, ordinal: u32) -> CallRequested {
    let mut child = request(call_id, CallKind::Delegate, Recovery::Idempotent);
    child.origin.parent = Some(ParentCall { call_id: parent.to_owned(), ordinal });
    child
}

fn child(call_id: &str, ordinal: u32) -> CallRequested {
    child_of("p", call_id, ordinal)
}

fn requested(request: CallRequested) -> CallEvent {
    CallEvent::Requested(Box::new(request))
}

fn sent(call_id: &str, attempt: u32, epoch: u64) -> CallEvent {
    let cause = if attempt == 1 { "" } else { "it was lost" };
    CallEvent::Dispatched { call_id: call_id.to_owned(), attempt, epoch, cause: cause.to_owned() }
}

fn succeeded(call_id: &str, attempt: u32) -> CallEvent {
    let result = JsonText::string("done");
    CallEvent::Succeeded { call_id: call_id.to_owned(), attempt, result, usage: None }
}

fn canceled(call_id: &str, stage: CancelStage) -> CallEvent {
    CallEvent::Canceled { call_id: call_id.to_owned(), stage }
}

fn ask(request: CallRequested) -> CallCommand {
    CallCommand::Request(Box::new(request))
}

fn resend(call_id: &str, epoch: u64) -> CallCommand {
    CallCommand::Dispatch { call_id: call_id.to_owned(), epoch, cause: "it was lost".to_owned() }
}

fn succeed(call_id: &str) -> CallCommand {
    let result = JsonText::string("done");
    CallCommand::Succeed { call_id: call_id.to_owned(), attempt: 1, result, usage: None }
}

fn failure() -> CallFailure {
    let (class, error_type) = (FailureClass::AfterEffect, "Error".to_owned());
    CallFailure { class, error_type, message: "no".to_owned(), usage: None }
}

/// A book with a tool's call `p` of this mode in flight, and these events behind it.
fn book(recovery: Recovery, events: impl IntoIterator<Item = CallEvent>) -> CallBook {
    let mut book = CallBook::default();
    let begun = [requested(request("p", CallKind::Tool, recovery)), sent("p", 1, 1)];
    for (event, second) in begun.into_iter().chain(events).zip(1..) {
        book.evolve(&event, Timestamp(second * 1_000_000));
    }
    book
}

/// A book whose call `p` waits for its child `c`, which was sent.
fn waiting(recovery: Recovery) -> CallBook {
    book(recovery, [requested(child("c", 1)), sent("c", 1, 1)])
}

fn why(result: Result<Vec<CallEvent>, CallRejection>) -> &'static str {
    match result {
        Err(CallRejection::OfParent { why, .. }) => why,
        other => panic!("not refused for its parent: {other:?}"),
    }
}

#[test]
fn only_a_tool_or_a_handler_in_flight_asks_and_only_for_calls_to_other_agents() {
    let in_flight = book(Recovery::Manual, []);
    assert!(in_flight.decide(ask(child("c", 1)), false).is_ok());
    assert_eq!(
        why(in_flight.decide(ask(child_of("q", "c", 1)), false)),
        "it was never requested in this stream"
    );
    let mut tool = child("c", 1);
    tool.kind = CallKind::Tool;
    assert_eq!(why(in_flight.decide(ask(tool), false)), "a call asks for calls to other agents only");
    let grandchild = waiting(Recovery::Manual).decide(ask(child_of("c", "g", 1)), false);
    assert_eq!(why(grandchild), "only a tool or a handler asks for calls");
    for end in [
        CallEvent::TimedOut { call_id: "p".into(), attempt: 1, after_ms: 1, limit: TimeLimit::Attempt },
        CallEvent::RetryScheduled { call_id: "p".into(), attempt: 1, failure: failure(), due: Timestamp(9) },
        CallEvent::Asked { call_id: "p".into(), attempt: 1, question: "which?".into() },
        CallEvent::OutcomeUnknown { call_id: "p".into(), attempt: 1, why: "lost".into() },
        succeeded("p", 1),
    ] {
        let ended = book(Recovery::ReadOnly, [end.clone()]);
        assert_eq!(why(ended.decide(ask(child("c", 1)), false)), "it is not in flight", "{end:?}");
    }
    let mut handler = CallBook::default();
    handler.evolve(&requested(request("p", CallKind::Handler, Recovery::Manual)), Timestamp(0));
    handler.evolve(&sent("p", 1, 1), Timestamp(0));
    assert!(handler.decide(ask(child("c", 1)), false).is_ok());
}

#[test]
fn children_are_numbered_from_one_without_a_gap_in_a_list_of_any_length() {
    for before in [0, 3, 40] {
        let done = |ordinal: u32| {
            let id = format!("c{ordinal}");
            [requested(child(&id, ordinal)), sent(&id, 1, 1), succeeded(&id, 1)]
        };
        let book = book(Recovery::ReadOnly, (1..=before).flat_map(done));
        for wrong in [0, before, before + 2, u32::MAX] {
            let refused = book.decide(ask(child("next", wrong)), false);
            assert_eq!(why(refused), "the number is not the next one", "{wrong} after {before}");
        }
        assert!(book.decide(ask(child("next", before + 1)), false).is_ok());
        let numbers: Vec<_> = book.children("p").map(|call| call.request.call_id.clone()).collect();
        assert_eq!(numbers, (1..=before).map(|ordinal| format!("c{ordinal}")).collect::<Vec<_>>());
        let own: Vec<_> = book.of_part(0, 0).map(|call| call.request.call_id.as_str()).collect();
        assert_eq!(own, ["p"], "a child is no call of the part");
    }
}

#[test]
fn a_child_is_sent_only_while_its_parent_is_under_way_in_the_same_process() {
    let lost = waiting(Recovery::ReadOnly);
    assert!(lost.decide(resend("c", 1), false).is_ok(), "in the process of the parent's attempt");
    assert_eq!(why(lost.decide(resend("c", 2), false)), "it is not in flight");
    let again = book(Recovery::ReadOnly, [requested(child("c", 1)), sent("c", 1, 1), sent("p", 2, 2)]);
    assert!(again.decide(resend("c", 2), false).is_ok(), "the parent runs again");
    let timed_out =
        CallEvent::TimedOut { call_id: "p".into(), attempt: 1, after_ms: 1, limit: TimeLimit::Attempt };
    let between = book(Recovery::ReadOnly, [requested(child("c", 1)), sent("c", 1, 1), timed_out]);
    assert_eq!(why(between.decide(resend("c", 1), false)), "it is not in flight");
}

#[test]
fn each_outcome_of_a_parent_closes_its_open_child_before_it() {
    let close = canceled("c", CancelStage::InFlight);
    let fail = CallCommand::Fail { call_id: "p".into(), attempt: 1, failure: failure() };
    let unknown = CallCommand::MarkUnknown { call_id: "p".into(), why: "lost".into() };
    let (by, verdict) = (VerdictBy::Probe, Verdict::Landed(JsonText::null()));
    let found = CallCommand::Reconcile { call_id: "p".into(), verdict, by };
    let manual =
        [(succeed("p"), 2), (fail, 2), (unknown, 2)].map(|(end, count)| (Recovery::Manual, end, count));
    for (mode, end, count) in manual.into_iter().chain([(Recovery::Reconcile, found, 3)]) {
        let events = waiting(mode).decide(end.clone(), false).unwrap();
        assert_eq!((events.first(), events.len()), (Some(&close), count), "{end:?}");
    }
    let by_hand = {
        let mut manual = child("c", 1);
        manual.recovery = Recovery::Manual;
        book(Recovery::ReadOnly, [requested(manual), sent("c", 1, 1)])
    };
    let events = by_hand.decide(succeed("p"), false).unwrap();
    assert!(
        matches!(events.as_slice(), [CallEvent::OutcomeUnknown { call_id, .. }, _] if call_id == "c"),
        "{events:?}"
    );
    let unsent = book(Recovery::ReadOnly, [requested(child("c", 1))]);
    let events = unsent.decide(succeed("p"), false).unwrap();
    assert_eq!(events.first(), Some(&canceled("c", CancelStage::Requested)));
}

#[test]
fn what_does_not_end_the_parent_leaves_its_child_alone() {
    let book = waiting(Recovery::ReadOnly);
    let retry =
        CallCommand::ScheduleRetry { call_id: "p".into(), attempt: 1, failure: failure(), due: Timestamp(9) };
    let time_up =
        CallCommand::TimeOut { call_id: "p".into(), attempt: 1, after_ms: 1, limit: TimeLimit::Attempt };
    for goes_on in [retry, time_up, resend("p", 2), succeed("c")] {
        assert_eq!(book.decide(goes_on.clone(), false).unwrap().len(), 1, "{goes_on:?}");
    }
    let mut other = book;
    other.evolve(&requested(request("q", CallKind::Tool, Recovery::ReadOnly)), Timestamp(0));
    other.evolve(&sent("q", 1, 1), Timestamp(0));
    assert_eq!(other.decide(succeed("q"), false).unwrap().len(), 1, "it is another call's child");
}

fn task(events: impl IntoIterator<Item = CallEvent>) -> Scenario<Task> {
    let message = Message { id: None, role: None, parts: vec![Part::text("hello")], timestamp: None };
    let posted = PostedTask { messages: vec![message], ..posted() };
    let begun = [TaskEvent::Submitted(Box::new(posted)), TaskEvent::state_changed(Submitted, Working)];
    Scenario::given(begun.into_iter().chain(events.into_iter().map(TaskEvent::Call)))
}

fn posted() -> PostedTask {
    PostedTask {
        id: "t".to_owned(),
        state: TaskState::Submitted,
        messages: Vec::new(),
        artifacts: Vec::new(),
        metadata: proto_events::json::JsonObject::new(),
        flow_state: JsonText::empty_object(),
        created_at: None,
        filled_in: Vec::new(),
        source: None,
    }
}

#[test]
fn a_cancel_closes_parent_and_child_and_leaves_no_open_call() {
    let mut parent = request("p", CallKind::Tool, Recovery::ReadOnly);
    parent.origin.run = 1;
    let calls = [requested(parent), sent("p", 1, 1), requested(child("c", 1)), sent("c", 1, 1)];
    task(calls)
        .when(TaskCommand::Cancel { reason: None, metadata: proto_events::json::JsonObject::new() })
        .then([
            TaskEvent::CancelRequested { reason: None },
            TaskEvent::Call(canceled("p", CancelStage::InFlight)),
            TaskEvent::Call(canceled("c", CancelStage::InFlight)),
            TaskEvent::state_changed(Working, Canceled),
        ]);
}

#[test]
fn the_state_keeps_what_a_child_said_for_the_next_attempt_of_its_parent() {
    let done = [requested(child("c", 1)), sent("c", 1, 1), succeeded("c", 1), sent("p", 2, 2)];
    let book = book(Recovery::ReadOnly, done);
    let kept = book.children("p").next().unwrap();
    assert_eq!(kept.status, CallStatus::Succeeded(JsonText::string("done")));
    assert_eq!(kept.request.origin.parent, Some(ParentCall { call_id: "p".into(), ordinal: 1 }));
}

#[test]
fn an_approval_of_a_models_request_permits_none_of_a_tool() {
    let mut parent = request("p", CallKind::Tool, Recovery::ReadOnly);
    parent.origin.run = 1;
    let asked = |parent: Option<ParentCall>| {
        let mut origin = CallOrigin { run: 1, ..CallOrigin::default() };
        origin.parent = parent;
        let (approval_id, call_id, tool) = ("a".to_owned(), "c0".to_owned(), "peer".to_owned());
        let (args, capabilities) = (JsonText::empty_object(), Vec::new());
        Box::new(ApprovalRequested { approval_id, call_id, tool, args, capabilities, origin })
    };
    let decided = || {
        let (approval_id, decided_by) = ("a".to_owned(), "ada".into());
        TaskEvent::ApprovalDecided(ApprovalDecided { approval_id, approved: true, reason: None, decided_by })
    };
    let given = |own: Option<ParentCall>| {
        let begun = task([requested(parent.clone()), sent("p", 1, 1)]);
        let mut state = begun.state().clone();
        for event in [TaskEvent::ApprovalRequested(asked(own)), decided()] {
            state.evolve(&event, &Metadata::default());
        }
        let mut wanted = child("c", 1);
        wanted.approval = Some("a".to_owned());
        state.decide(TaskCommand::Call(ask(wanted)))
    };
    let refused = given(None).unwrap_err();
    assert!(refused.to_string().contains("it is for another request"), "{refused}");
    assert!(given(Some(ParentCall { call_id: "p".into(), ordinal: 1 })).is_ok());
    assert!(given(Some(ParentCall { call_id: "p".into(), ordinal: 2 })).is_err());
}
