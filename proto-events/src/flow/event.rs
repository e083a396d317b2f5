//! Events of the flow state of a run.

use crate::id::Version;
use crate::json::JsonText;

/// An event of the flow state of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowEvent {
    /// The run's checkpoint was stored, in place of the one before; its version is the version of this event.
    CheckpointPut {
        /// The checkpoint.
        value: JsonText,
    },
    /// The run's checkpoint was deleted.
    CheckpointDeleted {
        /// The version that the checkpoint had.
        version: Version,
    },
}
