//! The rules of lost calls: the recovery in each row of R7's table, the effect of each verdict, and late
//! results.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::time::Duration;

use proto_events::call::recovery::{
    FailedAttempt, Moment, Next, RetryWish, after_failure, after_loss, resume, retry,
};
use proto_events::call::{
    CallBook, CallCommand, CallEvent, CallFailure, CallKind, CallRejection, CallRequested, CallStatus,
    CancelStage, FailureClass, NewCall, Recovery, TimeLimit, Verdict, VerdictBy,
};
use proto_events::envelope::Timestamp;
use proto_events::json::JsonText;

const MODES: [Recovery; 5] =
    [Recovery::ReadOnly, Recovery::Idempotent, Recovery::Reconcile, Recovery::Manual, Recovery::Reissue];

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

fn at(seconds: i64) -> Timestamp {
    Timestamp(seconds * 1_000_000)
}

/// Returns the moment of a process that writes with this epoch, at this second.
fn moment(epoch: u64, seconds: i64) -> Moment {
    Moment::new(epoch, at(seconds))
}

fn scheduled(attempt: u32, due: i64) -> CallEvent {
    let failure = failed(attempt, FailureClass::AfterEffect, true).failure;
    CallEvent::RetryScheduled { call_id: "c".to_owned(), attempt, failure, due: at(due) }
}

fn sent(attempt: u32) -> CallEvent {
    CallEvent::Dispatched { call_id: "c".to_owned(), attempt, epoch: 1, cause: String::new() }
}

fn timed_out(attempt: u32) -> CallEvent {
    CallEvent::TimedOut { call_id: "c".to_owned(), attempt, after_ms: 1_000, limit: TimeLimit::Attempt }
}

fn unknown() -> CallEvent {
    CallEvent::OutcomeUnknown { call_id: "c".to_owned(), attempt: 1, why: "lost".to_owned() }
}

fn canceled(stage: CancelStage) -> CallEvent {
    CallEvent::Canceled { call_id: "c".to_owned(), stage }
}

/// Returns the fold of an intent and the events after it, one second apart.
fn book(request: CallRequested, events: &[CallEvent]) -> CallBook {
    let mut book = CallBook::default();
    book.evolve(&CallEvent::Requested(Box::new(request)), at(0));
    for (second, event) in (1..).zip(events) {
        book.evolve(event, at(second));
    }
    book
}

fn reconcile(verdict: Verdict, by: VerdictBy) -> CallCommand {
    CallCommand::Reconcile { call_id: "c".to_owned(), verdict, by }
}

fn operator() -> VerdictBy {
    VerdictBy::Operator("ada".into())
}

fn landed() -> Verdict {
    Verdict::Landed(JsonText::parse("7").unwrap())
}

/// Returns the name of a recovery step.
fn word(next: Option<&Next>) -> &'static str {
    match next {
        None => "nothing",
        Some(Next::Probe { .. }) => "probe",
        Some(Next::Wait { .. }) => "wait",
        Some(Next::Write(CallCommand::Dispatch { .. })) => "send",
        Some(Next::Write(CallCommand::MarkUnknown { .. })) => "unknown",
        Some(Next::Write(CallCommand::Fail { .. })) => "fail",
        Some(Next::Write(other)) => panic!("{other:?}"),
    }
}

#[test]
fn recovery_does_what_the_table_says_in_every_row_and_mode() {
    let rows: [(&str, Vec<CallEvent>, [&str; 5]); 5] = [
        ("requested only", vec![], ["send"; 5]),
        ("sent, no outcome", vec![sent(1)], ["send", "send", "probe", "unknown", "send"]),
        ("retry scheduled", vec![sent(1), scheduled(1, 9)], ["wait"; 5]),
        ("too slow", vec![sent(1), timed_out(1)], ["send", "send", "probe", "unknown", "send"]),
        ("outcome present", vec![sent(1), unknown()], ["nothing"; 5]),
    ];
    for (row, events, expected) in rows {
        for (mode, expected) in MODES.into_iter().zip(expected) {
            let book = book(request(mode), &events);
            let next = resume(book.get("c").unwrap(), moment(2, 60));
            assert_eq!(word(next.as_ref()), expected, "{row}, {}", mode.as_str());
            if let Some(Next::Write(command)) = next {
                assert!(book.decide(command, false).is_ok(), "{row}, {}: the book takes it", mode.as_str());
            }
        }
    }
}

#[test]
fn a_call_in_flight_in_this_very_process_is_left_alone() {
    for mode in MODES {
        let book = book(request(mode), &[sent(1)]);
        assert_eq!(resume(book.get("c").unwrap(), moment(1, 60)), None, "{}", mode.as_str());
    }
}

#[test]
fn attempts_run_out_and_crashes_count_as_attempts() {
    let book = book(request(Recovery::ReadOnly), &[sent(1), sent(2), sent(3)]);
    let next = resume(book.get("c").unwrap(), moment(2, 60));
    let Some(Next::Write(CallCommand::Fail { attempt: 3, failure, .. })) = next else { panic!("{next:?}") };
    assert_eq!(failure.class, FailureClass::Exhausted);
}

#[test]
fn a_key_is_sent_again_only_while_its_target_knows_it() {
    let mut call = request(Recovery::Idempotent);
    call.window_ms = Some(30_000);
    let book = book(call, &[sent(1)]);
    let call = book.get("c").unwrap();
    assert_eq!(word(resume(call, moment(2, 30)).as_ref()), "send", "29 s after it was sent first");
    assert_eq!(word(resume(call, moment(2, 31)).as_ref()), "unknown");
}

#[test]
fn past_its_deadline_nothing_is_sent_and_the_words_say_whether_it_ever_was() {
    let mut call = request(Recovery::ReadOnly);
    call.deadline = Some(at(10));
    for (events, class) in [(vec![], FailureClass::BeforeEffect), (vec![sent(1)], FailureClass::Exhausted)] {
        let book = book(call.clone(), &events);
        let one = book.get("c").unwrap();
        assert_eq!(word(resume(one, moment(2, 9)).as_ref()), "send");
        let next = resume(one, moment(2, 10));
        let Some(Next::Write(CallCommand::Fail { failure, .. })) = next else { panic!("{next:?}") };
        assert_eq!((failure.class, failure.error_type.as_str()), (class, "DeadlineExceeded"));
    }
    call.recovery = Recovery::Manual;
    let book = book(call, &[sent(1)]);
    let next = resume(book.get("c").unwrap(), moment(2, 10));
    assert_eq!(word(next.as_ref()), "unknown", "what may have landed is unknown, however late it is");
}

fn failed(attempt: u32, class: FailureClass, passing: bool) -> FailedAttempt {
    let failure = CallFailure { class, error_type: "E".to_owned(), message: "no".to_owned(), usage: None };
    let retry = if passing { RetryWish::After(2_000) } else { RetryWish::Unsaid };
    FailedAttempt { attempt, failure, retry }
}

#[test]
fn an_error_is_tried_again_where_kind_policy_and_mode_allow_it() {
    let again = |recovery, retry_errors, class, passing| {
        let mut call = request(recovery);
        call.retry_errors = retry_errors;
        let book = book(call, &[sent(1)]);
        let command = after_failure(book.get("c").unwrap(), failed(1, class, passing), moment(1, 5));
        matches!(command, CallCommand::ScheduleRetry { .. })
    };
    let after = FailureClass::AfterEffect;
    assert!(again(Recovery::Reissue, false, after, true), "a model that asks for it");
    assert!(!again(Recovery::Reissue, false, after, false));
    assert!(!again(Recovery::ReadOnly, false, after, true), "a tool is asked by its policy only");
    assert!(again(Recovery::ReadOnly, true, after, false));
    assert!(again(Recovery::Idempotent, true, after, false));
    assert!(!again(Recovery::Manual, true, after, false) && !again(Recovery::Reconcile, true, after, false));
    assert!(!again(Recovery::ReadOnly, true, FailureClass::Rejected, false), "wrong arguments stay wrong");
    let mut call = request(Recovery::ReadOnly);
    call.retry_errors = true;
    let book = book(call, &[sent(1)]);
    let last_word = FailedAttempt { retry: RetryWish::Never, ..failed(1, after, false) };
    let command = after_failure(book.get("c").unwrap(), last_word, moment(1, 5));
    assert!(
        matches!(command, CallCommand::Fail { .. }),
        "a tool that says that its error is final: {command:?}"
    );
}

#[test]
fn no_retry_starts_after_the_deadline_or_beyond_the_window() {
    let book_of = |change: fn(&mut CallRequested)| {
        let mut call = request(Recovery::Idempotent);
        call.retry_errors = true;
        change(&mut call);
        book(call, &[sent(1)])
    };
    let again = |book: &CallBook, second| {
        let failed = failed(1, FailureClass::AfterEffect, true);
        matches!(
            after_failure(book.get("c").unwrap(), failed, moment(1, second)),
            CallCommand::ScheduleRetry { .. }
        )
    };
    let deadline = book_of(|call| call.deadline = Some(at(10)));
    assert!(again(&deadline, 7) && !again(&deadline, 8), "the back-off of 2 s counts");
    let window = book_of(|call| call.window_ms = Some(10_000));
    assert!(again(&window, 8) && !again(&window, 9));
}

#[test]
fn a_scheduled_retry_is_waited_for_by_the_times_in_the_log_and_counts_when_it_is_sent() {
    let mut call = request(Recovery::Idempotent);
    call.retry_errors = true;
    let folded = |call: &CallRequested| {
        let mut book = book(call.clone(), &[sent(1)]);
        let failed = failed(1, FailureClass::AfterEffect, true);
        let command = after_failure(book.get("c").unwrap(), failed, moment(1, 5));
        for event in book.decide(command, false).unwrap() {
            book.evolve(&event, at(5));
        }
        book
    };
    let waiting = folded(&call);
    let waits = waiting.get("c").unwrap();
    assert_eq!((waits.attempts, waits.status.is_open()), (1, true));
    for (epoch, second) in [(1, 6), (2, 6), (2, 600)] {
        let wait = Next::Wait { until: at(7), longest: Duration::from_secs(2) };
        assert_eq!(resume(waits, moment(epoch, second)), Some(wait), "a restart changes nothing");
    }
    let sent_again = CallCommand::Dispatch { call_id: "c".to_owned(), epoch: 2, cause: "no".to_owned() };
    assert_eq!(retry(waits, moment(2, 8)), sent_again);
    let events = waiting.decide(sent_again, false).unwrap();
    assert!(matches!(events.as_slice(), [CallEvent::Dispatched { attempt: 2, .. }]), "{events:?}");
    (call.deadline, call.window_ms) = (Some(at(20)), Some(30_000));
    let waiting = folded(&call);
    for (second, error_type) in [(21, "DeadlineExceeded"), (40, "WindowExpired")] {
        let command = retry(waiting.get("c").unwrap(), moment(2, second));
        let CallCommand::Fail { failure, .. } = command else { panic!("{command:?}") };
        assert_eq!((failure.class, failure.error_type.as_str()), (FailureClass::Exhausted, error_type));
    }
    assert!(matches!(
        waiting.cancel().as_slice(),
        [CallEvent::Canceled { stage: CancelStage::Requested, .. }]
    ));
}

#[test]
fn a_probe_closes_a_lost_call_or_lets_it_be_sent_again() {
    for lost in [vec![sent(1)], vec![sent(1), timed_out(1)]] {
        let mut open = book(request(Recovery::Reconcile), &lost);
        let events = open.decide(reconcile(landed(), VerdictBy::Probe), false).unwrap();
        assert!(matches!(
            events[..],
            [CallEvent::Reconciled { .. }, CallEvent::Succeeded { attempt: 1, .. }]
        ));
        let why = Verdict::Inconclusive("closed".to_owned());
        let events = open.decide(reconcile(why, VerdictBy::Probe), false).unwrap();
        assert!(matches!(events[..], [CallEvent::Reconciled { .. }, CallEvent::OutcomeUnknown { .. }]));
        let events = open.decide(reconcile(Verdict::DidNotHappen, VerdictBy::Probe), false).unwrap();
        assert_eq!(events.len(), 1);
        open.evolve(&events[0], at(9));
        assert_eq!(open.get("c").unwrap().status, CallStatus::Unsent);
        let next = resume(open.get("c").unwrap(), moment(1, 10));
        let Some(Next::Write(command)) = next else { panic!("{next:?}") };
        let events = open.decide(command, false).unwrap();
        assert!(matches!(events[..], [CallEvent::Dispatched { attempt: 2, .. }]), "{events:?}");
    }
}

#[test]
fn a_probe_says_nothing_of_a_call_whose_mode_has_none() {
    for mode in [Recovery::ReadOnly, Recovery::Idempotent, Recovery::Manual] {
        let ways = [vec![sent(1)], vec![sent(1), timed_out(1)], vec![sent(1), unknown()]];
        for open in ways.map(|way| book(request(mode), &way)) {
            for verdict in [landed(), Verdict::DidNotHappen, Verdict::Inconclusive("closed".to_owned())] {
                let refused = open.decide(reconcile(verdict, VerdictBy::Probe), false);
                assert!(matches!(refused, Err(CallRejection::NotUnknown { .. })), "{mode:?}: {refused:?}");
            }
        }
    }
}

#[test]
fn a_loss_in_this_process_has_the_tool_asked_too() {
    let book = book(request(Recovery::Reconcile), &[sent(1)]);
    let next = after_loss(book.get("c").unwrap(), moment(1, 5), "cut off");
    assert_eq!(next, Next::Probe { why: "cut off".to_owned() });
}

#[test]
fn a_person_settles_an_unknown_call_once() {
    let mut lost = book(request(Recovery::Manual), &[sent(1), unknown()]);
    let events = lost.decide(reconcile(landed(), operator()), false).unwrap();
    lost.evolve(&events[0], at(9));
    assert_eq!(lost.get("c").unwrap().status, CallStatus::Reconciled(landed()));
    assert_eq!(lost.decide(reconcile(landed(), operator()), true).unwrap(), [], "the same again");
    let other = lost.decide(reconcile(Verdict::DidNotHappen, operator()), true).unwrap_err();
    assert_eq!(other, CallRejection::Settled { call_id: "c".to_owned(), before: "landed" });
    let abandon = CallCommand::Abandon { call_id: "c".to_owned(), reason: "x".to_owned(), by: "bob".into() };
    assert!(matches!(lost.decide(abandon, true), Err(CallRejection::Settled { .. })));
}

#[test]
fn what_a_person_cannot_say_leaves_the_call_unknown() {
    let mut lost = book(request(Recovery::Manual), &[sent(1), unknown()]);
    let why = Verdict::Inconclusive("the bank is closed".to_owned());
    let events = lost.decide(reconcile(why, operator()), false).unwrap();
    lost.evolve(&events[0], at(9));
    assert!(matches!(lost.get("c").unwrap().status, CallStatus::Unknown(_)));
    let abandon = CallCommand::Abandon { call_id: "c".to_owned(), reason: "x".to_owned(), by: "bob".into() };
    let events = lost.decide(abandon.clone(), false).unwrap();
    lost.evolve(&events[0], at(10));
    assert_eq!(lost.get("c").unwrap().status, CallStatus::Abandoned("x".to_owned()));
    assert_eq!(lost.decide(abandon, false).unwrap(), []);
}

#[test]
fn a_person_settles_nothing_that_is_not_unknown() {
    for events in [vec![], vec![sent(1)], vec![sent(1), timed_out(1)]] {
        let open = book(request(Recovery::Manual), &events);
        let refused = open.decide(reconcile(Verdict::DidNotHappen, operator()), false);
        assert!(matches!(refused, Err(CallRejection::NotUnknown { .. })), "{refused:?}");
    }
    let never = book(request(Recovery::Manual), &[canceled(CancelStage::Requested)]);
    assert!(never.decide(reconcile(landed(), VerdictBy::Probe), true).is_err(), "it was never sent");
}

#[test]
fn what_is_found_out_about_a_canceled_call_is_evidence() {
    let mut gone = book(request(Recovery::Reconcile), &[sent(1), canceled(CancelStage::InFlight)]);
    let events = gone.decide(reconcile(landed(), VerdictBy::Probe), true).unwrap();
    assert!(matches!(events[..], [CallEvent::Reconciled { .. }]), "{events:?}");
    gone.evolve(&events[0], at(9));
    assert_eq!(gone.get("c").unwrap().status, CallStatus::Canceled);
}

#[test]
fn an_answer_of_an_attempt_that_was_given_up_is_late_evidence() {
    let answer = |attempt| CallCommand::Succeed {
        call_id: "c".to_owned(),
        attempt,
        result: JsonText::null(),
        usage: None,
    };
    let late = |events: &[CallEvent], attempt| {
        let events = book(request(Recovery::ReadOnly), events).decide(answer(attempt), false).unwrap();
        matches!(events[..], [CallEvent::LateResultIgnored { .. }])
    };
    assert!(!late(&[sent(1)], 1));
    assert!(late(&[sent(1), timed_out(1)], 1), "its time was up");
    assert!(late(&[sent(1), timed_out(1), sent(2)], 1), "another follows it");
    assert!(!late(&[sent(1), timed_out(1), sent(2)], 2));
    assert!(late(&[sent(1), unknown()], 1));
    assert!(late(&[sent(1), canceled(CancelStage::InFlight)], 1));
}

#[test]
fn a_silent_attempt_is_told_from_one_whose_time_was_up() {
    let silent = CallCommand::TimeOut {
        call_id: "c".to_owned(),
        attempt: 1,
        after_ms: 30_000,
        limit: TimeLimit::Heartbeat,
    };
    for (heartbeat_ms, says) in
        [(Some(30_000), "no progress for 30 s"), (Some(1_500), "no progress for 1500 ms")]
    {
        let intent = CallRequested { heartbeat_ms, ..request(Recovery::ReadOnly) };
        let mut book = CallBook::default();
        let requested = CallEvent::Requested(Box::new(intent));
        for event in [requested, sent(1)] {
            book.evolve(&event, at(1));
        }
        for event in book.decide(silent.clone(), false).unwrap() {
            book.evolve(&event, at(31));
        }
        let next = resume(book.get("c").unwrap(), moment(1, 31));
        let Some(Next::Write(CallCommand::Dispatch { cause, .. })) = next else { panic!("{next:?}") };
        assert!(cause.contains(says), "{cause}");
    }
    let mut book = CallBook::default();
    for event in [CallEvent::Requested(Box::new(request(Recovery::ReadOnly))), sent(1)] {
        book.evolve(&event, at(1));
    }
    assert_eq!(book.decide(silent, false), Ok(Vec::new()), "a call without a heartbeat is never silent");
}
