//! The settings of a builder about a system's actors: how many are live, on how many threads, and how they are resumed.

use std::time::Duration;

use crate::system::builder::Builder;

/// The number of processors from which on a system has several arbiters by default.
const PROCESSORS_FOR_ARBITERS: usize = 4;

/// The variable of the environment that sets the number of arbiters of systems under test that do not say it.
#[cfg(feature = "testing")]
const ARBITERS_OF_TESTS: &str = "TASKREEL_ARBITERS";

impl Builder {
    /// Sets the idle time after which the actor of a task or a session is passivated, by default 60 s.
    #[must_use]
    pub fn passivate_after(mut self, idle: Duration) -> Self {
        self.of.passivate_after = idle.max(Duration::from_millis(1));
        self
    }

    /// Sets the maximum number of live actors of tasks and sessions, by default 10,000. When there are more,
    /// those that have been idle longest are passivated at once; the log keeps them, and the next command
    /// starts them again. An actor with open work (a run, a turn that is waited for, a caller that waits for
    /// the end) is never passivated, so open work may exceed the bound. Of the actors of tasks that have
    /// ended, [`ENDED_TASKS_LIVE`](crate::limits::ENDED_TASKS_LIVE) stay live, whatever the bound is: the others are passivated as
    /// further ones are started. Each of several arbiters has its share of both.
    #[must_use]
    pub fn live_actors(mut self, bound: usize) -> Self {
        self.of.live_actors = bound.max(1);
        self
    }

    /// Sets the number of arbiters, each a thread of its own, over which the actors are spread by the names of their streams.
    /// By default one below four processors, where a second one only adds messages between threads, and half as many as
    /// there are processors otherwise; zero counts as one, and there are never more than [`Builder::live_actors`]. It changes
    /// nothing that is written.
    #[must_use]
    pub fn arbiters(mut self, arbiters: usize) -> Self {
        self.of.arbiters = Some(arbiters.max(1));
        self
    }

    /// Returns the number of arbiters to start. A test on virtual time has one unless its agent asks for more, since with
    /// one thread its steps come in the same order each time.
    pub(super) fn arbiter_count(&self) -> usize {
        #[cfg(feature = "testing")]
        {
            if self.of.observed.is_some() {
                return self.of.arbiters.unwrap_or(1).min(self.of.live_actors).max(1);
            }
            let asked = std::env::var(ARBITERS_OF_TESTS).ok().and_then(|count| count.parse().ok());
            if let Some(count) = self.of.arbiters.or(asked) {
                return count.min(self.of.live_actors).max(1);
            }
        }
        let by_default = || arbiters_of(std::thread::available_parallelism().map_or(1, usize::from));
        // Each has a share of the bound of live actors.
        self.of.arbiters.unwrap_or_else(by_default).min(self.of.live_actors)
    }

    /// Sets the number of tasks with open work that are resumed at once after a start, by default 64; zero counts as
    /// one. The next one is resumed when one of them has come to rest, or a second later: commands are answered in the
    /// meantime, and a command about a task resumes it at once.
    #[must_use]
    pub fn resumed_at_once(mut self, tasks: usize) -> Self {
        self.of.resumed_at_once = tasks.max(1);
        self
    }
}

/// Returns the number of arbiters on a machine of so many processors, where none is set.
fn arbiters_of(processors: usize) -> usize {
    if processors < PROCESSORS_FOR_ARBITERS { 1 } else { processors / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_arbiter_below_four_processors_and_half_of_them_from_there_on() {
        assert_eq!([1, 2, 3, 4, 5, 8, 64].map(arbiters_of), [1, 1, 1, 2, 2, 4, 32]);
    }
}
