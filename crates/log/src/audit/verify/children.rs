//! Checks the calls that another call asked for: a tool's or a handler's requests to other agents, which are numbered
//! without a gap and end with the call that asked.

use proto_events::call::{CallEvent, CallKind, CallRequested, CallStatus, ParentCall};

use crate::audit::verify::attempts::SeenCall;
use crate::audit::verify::calls::CallsCheck;

impl CallsCheck {
    /// Takes the parent of an intent, if it names one, and returns its faults.
    pub(super) fn of_parent(&mut self, request: &CallRequested) -> Vec<String> {
        let Some(ParentCall { call_id: parent, ordinal }) = &request.origin.parent else { return Vec::new() };
        let id = &request.call_id;
        let Some(asker) = self.seen.get_mut(parent) else {
            return vec![format!("call `{id}` names the parent `{parent}`, which was never intended")];
        };
        let before = asker.children;
        asker.children = before.max(*ordinal);
        asker.open_children = asker.open_children.saturating_add(1);
        let wrong_kind = !matches!(asker.kind, CallKind::Tool | CallKind::Handler);
        let no_request = request.kind != CallKind::Delegate;
        let (status, is_next) = (&asker.status, before.checked_add(1) == Some(*ordinal));
        let faults = [
            wrong_kind.then(|| {
                format!(
                    "call `{id}` names the parent `{parent}`, but only a tool or a handler asks for calls"
                )
            }),
            no_request.then(|| format!("call `{id}` has a parent, but is no request to another agent")),
            (*status != CallStatus::Dispatched).then(|| {
                let status = status.as_str();
                format!(
                    "call `{id}` was intended for its parent `{parent}`, which is {status}, not in flight"
                )
            }),
            (!is_next).then(|| {
                format!(
                    "call `{id}` is number {ordinal} of its parent `{parent}`, but follows number {before}"
                )
            }),
        ];
        faults.into_iter().flatten().collect()
    }

    /// Returns the fault of an attempt that is sent while no attempt of the call's parent is under way.
    pub(super) fn sent_without_parent(&self, event: &CallEvent) -> Option<String> {
        let CallEvent::Dispatched { call_id, epoch, .. } = event else { return None };
        let parent = self.seen.get(call_id)?.parent.as_deref()?;
        let under_way = |parent: &SeenCall| parent.status == CallStatus::Dispatched && parent.epoch == *epoch;
        // A parent that was never intended is a fault of the intent.
        let early = self.seen.get(parent).is_some_and(|parent| !under_way(parent));
        early.then(|| format!("call `{call_id}` was sent, but its parent `{parent}` was not under way"))
    }

    /// Takes the outcome of an open call.
    pub(super) fn close(&mut self, call_id: &str, version: u64) {
        self.open.remove(call_id);
        self.closed.push((version, call_id.to_owned()));
        let parent = self.seen.get(call_id).and_then(|call| call.parent.clone());
        if let Some(parent) = parent.and_then(|parent| self.seen.get_mut(&*parent)) {
            parent.open_children = parent.open_children.saturating_sub(1);
        }
    }

    /// Returns the calls that the open record closed and whose own calls it left open, with their versions.
    pub(super) fn left_open(&self) -> Vec<(u64, String)> {
        let has_open = |id: &str| self.seen.get(id).is_some_and(|call| call.open_children > 0);
        let closed = self.closed.iter().filter(|(_, id)| has_open(id));
        let fault = |(version, id): &(u64, String)| {
            let is_its = |child: &&String| {
                self.seen.get(*child).is_some_and(|call| call.parent.as_deref() == Some(id))
            };
            let child = self.open.iter().find(is_its)?;
            Some((*version, format!("call `{id}` has its outcome, but its call `{child}` has none")))
        };
        closed.filter_map(fault).collect()
    }
}
