//! Honest courses that are close to a forgery: nothing is found in them.

use proto_events::call::Recovery;

use super::delegated::{asks_for, delegates};
use super::events::*;
use super::log::{Log, SECOND};
use super::programs::ask_first;

/// Adds a call whose key is forgotten after a minute, whose time is up, and which is then given up.
fn keyed(log: &mut Log) {
    let mut call = intent("k1", "send", Recovery::Idempotent, 1);
    call.window_ms = Some(60_000);
    log.add_after("reading", "keyed", vec![requested(call), sent("k1", 1, 1, "")]);
    log.add_after("keyed", "keyed late", vec![timed_out("k1", 1)]);
    log.add_after("keyed late", "forgotten", vec![unknown("k1", 1)]);
}

/// A course of events: its name, and what writes it.
pub(crate) type Course = (&'static str, fn(&mut Log));

#[rustfmt::skip]
pub(crate) const HONEST: &[Course] = &[
    ("a run that goes on beyond its budget with a person's consent", |log| ask_first(log, "reading", over_budget("a9", "budget_1"), Some(decided("a9", true)))),
    ("a run that is granted more than its budget twice", |log| {
        ask_first(log, "reading", over_budget("a9", "budget_1"), Some(decided("a9", true)));
        ask_first(log, "sending again", over_budget("a8", "budget_2"), Some(decided("a8", true)));
    }),
    ("a run that is granted more than its budget under a changed agent", |log| {
        ask_first(log, "reading", over_budget("a9", "budget_1"), Some(decided("a9", true)));
        let changed = asked("a8", "revision_1", "desk", json(r#"{"from": 1, "to": 2}"#));
        ask_first(log, "reading", changed, Some(decided("a8", true)));
    }),
    ("a run that ends because more than its budget was denied", |log| ask_first(log, "failed", over_budget("a9", "budget_1"), Some(decided("a9", false)))),
    ("a call given up after its key was forgotten, by a clock that was set back meanwhile", |log| {
        keyed(log);
        log.draft("forgotten").at -= 3_600 * SECOND;
    }),
    ("a call given up after its key was forgotten", |log| {
        keyed(log);
        log.draft("forgotten").at += 61 * SECOND;
    }),
    ("an answer of another agent of the same program", |log| delegates(log, "completed")),
    ("an answer of an agent elsewhere", |log| asks_for(log, "peer", "completed")),
];
