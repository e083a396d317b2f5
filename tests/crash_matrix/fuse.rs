//! The fuse: a place in the host's code that panics, at one of its calls in each process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The places where the host's code is called while the system works. What is called at the registration only
/// (`InferBackend::backend`, `model`, `parameters` and `check`, `Tool::is_blocking`, `IntoTool::into_tool`, `Peer::name`,
/// `description`, `skills` and `policy`) fails the start: `tests/panics/panics.rs`. So do the traits of a store have their own
/// tests: `tests/panics/panics_of_ports.rs`.
pub(crate) const PLACES: [&str; 9] = [
    "Tool::call",
    "handler",
    "probe",
    "InferBackend::infer",
    "Approver::ask",
    "SecretProvider::secret",
    "Peer::send",
    "Peer::cancel",
    CLOCK,
];

/// The clock, which the kit makes panic.
pub(crate) const CLOCK: &str = "Clock";

/// A place that panics, and how many of its calls come before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fuse {
    place: Option<&'static str>,
    left: Arc<AtomicU64>,
}

impl Fuse {
    /// Returns the fuse of a new process.
    pub(crate) fn of(panics: Option<(&'static str, u64)>) -> Self {
        let left = panics.map_or(0, |(_, calls)| calls);
        Self { place: panics.map(|(place, _)| place), left: Arc::new(AtomicU64::new(left)) }
    }

    /// Panics if this is the place, and the call.
    pub(crate) fn at(&self, place: &'static str) {
        if self.place != Some(place) {
            return;
        }
        let before = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
        if before == Ok(1) {
            // Without the panic hook, which would print it.
            std::panic::resume_unwind(Box::new(format!("BOOM in {place}")));
        }
    }
}
