//! The lifecycle of calls against a table in words, so that a changed pair shows up in a diff; and that
//! deciding and folding a call do what the table says.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use proto_events::call::{
    Answer, CallBook, CallCommand, CallEvent, CallFailure, CallKind, CallRequested, CallStatus, CancelStage,
    FailureClass, NewCall, Recovery, TimeLimit, Verdict, VerdictBy,
};
use proto_events::envelope::Timestamp;
use proto_events::json::JsonText;

fn failure(class: FailureClass) -> CallFailure {
    CallFailure { class, error_type: "E".to_owned(), message: "no".to_owned(), usage: None }
}

fn inconclusive() -> Verdict {
    Verdict::Inconclusive("closed".to_owned())
}

fn given(text: &str) -> Answer {
    Answer::Given(text.to_owned())
}

/// All statuses; a status that carries an enum occurs once for each of its values.
fn statuses() -> Vec<CallStatus> {
    vec![
        CallStatus::Requested,
        CallStatus::Dispatched,
        CallStatus::TimedOut,
        CallStatus::RetryScheduled(Timestamp(9), "no".to_owned()),
        CallStatus::Unsent,
        CallStatus::Asked("which?".to_owned()),
        CallStatus::Answered,
        CallStatus::Succeeded(JsonText::null()),
        CallStatus::Failed(failure(FailureClass::AfterEffect)),
        CallStatus::Canceled,
        CallStatus::Unknown("lost".to_owned()),
        CallStatus::Reconciled(Verdict::Landed(JsonText::null())),
        CallStatus::Reconciled(Verdict::DidNotHappen),
        CallStatus::Abandoned("tired".to_owned()),
    ]
}

/// All events about the call `c`, each with the word for it.
fn events() -> Vec<(String, CallEvent)> {
    let call_id = || "c".to_owned();
    let mut all = vec![
        ("requested".to_owned(), CallEvent::Requested(Box::new(request(Recovery::Manual)))),
        (
            "dispatched".to_owned(),
            CallEvent::Dispatched { call_id: call_id(), attempt: 1, epoch: 1, cause: String::new() },
        ),
        (
            "succeeded".to_owned(),
            CallEvent::Succeeded { call_id: call_id(), attempt: 1, result: JsonText::null(), usage: None },
        ),
    ];
    let classes = [
        FailureClass::BeforeEffect,
        FailureClass::AfterEffect,
        FailureClass::Rejected,
        FailureClass::Exhausted,
        FailureClass::Superseded,
    ];
    all.extend(classes.map(|class| {
        let failed = CallEvent::Failed { call_id: call_id(), attempt: 1, failure: failure(class) };
        (format!("failed ({})", class.as_str()), failed)
    }));
    let failed = failure(FailureClass::AfterEffect);
    all.extend([
        (
            "retry scheduled".to_owned(),
            CallEvent::RetryScheduled { call_id: call_id(), attempt: 1, failure: failed, due: Timestamp(9) },
        ),
        (
            "timed out".to_owned(),
            CallEvent::TimedOut { call_id: call_id(), attempt: 1, after_ms: 1, limit: TimeLimit::Attempt },
        ),
        ("canceled".to_owned(), CallEvent::Canceled { call_id: call_id(), stage: CancelStage::InFlight }),
        (
            "outcome unknown".to_owned(),
            CallEvent::OutcomeUnknown { call_id: call_id(), attempt: 1, why: "lost".to_owned() },
        ),
    ]);
    all.extend([Verdict::Landed(JsonText::null()), Verdict::DidNotHappen, inconclusive()].map(|verdict| {
        let word = format!("reconciled ({})", verdict.as_str());
        (word, CallEvent::Reconciled { call_id: call_id(), attempt: 1, verdict, by: VerdictBy::Probe })
    }));
    all.extend([
        (
            "asked".to_owned(),
            CallEvent::Asked { call_id: call_id(), attempt: 1, question: "which?".to_owned() },
        ),
        (
            "accepted".to_owned(),
            CallEvent::Accepted { call_id: call_id(), attempt: 1, handle: "theirs".to_owned() },
        ),
        ("answered".to_owned(), CallEvent::Answered { call_id: call_id(), answer: given("this") }),
        (
            "abandoned".to_owned(),
            CallEvent::Abandoned { call_id: call_id(), reason: "tired".to_owned(), by: "ada".into() },
        ),
        (
            "late result ignored".to_owned(),
            CallEvent::LateResultIgnored {
                call_id: call_id(),
                attempt: 1,
                succeeded: true,
                said: String::new(),
            },
        ),
    ]);
    all
}

#[test]
fn every_pair_of_status_and_event_is_in_the_golden_table() {
    let golden: Vec<&str> =
        include_str!("call_lifecycle.txt").lines().filter(|line| !line.starts_with('#')).collect();
    let mut ours = Vec::new();
    for status in statuses() {
        for (event, happened) in events() {
            let after = match status.after(&happened) {
                None => "refused".to_owned(),
                Some(after) if after == status => "stays".to_owned(),
                Some(after) => after.as_str().to_owned(),
            };
            ours.push(format!("{} + {event}: {after}", status.as_str()));
        }
    }
    assert_eq!(ours.len(), 14 * 20);
    assert_eq!(ours, golden, "the table as it is now:\n{}", ours.join("\n"));
}

#[test]
fn a_call_is_open_while_it_may_be_canceled() {
    let canceled = CallEvent::Canceled { call_id: "c".to_owned(), stage: CancelStage::InFlight };
    for status in statuses() {
        assert_eq!(status.is_open(), status.after(&canceled).is_some(), "{}", status.as_str());
    }
}

/// Events that lead a call to each of the statuses.
fn ways() -> Vec<Vec<CallEvent>> {
    let event = |word: &str| events().into_iter().find(|(known, _)| known == word).unwrap().1;
    let way = |words: &[&str]| words.iter().map(|word| event(word)).collect();
    vec![
        way(&[]),
        way(&["dispatched"]),
        way(&["dispatched", "timed out"]),
        way(&["dispatched", "retry scheduled"]),
        way(&["dispatched", "reconciled (did-not-happen)"]),
        way(&["dispatched", "asked"]),
        way(&["dispatched", "asked", "answered"]),
        way(&["dispatched", "succeeded"]),
        way(&["dispatched", "failed (after-effect)"]),
        way(&["dispatched", "canceled"]),
        way(&["dispatched", "outcome unknown"]),
        way(&["dispatched", "outcome unknown", "reconciled (landed)"]),
        way(&["dispatched", "outcome unknown", "reconciled (did-not-happen)"]),
        way(&["dispatched", "outcome unknown", "abandoned"]),
    ]
}

/// Every command, of the first and the second attempt, with each datum on which a decision depends.
fn commands() -> Vec<CallCommand> {
    let call_id = || "c".to_owned();
    let mut all = vec![
        CallCommand::MarkUnknown { call_id: call_id(), why: "lost".to_owned() },
        CallCommand::Abandon { call_id: call_id(), reason: "tired".to_owned(), by: "ada".into() },
        CallCommand::Request(Box::new(request(Recovery::Manual))),
        CallCommand::Answer { call_id: call_id(), question: None, answer: given("this") },
        CallCommand::Answer { call_id: call_id(), question: None, answer: given("that") },
    ];
    for cause in ["", "again"] {
        all.push(CallCommand::Dispatch { call_id: call_id(), epoch: 1, cause: cause.to_owned() });
    }
    for verdict in [Verdict::Landed(JsonText::null()), Verdict::DidNotHappen, inconclusive()] {
        for by in [VerdictBy::Probe, VerdictBy::Operator("ada".into())] {
            all.push(CallCommand::Reconcile { call_id: call_id(), verdict: verdict.clone(), by });
        }
    }
    for attempt in 0..3 {
        all.push(CallCommand::Succeed { call_id: call_id(), attempt, result: JsonText::null(), usage: None });
        all.push(CallCommand::Ask { call_id: call_id(), attempt, question: "which?".to_owned() });
        all.push(CallCommand::Accept { call_id: call_id(), attempt, handle: "theirs".to_owned() });
        all.push(CallCommand::TimeOut {
            call_id: call_id(),
            attempt,
            after_ms: 1,
            limit: TimeLimit::Attempt,
        });
        for class in [
            FailureClass::BeforeEffect,
            FailureClass::AfterEffect,
            FailureClass::Rejected,
            FailureClass::Exhausted,
            FailureClass::Superseded,
        ] {
            all.push(CallCommand::Fail { call_id: call_id(), attempt, failure: failure(class) });
        }
        let failed = failure(FailureClass::AfterEffect);
        let due = Timestamp(9);
        all.push(CallCommand::ScheduleRetry { call_id: call_id(), attempt, failure: failed, due });
    }
    all
}

#[test]
fn what_is_decided_is_what_the_table_allows_and_all_that_it_allows() {
    let mut decided = Vec::new();
    for (way, expected) in ways().into_iter().zip(statuses()) {
        for (recovery, kind) in [
            (Recovery::ReadOnly, CallKind::Tool),
            (Recovery::Reconcile, CallKind::Delegate),
            (Recovery::Manual, CallKind::Tool),
        ] {
            let mut book = CallBook::default();
            let request = CallRequested { kind, ..request(recovery) };
            book.evolve(&CallEvent::Requested(Box::new(request)), Timestamp(0));
            for event in &way {
                book.evolve(event, Timestamp(1));
            }
            assert_eq!(book.get("c").unwrap().status, expected);
            let answers = commands().into_iter().filter_map(|command| book.decide(command, false).ok());
            for answer in answers.chain([book.cancel()]) {
                let mut status = expected.clone();
                for event in &answer {
                    let after = status.after(event);
                    assert!(after.is_some(), "{} + {event:?}", status.as_str());
                    decided.push((status, event.clone()));
                    status = after.unwrap();
                }
            }
        }
    }
    for status in statuses() {
        for (word, event) in events().into_iter().filter(|(_, event)| status.after(event).is_some()) {
            let same = |other: &CallEvent| match (&event, other) {
                (CallEvent::Failed { failure, .. }, CallEvent::Failed { failure: other, .. }) => {
                    failure == other
                }
                (CallEvent::Reconciled { verdict, .. }, CallEvent::Reconciled { verdict: other, .. }) => {
                    verdict == other
                }
                _ => std::mem::discriminant(&event) == std::mem::discriminant(other),
            };
            let found = decided.iter().any(|(before, event)| *before == status && same(event));
            assert!(found, "{} + {word} is allowed, but never decided", status.as_str());
        }
    }
}

#[test]
fn an_event_is_folded_as_the_table_says_and_a_refused_outcome_still_closes_its_call() {
    for way in ways() {
        let mut before = CallBook::default();
        before.evolve(&CallEvent::Requested(Box::new(request(Recovery::Manual))), Timestamp(0));
        for event in &way {
            before.evolve(event, Timestamp(1));
        }
        let status = &before.get("c").unwrap().status;
        for (word, event) in events().into_iter().skip(1) {
            let mut book = before.clone();
            book.evolve(&event, Timestamp(2));
            let folded = &book.get("c").unwrap().status;
            match status.after(&event) {
                Some(after) => assert_eq!(folded, &after, "{} + {word}", status.as_str()),
                None if matches!(event, CallEvent::Reconciled { .. } | CallEvent::Accepted { .. }) => {
                    assert_eq!(folded, status, "{word}");
                }
                None => {
                    let opens = matches!(
                        event,
                        CallEvent::Dispatched { .. }
                            | CallEvent::TimedOut { .. }
                            | CallEvent::RetryScheduled { .. }
                            | CallEvent::Asked { .. }
                            | CallEvent::Answered { .. }
                    );
                    assert_eq!(folded.is_open(), opens, "{} + {word}", status.as_str());
                }
            }
        }
    }
}

fn request(recovery: Recovery) -> CallRequested {
    CallRequested::new(NewCall {
        call_id: "c".to_owned(),
        kind: CallKind::Tool,
        target: "pay".to_owned(),
        args: JsonText::empty_object(),
        idempotency_key: "k".to_owned(),
        recovery,
        recovery_source: "tool".to_owned(),
        timeout_ms: 1_000,
        max_attempts: 3,
    })
}

#[test]
fn a_status_that_waits_for_a_person_is_open_and_lies_between_attempts() {
    for status in [CallStatus::Asked("which?".into()), CallStatus::Answered] {
        assert!(status.is_open() && status.is_between_attempts());
    }
    assert!(!CallStatus::Dispatched.is_between_attempts());
}
