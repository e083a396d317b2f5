//! Tests of the judge itself: for each cell of R7 it accepts what may follow, and reports anything else as a
//! fault.

use proto_events::call::{CallFailure, CallKind, FailureClass, NewCall};
use proto_events::envelope::{Metadata, Timestamp};
use proto_events::id::Version;
use proto_events::json::JsonText;

use super::*;

const CUT: u64 = 10;

fn request(recovery: Recovery) -> CallRequested {
    let infer = recovery == Recovery::Reissue;
    CallRequested::new(NewCall {
        call_id: "c".to_owned(),
        kind: if infer { CallKind::Infer } else { CallKind::Tool },
        target: "t".to_owned(),
        args: JsonText::empty_object(),
        idempotency_key: "key".to_owned(),
        recovery,
        recovery_source: String::new(),
        timeout_ms: 1,
        max_attempts: 3,
    })
}

fn sent(attempt: u32) -> CallEvent {
    let cause = if attempt > 1 { "again".to_owned() } else { String::new() };
    CallEvent::Dispatched { call_id: "c".to_owned(), attempt, epoch: 1, cause }
}

fn succeeded() -> CallEvent {
    let result = JsonText::string("done");
    CallEvent::Succeeded { call_id: "c".to_owned(), attempt: 1, result, usage: None }
}

fn exhausted() -> CallEvent {
    let failure = CallFailure {
        class: FailureClass::Exhausted,
        error_type: String::new(),
        message: String::new(),
        usage: None,
    };
    CallEvent::Failed { call_id: "c".to_owned(), attempt: 1, failure }
}

fn unknown() -> CallEvent {
    CallEvent::OutcomeUnknown { call_id: "c".to_owned(), attempt: 1, why: String::new() }
}

fn found(verdict: Verdict) -> CallEvent {
    CallEvent::Reconciled { call_id: "c".to_owned(), attempt: 1, verdict, by: VerdictBy::Probe }
}

fn execution(attempt: u32) -> Execution {
    Execution {
        task_id: "t".to_owned(),
        call_id: "c".to_owned(),
        idempotency_key: "key".to_owned(),
        attempt,
        args: JsonText::empty_object(),
        at: Timestamp(0),
        head: Position(CUT + 10),
    }
}

/// Returns a judge over one task, with these events before the cut and these after it.
fn judge(recovery: Recovery, before: Vec<CallEvent>, after: Vec<CallEvent>) -> Judge {
    let stream = StreamId::task("agent", "t").unwrap();
    let mut events = Vec::new();
    let mut add = |position: u64, event: CallEvent| {
        let metadata = Metadata { command_id: position.to_string(), ..Metadata::default() };
        let (version, position) = (Version(events.len() as u64 + 1), Position(position));
        let event = TaskEvent::Call(event);
        events.push(RecordedEvent { stream: stream.clone(), version, position, metadata, event });
    };
    add(1, CallEvent::Requested(Box::new(request(recovery))));
    before.into_iter().zip(2..).for_each(|(event, at)| add(at, event));
    after.into_iter().zip(CUT + 1..).for_each(|(event, at)| add(at, event));
    let tasks = [(stream, events)].into();
    Judge { tasks, shown: Shown::new(), faults: Vec::new(), cells: Cells::new() }
}

/// Whether these events may follow, with these attempts of the tool.
fn may(recovery: Recovery, before: &[CallEvent], after: &[CallEvent], attempts: &[u32]) -> bool {
    let mut judge = judge(recovery, before.to_vec(), after.to_vec());
    let seen: Vec<_> = attempts.iter().map(|attempt| execution(*attempt)).collect();
    judge.recovered(Position(CUT), &seen, Setting::default());
    judge.faults.is_empty()
}

const MODES: [Recovery; 5] =
    [Recovery::ReadOnly, Recovery::Idempotent, Recovery::Reconcile, Recovery::Manual, Recovery::Reissue];

#[test]
fn what_was_never_sent_is_sent_whatever_its_mode() {
    for mode in MODES {
        let seen: &[u32] = if mode == Recovery::Reissue { &[] } else { &[1] };
        assert!(may(mode, &[], &[sent(1), succeeded()], seen), "{mode:?}");
        assert!(!may(mode, &[], &[], &[]), "{mode:?} was forgotten");
        assert!(!may(mode, &[], &[unknown()], &[]), "{mode:?} is known not to be sent");
        assert!(!may(mode, &[], &[sent(2), succeeded()], &[2]), "{mode:?}");
    }
    assert!(!may(Recovery::Manual, &[], &[sent(1), succeeded()], &[]), "sent, but it never ran");
}

#[test]
fn what_was_in_flight_follows_its_mode() {
    let lost = [sent(1)];
    for mode in MODES {
        let repeats = mode.may_repeat();
        assert_eq!(may(mode, &lost, &[sent(2), succeeded()], &[2]), repeats, "{mode:?} again");
        assert_eq!(may(mode, &lost, &[unknown()], &[]), mode == Recovery::Manual, "{mode:?} unknown");
        assert!(!may(mode, &lost, &[], &[]), "{mode:?} was forgotten");
        assert!(!may(mode, &lost, &[exhausted()], &[]), "{mode:?}: attempts are left");
        assert!(!may(mode, &lost, &[succeeded()], &[]), "{mode:?}: a result out of nothing");
    }
    assert!(may(Recovery::ReadOnly, &[sent(1), sent(2), sent(3)], &[exhausted()], &[]));
    assert!(!may(Recovery::Manual, &lost, &[unknown()], &[2]), "the world saw it twice");
    assert!(!may(Recovery::ReadOnly, &lost, &[sent(2), succeeded()], &[1, 2]), "the first attempt again");
}

#[test]
fn what_can_be_asked_for_is_asked_for() {
    let (mode, lost) = (Recovery::Reconcile, [sent(1)]);
    let landed = || found(Verdict::Landed(JsonText::string("done")));
    assert!(may(mode, &lost, &[landed(), succeeded()], &[]));
    assert!(!may(mode, &lost, &[found(Verdict::Landed(JsonText::string("else"))), succeeded()], &[]));
    assert!(!may(mode, &lost, &[landed(), sent(2), succeeded()], &[2]), "it had landed");
    assert!(may(mode, &lost, &[found(Verdict::DidNotHappen), sent(2), succeeded()], &[2]));
    assert!(!may(mode, &lost, &[found(Verdict::DidNotHappen), unknown()], &[]));
    let unsure = || found(Verdict::Inconclusive(String::new()));
    assert!(may(mode, &lost, &[unsure(), unknown()], &[]));
    assert!(!may(mode, &lost, &[unsure(), sent(2), succeeded()], &[2]), "nobody could say");
}

#[test]
fn what_has_its_outcome_has_it_for_ever() {
    for mode in MODES {
        let over = [sent(1), succeeded()];
        assert!(may(mode, &over, &[], &[]), "{mode:?}");
        assert!(!may(mode, &over, &[sent(2), succeeded()], &[2]), "{mode:?}");
        assert!(!may(mode, &over, &[succeeded()], &[]), "{mode:?}");
        assert!(!may(mode, &over, &[], &[2]), "{mode:?} ran beside the log");
    }
}

#[test]
fn a_cancel_closes_what_is_open_in_its_own_append() {
    let at_once = |mode: Recovery, closed: Option<CallEvent>, later: &[CallEvent]| {
        let mut judge = judge(mode, vec![sent(1)], Vec::new());
        let events = judge.tasks.values_mut().next().unwrap();
        let mut add = |event: TaskEvent, command: &str| {
            let metadata = Metadata { command_id: command.to_owned(), ..Metadata::default() };
            let position = Position(events.last().unwrap().position.0 + 1);
            let (stream, version) = (events[0].stream.clone(), Version(events.len() as u64 + 1));
            events.push(RecordedEvent { stream, version, position, metadata, event });
        };
        add(TaskEvent::CancelRequested { reason: None }, "cancel");
        if let Some(event) = closed {
            add(TaskEvent::Call(event), "cancel");
        }
        for event in later {
            add(TaskEvent::Call(event.clone()), "later");
        }
        judge.is_idle(&[]);
        (judge.faults.is_empty(), judge.cells.contains_key(&(Row::CanceledInFlight, mode.as_str())))
    };
    let canceled = || CallEvent::Canceled { call_id: "c".to_owned(), stage: CancelStage::InFlight };
    for mode in MODES {
        let manual = mode == Recovery::Manual;
        assert_eq!(at_once(mode, Some(canceled()), &[]), (!manual, true), "{mode:?}");
        assert_eq!(at_once(mode, Some(unknown()), &[]), (manual, true), "{mode:?}");
        assert!(!at_once(mode, None, &[canceled()]).0, "{mode:?}: not in its own append");
        let closed = if manual { unknown() } else { canceled() };
        assert!(!at_once(mode, Some(closed), &[sent(2)]).0, "{mode:?} went on");
    }
}

#[test]
fn the_world_outside_is_held_against_the_log() {
    let is_idle = |mode: Recovery, before: &[CallEvent], seen: &[Execution]| {
        let mut judge = judge(mode, before.to_vec(), Vec::new());
        judge.is_idle(seen);
        judge.faults.is_empty()
    };
    let over = [sent(1), succeeded()];
    assert!(is_idle(Recovery::Manual, &over, &[execution(1)]));
    assert!(!is_idle(Recovery::Manual, &over, &[execution(1), execution(1)]), "one attempt twice");
    assert!(!is_idle(Recovery::Manual, &[sent(1), sent(2)], &[execution(1), execution(2)]), "two attempts");
    assert!(is_idle(Recovery::Idempotent, &[sent(1), sent(2)], &[execution(1), execution(2)]));
    assert!(!is_idle(Recovery::Reconcile, &[sent(1), sent(2)], &[execution(1), execution(2)]));
    let absent = [sent(1), found(Verdict::DidNotHappen), sent(2)];
    assert!(is_idle(Recovery::Reconcile, &absent, &[execution(1), execution(2)]));
    let early = Execution { head: Position(1), ..execution(1) };
    assert!(!is_idle(Recovery::Manual, &over, &[early]), "before it was on disk");
    let other = Execution { args: JsonText::string("other"), ..execution(1) };
    assert!(!is_idle(Recovery::Manual, &over, &[other]), "other arguments");
}

#[test]
fn a_target_that_can_tell_is_asked_about_what_was_given_up() {
    let canceled = CallEvent::Canceled { call_id: "c".to_owned(), stage: CancelStage::InFlight };
    let told = |mode: Recovery, after: &[CallEvent]| {
        let mut judge = judge(mode, vec![sent(1), canceled.clone()], after.to_vec());
        judge.evidence();
        judge.faults.is_empty()
    };
    assert!(!told(Recovery::Reconcile, &[]));
    assert!(told(Recovery::Reconcile, &[found(Verdict::Inconclusive(String::new()))]));
    assert!(told(Recovery::Idempotent, &[]), "there is nobody to ask");
}
