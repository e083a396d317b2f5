//! Commands to the flow state of a run, and the reasons to reject them.

use crate::id::Version;
use crate::json::JsonText;

/// A command to the flow state of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowCommand {
    /// Store the run's checkpoint.
    Put {
        /// The checkpoint.
        value: JsonText,
        /// The version that the run's checkpoint must have; 0 if there must be none, `None` for any.
        expected: Option<Version>,
    },
    /// Delete the run's checkpoint.
    Delete {
        /// The version that the run's checkpoint must have; `None` for any.
        expected: Option<Version>,
    },
}

/// The reason why a command to the flow state of a run is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowRejection {
    /// The checkpoint was stored or deleted since it was read.
    #[error("the checkpoint has version {actual}, not {expected}: it was changed meanwhile")]
    Conflict {
        /// The expected version; 0 if there should be none.
        expected: Version,
        /// The actual version; 0 of an empty stream.
        actual: Version,
    },
}
