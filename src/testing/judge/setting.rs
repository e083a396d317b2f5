//! The setting of a recovery: what is another than it was before the cut.

use std::time::Duration;

use proto_events::id::Position;

/// The differences between the process before a cut and the one after it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Setting {
    /// The end of the log when the agent's definition was changed, if it was: inferences intended before are superseded.
    pub(crate) changed_at: Option<Position>,
    /// Whether the clock panics once: an attempt may be lost in the process then, before its tool runs.
    pub(crate) may_break: bool,
    /// The time by which the clock was set back in between.
    pub(crate) set_back: Duration,
}
