//! The setting of a recovery: what is another than it was before the cut.

use std::time::Duration;

/// The differences between the process before a cut and the one after it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Setting {
    /// Whether the agent was changed, so that open inferences may be superseded.
    pub(crate) is_changed: bool,
    /// Whether the clock panics once: an attempt may be lost in the process then, before its tool runs.
    pub(crate) may_break: bool,
    /// The time by which the clock was set back in between.
    pub(crate) set_back: Duration,
}
