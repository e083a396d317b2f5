//! Deciders refuse a second intent, dispatch or retry of what may not be repeated, whoever asks.

use proto_events::call::{
    CallBook, CallCommand, CallEvent, CallFailure, CallKind, CallRejection, CallRequested, FailureClass,
    NewCall, Recovery, TimeLimit,
};
use proto_events::envelope::Timestamp;
use proto_events::json::JsonText;

fn request(recovery: Recovery) -> CallRequested {
    CallRequested::new(NewCall {
        call_id: "c".to_owned(),
        kind: if recovery == Recovery::Reissue { CallKind::Infer } else { CallKind::Tool },
        target: "pay".to_owned(),
        args: JsonText::empty_object(),
        idempotency_key: "k".to_owned(),
        recovery,
        recovery_source: "tool".to_owned(),
        timeout_ms: 1_000,
        max_attempts: 3,
    })
}

fn book(recovery: Recovery, events: &[CallEvent]) -> CallBook {
    let mut book = CallBook::default();
    book.evolve(&CallEvent::Requested(Box::new(request(recovery))), Timestamp(0));
    for event in events {
        book.evolve(event, Timestamp(1));
    }
    book
}

fn sent() -> CallEvent {
    CallEvent::Dispatched { call_id: "c".to_owned(), attempt: 1, epoch: 1, cause: String::new() }
}

const ALL: [(Recovery, bool); 5] = [
    (Recovery::ReadOnly, true),
    (Recovery::Idempotent, true),
    (Recovery::Reissue, true),
    (Recovery::Reconcile, false),
    (Recovery::Manual, false),
];

#[test]
fn an_attempt_follows_a_lost_one_only_where_the_mode_may_be_repeated() {
    let timed_out = CallEvent::TimedOut {
        call_id: "c".to_owned(),
        attempt: 1,
        after_ms: 1_000,
        limit: TimeLimit::Attempt,
    };
    let again = || CallCommand::Dispatch { call_id: "c".to_owned(), epoch: 2, cause: "again".to_owned() };
    for (recovery, may_repeat) in ALL {
        for events in [vec![sent()], vec![sent(), timed_out.clone()]] {
            let decided = book(recovery, &events).decide(again(), false);
            let expected = CallRejection::InFlight("c".to_owned());
            assert_eq!(decided.is_ok(), may_repeat, "{} after {events:?}", recovery.as_str());
            assert!(may_repeat || decided == Err(expected), "{}", recovery.as_str());
        }
    }
}

#[test]
fn a_retry_is_scheduled_only_where_the_mode_may_be_repeated_and_an_attempt_is_left() {
    let schedule = |attempt| {
        let (error_type, message) = ("Error".to_owned(), "no".to_owned());
        let failure = CallFailure { class: FailureClass::AfterEffect, error_type, message, usage: None };
        CallCommand::ScheduleRetry { call_id: "c".to_owned(), attempt, failure, due: Timestamp(9) }
    };
    let is_scheduled = |book: &CallBook, attempt| {
        let decided = book.decide(schedule(attempt), false);
        matches!(decided.as_deref(), Ok([CallEvent::RetryScheduled { .. }]))
    };
    for (recovery, may_repeat) in ALL {
        assert_eq!(is_scheduled(&book(recovery, &[sent()]), 1), may_repeat, "{}", recovery.as_str());
    }
    let last =
        CallEvent::Dispatched { call_id: "c".to_owned(), attempt: 3, epoch: 1, cause: "no".to_owned() };
    assert!(!is_scheduled(&book(Recovery::ReadOnly, &[last]), 3), "no attempt is left");
}

#[test]
fn a_second_intent_under_one_id_is_refused_even_when_the_first_call_is_over() {
    let ended = CallEvent::Succeeded {
        call_id: "c".to_owned(),
        attempt: 1,
        result: JsonText::empty_object(),
        usage: None,
    };
    for events in [Vec::new(), vec![sent()], vec![sent(), ended]] {
        let again = CallCommand::Request(Box::new(request(Recovery::ReadOnly)));
        let decided = book(Recovery::Manual, &events).decide(again, false);
        assert_eq!(decided, Err(CallRejection::AlreadyRequested("c".to_owned())));
    }
}
