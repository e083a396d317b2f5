//! Work outside the log for a task's open calls: permits for concurrent calls, open probes, and the run's
//! deadline. All of it is lost with the process, and restored by planning. Most live tasks are idle and have none, so
//! that what belongs to calls takes memory only while there is some.

use std::collections::HashMap;

use proto_events::call::Call;
use proto_events::envelope::Timestamp;
use proto_events::task::Task;
use tokio::sync::mpsc::UnboundedSender;

use crate::actors::shared::delegation_update::DelegationUpdate;
use crate::actors::shared::permits::{AttemptPermit, CallPermit};
use crate::actors::shared::run_starts::Anchor;
use crate::run::delegation::{asked_for, asker, child_of, is_same};
use crate::run::delegation_request::{Refusal, WantedCall};
use crate::run::question::OutsideWork;
use crate::run::reply_reading::ReadReplies;

/// Work outside the log for one task, as its actor knows it.
#[derive(Default)]
pub(crate) struct Outside {
    /// The work for open calls: made for the first of it, and given back when the task is idle and none is left.
    calls: Option<Box<OutsideCalls>>,
    /// The replies of the current part as they were read.
    pub(crate) replies: ReadReplies,
    /// The number of the run whose deadline was computed, and the deadline.
    pub(crate) run: Option<(u32, Option<Timestamp>)>,
    /// The time at which the run began, or was found open, in this process: as the clock showed it, and by its monotonic
    /// reading. No step of the clock moves a deadline from then on.
    pub(crate) anchor: Option<Anchor>,
    /// Whether the anchor is kept for actors of the task that follow this one.
    pub(crate) is_start_kept: bool,
    /// The number of the run whose time is over.
    pub(crate) time_up: Option<u32>,
}

/// Work outside the log for the open calls of one task.
#[derive(Default)]
pub(crate) struct OutsideCalls {
    pub(crate) known: OutsideWork,
    pub(crate) permits: HashMap<String, CallPermit>,
    /// The attempts that wait for word on a request to another agent, by its id.
    listeners: HashMap<String, StateListener>,
}

/// The attempt that waits for word on its request.
struct StateListener(UnboundedSender<DelegationUpdate>);

impl Outside {
    /// Returns the work for open calls, as planning sees it.
    pub(crate) fn known(&self) -> &OutsideWork {
        self.calls.as_ref().map_or(OutsideWork::none(), |calls| &calls.known)
    }

    /// Returns the work for open calls, to add to it.
    pub(crate) fn calls(&mut self) -> &mut OutsideCalls {
        self.calls.get_or_insert_default()
    }

    /// Returns the work for open calls, if there is any.
    pub(crate) fn calls_if_any(&mut self) -> Option<&mut OutsideCalls> {
        self.calls.as_deref_mut()
    }

    /// Notes that a request to another agent is not made.
    pub(crate) fn refuse(&mut self, id: &str, why: Refusal) {
        let Some(calls) = &mut self.calls else { return };
        if let Some(wanted) = calls.known.wanted.iter_mut().find(|wanted| wanted.id == id) {
            wanted.refused = Some(why);
        }
    }

    /// Tells attempts what became of their requests to other agents. What the task holds is on disk.
    pub(crate) fn tell_wanted(&mut self, task: &Task, epoch: u64) {
        let Some(calls) = self.calls.as_deref_mut() else { return };
        let OutsideCalls { known, listeners, .. } = calls;
        known.wanted.retain_mut(|wanted| {
            let told = listeners.get(&wanted.id).is_some_and(|listener| listener.tell(task, wanted, epoch));
            if !told {
                listeners.remove(&wanted.id);
            }
            told
        });
    }

    /// Gives back the memory of work that has ended.
    pub(crate) fn forget_ended(&mut self) {
        if self.calls.as_ref().is_some_and(|calls| calls.is_none()) {
            self.calls = None;
        }
    }

    /// Returns an attempt's hold on the permit of its call.
    pub(crate) fn permit(&self, call_id: &str) -> Option<AttemptPermit> {
        self.calls.as_ref()?.permits.get(call_id).map(CallPermit::for_attempt)
    }

    /// Returns the deadline of the run.
    pub(crate) fn run_until(&self) -> Option<Timestamp> {
        self.run.and_then(|(_, until)| until)
    }
}

impl OutsideCalls {
    fn is_none(&self) -> bool {
        self.known.is_none() && self.permits.is_empty() && self.listeners.is_empty()
    }

    /// Takes a request to another agent.
    pub(crate) fn want(&mut self, wanted: WantedCall, tell: UnboundedSender<DelegationUpdate>) {
        self.listeners.insert(wanted.id.clone(), StateListener(tell));
        // The operation may be decided again after a conflict.
        self.known.wanted.retain(|known| known.id != wanted.id);
        self.known.wanted.push(wanted);
    }
}

impl StateListener {
    /// Tells what is new, and returns whether more will be.
    fn tell(&self, task: &Task, wanted: &mut WantedCall, epoch: u64) -> bool {
        let refused = || match &wanted.refused {
            None if asker(task, wanted, epoch).is_none() => {
                let text = "the attempt that made the request is over".to_owned();
                Some(Refusal::Error("Superseded", text))
            }
            why => why.clone(),
        };
        if let Some(why) = refused() {
            let _ = self.0.send(DelegationUpdate::Refused { why, asked: asked_for(task, wanted) });
            return false;
        }
        let is_its = |child: &&Call| wanted.is_recorded || is_same(child, wanted);
        let Some(child) = child_of(task, wanted).filter(is_its) else {
            return !self.0.is_closed();
        };
        if !std::mem::replace(&mut wanted.is_recorded, true) {
            let _ = self.0.send(DelegationUpdate::Recorded { asked: asked_for(task, wanted) });
        }
        if let Some(question) = child.open_question() {
            let _ = self.0.send(DelegationUpdate::Waits(question.to_owned()));
            return false;
        }
        if !child.status.is_open() {
            let _ = self.0.send(DelegationUpdate::Ended(child.status.clone()));
        }
        child.status.is_open() && !self.0.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_is_open_is_kept_and_the_memory_of_work_that_has_ended_is_given_back() {
        let mut outside = Outside::default();
        outside.calls().known.probing.insert("call".to_owned());
        outside.forget_ended();
        assert!(outside.known().probing.contains("call"));
        outside.calls().known.probing.clear();
        outside.forget_ended();
        assert!(outside.calls_if_any().is_none() && outside.known().is_none());
    }
}
