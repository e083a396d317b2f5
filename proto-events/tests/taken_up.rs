//! The rules of tasks that another agent, elsewhere, has taken under an id of its own: whichever attempt follows takes them up.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use proto_events::call::recovery::{Moment, Next, resume};
use proto_events::call::{
    CallBook, CallCommand, CallEvent, CallKind, CallRequested, FailureClass, NewCall, Recovery, TimeLimit,
};
use proto_events::envelope::Timestamp;
use proto_events::json::JsonText;

fn request(kind: CallKind, recovery: Recovery) -> CallRequested {
    CallRequested::new(NewCall {
        call_id: "c".to_owned(),
        kind,
        target: "far".to_owned(),
        args: JsonText::empty_object(),
        idempotency_key: "k".to_owned(),
        recovery,
        recovery_source: "peer".to_owned(),
        timeout_ms: 1_000,
        max_attempts: 1,
    })
}

fn book(request: CallRequested, events: &[CallEvent]) -> CallBook {
    let mut book = CallBook::default();
    book.evolve(&CallEvent::Requested(Box::new(request)), Timestamp(0));
    for event in events {
        book.evolve(event, Timestamp(1));
    }
    book
}

fn taken(attempt: u32, handle: &str) -> CallEvent {
    CallEvent::Accepted { call_id: "c".to_owned(), attempt, handle: handle.to_owned() }
}

fn accept(attempt: u32, handle: &str) -> CallCommand {
    CallCommand::Accept { call_id: "c".to_owned(), attempt, handle: handle.to_owned() }
}

fn sent_in(attempt: u32, epoch: u64) -> CallEvent {
    CallEvent::Dispatched { call_id: "c".to_owned(), attempt, epoch, cause: "again".to_owned() }
}

#[test]
fn a_task_that_another_agent_has_is_taken_up_in_any_mode_and_restarts_do_not_count() {
    for recovery in [Recovery::Manual, Recovery::Reconcile, Recovery::Idempotent] {
        let request = request(CallKind::Delegate, recovery);
        let mut events = vec![sent_in(1, 1), taken(1, "theirs")];
        for epoch in 2..9 {
            let book = book(request.clone(), &events);
            let call = book.get("c").unwrap();
            assert_eq!((call.counted_attempts(), call.handle.as_deref()), (1, Some("theirs")));
            let Some(Next::Write(command @ CallCommand::Dispatch { .. })) =
                resume(call, Moment::new(epoch, Timestamp(0)))
            else {
                panic!("{recovery:?} in epoch {epoch}: it is not taken up");
            };
            events.extend(book.decide(command, false).unwrap());
        }
        // A time-out counts as ever: the mode does not matter, the number of attempts does.
        events.push(CallEvent::TimedOut {
            call_id: "c".to_owned(),
            attempt: 8,
            after_ms: 1_000,
            limit: TimeLimit::Attempt,
        });
        let book = book(request, &events);
        let next = resume(book.get("c").unwrap(), Moment::new(8, Timestamp(0)));
        let Some(Next::Write(CallCommand::Fail { failure, .. })) = next else { panic!("{next:?}") };
        assert_eq!(failure.class, FailureClass::Exhausted);
    }
}

#[test]
fn only_the_last_attempt_of_a_question_to_another_agent_is_taken_and_the_same_id_twice_adds_nothing() {
    let question = || request(CallKind::Delegate, Recovery::Reconcile);
    let book_of = |events: &[CallEvent]| book(question(), events);
    let sent_once = book_of(&[sent_in(1, 1)]);
    assert_eq!(sent_once.decide(accept(1, "theirs"), false).unwrap(), [taken(1, "theirs")]);
    let known = book_of(&[sent_in(1, 1), taken(1, "theirs")]);
    assert_eq!(known.decide(accept(1, "theirs"), false).unwrap(), []);
    for (attempt, handle) in [(0, "theirs"), (2, "theirs"), (1, ""), (1, &*"x".repeat(1_025))] {
        sent_once.decide(accept(attempt, handle), false).unwrap_err();
    }
    let asked = CallEvent::Asked { call_id: "c".to_owned(), attempt: 1, question: "which?".to_owned() };
    for over in [vec![], vec![sent_in(1, 1), asked]] {
        book_of(&over).decide(accept(1, "theirs"), false).unwrap_err();
    }
    book(request(CallKind::Tool, Recovery::Manual), &[sent_in(1, 1)])
        .decide(accept(1, "theirs"), false)
        .unwrap_err();
}
