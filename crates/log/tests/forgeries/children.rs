//! Forgeries of calls that a tool's call asks for in its middle.

use proto_events::call::{CallKind, CancelStage, ParentCall};

use super::Forgery;
use super::calls::change;
use super::events::*;
use super::log::Log;
use super::sound::child;

/// Gives the intent that begins a record another parent.
fn parent(log: &mut Log, label: &str, call_id: &str, ordinal: u32) {
    let parent = ParentCall { call_id: call_id.to_owned(), ordinal };
    change(log, label, 0, |call| call.origin.parent = Some(parent));
}

#[rustfmt::skip]
pub(crate) const CHILDREN: &[Forgery] = &[
    ("a parent that was never intended", ("first child", 0), "names the parent `l9`, which was never intended", |log| parent(log, "first child", "l9", 1)),
    ("a parent of another task", ("first child", 0), "names the parent `h1`, which was never intended", |log| parent(log, "first child", "h1", 1)),
    ("a call that is its own parent", ("first child", 0), "names the parent `l2`, which was never intended", |log| parent(log, "first child", "l2", 1)),
    ("a parent that asks another agent itself", ("first child", 0), "only a tool or a handler asks for calls", |log| change(log, "leading", 0, |call| call.kind = CallKind::Delegate)),
    ("a tool's call with a parent", ("first child", 0), "has a parent, but is no request to another agent", |log| change(log, "first child", 0, |call| call.kind = CallKind::Tool)),
    ("a parent that was never sent", ("first child", 0), "for its parent `l1`, which is requested, not in flight", |log| log.remove("leading", 1)),
    ("a parent whose time was up", ("second child", 1), "for its parent `l1`, which is timed-out, not in flight", |log| log.insert("second child", 0, timed_out("l1", 1))),
    ("a parent that has its outcome", ("after", 0), "for its parent `l1`, which is succeeded, not in flight", |log| log.add_after("led", "after", vec![requested(child("l4", "l1", 3)), canceled("l4", CancelStage::Requested)])),
    ("a number that leaves a gap", ("second child", 0), "is number 3 of its parent `l1`, but follows number 1", |log| parent(log, "second child", "l1", 3)),
    ("a number that was used", ("second child", 0), "is number 1 of its parent `l1`, but follows number 1", |log| parent(log, "second child", "l1", 1)),
    ("a number below 1", ("first child", 0), "is number 0 of its parent `l1`, but follows number 0", |log| parent(log, "first child", "l1", 0)),
    ("an outcome that leaves a child open", ("led", 0), "call `l1` has its outcome, but its call `l3` has none", |log| log.remove("led", 0)),
    ("a child that is canceled while its parent goes on", ("canceled early", 0), "was canceled, but its record does not end the", |log| {
        log.remove("led again", 1);
        log.remove("led", 0);
        log.add_after("second child", "canceled early", vec![canceled("l3", CancelStage::InFlight)]);
    }),
    ("a child that is sent while its parent is between attempts", ("led again", 0), "call `l3` was sent, but its parent `l1` was not under way", |log| {
        log.insert("led again", 0, sent("l3", 2, 2, "the process ended"));
        log.remove("led again", 2);
    }),
    ("a child that is sent after its parent's time was up", ("second child", 2), "call `l3` was sent, but its parent `l1` was not under way", |log| log.insert("second child", 1, timed_out("l1", 1))),
    ("an approval of a model's request for one of a tool", ("delegating", 1), "which is for another request", |log| change(log, "delegating", 1, |call| call.origin.parent = Some(ParentCall { call_id: "l1".into(), ordinal: 1 }))),
];
