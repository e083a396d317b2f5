//! Work outside the log for a task's open calls: permits for concurrent calls, open probes, and the run's
//! deadline. All of it is lost with the process, and restored by planning.

use std::collections::HashMap;

use proto_events::envelope::Timestamp;

use crate::actors::shared::permits::{AttemptPermit, CallPermit};
use crate::run::question::OutsideWork;

/// Work outside the log for one task, as its actor knows it.
#[derive(Default)]
pub(crate) struct Outside {
    pub(crate) known: OutsideWork,
    pub(crate) permits: HashMap<String, CallPermit>,
    /// The number of the run whose deadline was computed, and the deadline.
    pub(crate) run: Option<(u32, Option<Timestamp>)>,
    /// The number of the run whose time is over.
    pub(crate) time_up: Option<u32>,
}

impl Outside {
    /// Returns an attempt's hold on the permit of its call.
    pub(crate) fn permit(&self, call_id: &str) -> Option<AttemptPermit> {
        self.permits.get(call_id).map(CallPermit::for_attempt)
    }

    /// Returns the deadline of the run.
    pub(crate) fn run_until(&self) -> Option<Timestamp> {
        self.run.and_then(|(_, until)| until)
    }
}
