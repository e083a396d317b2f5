//! Ended tasks whose actors are live, the one that ended longest ago first: the list by which the supervisor keeps few of them
//! ([`live_actors`](crate::actors::shared::live_actors)).
//!
//! An actor adds itself when its task has ended, without a message to the supervisor: both are on the arbiter's thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use proto_events::id::StreamId;

use crate::actors::shared::idle_state::IdleState;

/// The list. Each live actor stands in it at most once.
#[derive(Clone, Default)]
pub(crate) struct EndedTasks(Rc<RefCell<VecDeque<EndedTask>>>);

/// A task that had ended when it was added.
pub(crate) struct EndedTask {
    pub(crate) stream: StreamId,
    /// The idle state of the actor that added itself; another actor of the task has another one.
    pub(crate) idle: Rc<IdleState>,
    /// The time since which the actor was idle when it was added.
    since: Option<Instant>,
}

impl EndedTask {
    /// Whether the actor has done something since it was added.
    pub(crate) fn was_used(&self) -> bool {
        self.idle.since() != self.since
    }
}

impl EndedTasks {
    /// Adds an actor that is idle and whose task has ended, unless it is listed.
    pub(crate) fn add(&self, stream: &StreamId, idle: &Rc<IdleState>) {
        if !idle.set_listed(true) {
            self.add_last(stream.clone(), Rc::clone(idle));
        }
    }

    /// Puts an actor that was used to the end of the list.
    pub(crate) fn add_again(&self, used: EndedTask) {
        self.add_last(used.stream, used.idle);
    }

    fn add_last(&self, stream: StreamId, idle: Rc<IdleState>) {
        let since = idle.since();
        self.0.borrow_mut().push_back(EndedTask { stream, idle, since });
    }

    /// Takes the first task off the list if there are more than `kept`. It counts as listed until it is released.
    pub(crate) fn take_first_beyond(&self, kept: usize) -> Option<EndedTask> {
        let mut list = self.0.borrow_mut();
        if list.len() > kept { list.pop_front() } else { None }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }
}
