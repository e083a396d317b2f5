//! The cases that runs have met, by the events in the logs of their workloads.

use std::collections::BTreeMap;
use std::sync::Mutex;

use proto_events::call::{CallEvent, CallKind, Verdict, VerdictBy};
use proto_events::id::{Category, Position};
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;
use proto_events::turn::TurnMessage;
use taskreel_log::api::EventReader;
use taskreel_log::read::decode_record;

/// The number of logs in which each case was met.
static HAPPENED: Mutex<BTreeMap<&'static str, usize>> = Mutex::new(BTreeMap::new());

/// The cases that must be met in some log.
const MUST_HAPPEN: [&str; 22] = [
    "absent",
    "asked an agent",
    "answered",
    "approved",
    "asked",
    "canceled",
    "circuit open",
    "denied",
    "failed",
    "handled",
    "landed",
    "late",
    "out of time",
    "panicked",
    "sent again",
    "timed out",
    "unknown",
    "unsure",
    "secret missing",
    "settled",
    "several at once",
    "told meanwhile",
];

/// Notes the cases of a log.
pub(crate) fn note(log: &dyn EventReader) {
    let mut met: BTreeMap<&'static str, usize> = BTreeMap::new();
    for record in log.read_all(Position(1), usize::MAX).unwrap() {
        match record.record.stream.category() {
            Some(Category::Session) => {
                for recorded in decode_record::<SessionEvent>(&record).unwrap() {
                    if let SessionEvent::MessageAppended(message) = recorded.event {
                        met.extend(said(&message).map(|word| (word, 1)));
                    }
                }
            }
            Some(Category::Task) => {
                for recorded in decode_record::<TaskEvent>(&record).unwrap() {
                    met.extend(of_task(&recorded.event).map(|word| (word, 1)));
                }
            }
            _ => {}
        }
    }
    let mut happened = HAPPENED.lock().unwrap();
    for word in met.into_keys() {
        *happened.entry(word).or_default() += 1;
    }
}

/// Returns the counts of all cases.
pub(crate) fn counts() -> BTreeMap<&'static str, usize> {
    HAPPENED.lock().unwrap().clone()
}

/// Returns the cases that no log met.
pub(crate) fn never() -> Vec<&'static str> {
    let happened = counts();
    MUST_HAPPEN.into_iter().filter(|word| !happened.contains_key(word)).collect()
}

fn of_task(event: &TaskEvent) -> Option<&'static str> {
    match event {
        TaskEvent::ApprovalDecided(decided) => Some(if decided.approved { "approved" } else { "denied" }),
        TaskEvent::InferMessageAppended(message) => said(message),
        TaskEvent::StateChanged { budget: Some(_), .. } => Some("out of time"),
        TaskEvent::Call(event) => of_call(event),
        _ => None,
    }
}

fn said(message: &TurnMessage) -> Option<&'static str> {
    if message.message.content == "and mind the time" {
        return Some("told meanwhile");
    }
    (message.asks.len() > 1).then_some("several at once")
}

fn of_call(event: &CallEvent) -> Option<&'static str> {
    match event {
        CallEvent::Requested(request) if request.origin.parent.is_some() => Some("asked an agent"),
        CallEvent::Requested(request) if request.kind == CallKind::Handler => Some("handled"),
        CallEvent::Dispatched { attempt: 2.., .. } => Some("sent again"),
        CallEvent::Failed { failure, .. } => Some(match failure.error_type.as_str() {
            "panic" => "panicked",
            "CircuitOpen" => "circuit open",
            "SecretMissing" => "secret missing",
            _ => "failed",
        }),
        CallEvent::TimedOut { .. } => Some("timed out"),
        CallEvent::Canceled { .. } => Some("canceled"),
        CallEvent::OutcomeUnknown { .. } => Some("unknown"),
        CallEvent::LateResultIgnored { .. } => Some("late"),
        CallEvent::Asked { .. } => Some("asked"),
        CallEvent::Accepted { .. } => Some("taken"),
        CallEvent::Answered { .. } => Some("answered"),
        CallEvent::Reconciled { by: VerdictBy::Operator(_), .. } | CallEvent::Abandoned { .. } => {
            Some("settled")
        }
        CallEvent::Reconciled { verdict: Verdict::Landed(_), .. } => Some("landed"),
        CallEvent::Reconciled { verdict: Verdict::DidNotHappen, .. } => Some("absent"),
        CallEvent::Reconciled { verdict: Verdict::Inconclusive(_), .. } => Some("unsure"),
        _ => None,
    }
}
