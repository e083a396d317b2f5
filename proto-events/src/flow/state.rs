//! The flow state of a run as the fold of its events.

use crate::flow::event::FlowEvent;
use crate::id::Version;
use crate::json::JsonText;

/// The checkpoint of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The value.
    pub value: JsonText,
    /// The version, in the run's stream, of the event that stored it. No checkpoint of a run ever has the same version
    /// twice.
    pub version: Version,
}

/// The flow state of one run: the fold of its stream.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FlowRun {
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) version: Version,
}

impl FlowRun {
    /// Returns the run's checkpoint, if it has one.
    pub fn checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_ref()
    }

    /// Returns the version of the run's checkpoint; 0 if it has none.
    pub fn checkpoint_version(&self) -> Version {
        self.checkpoint().map(|checkpoint| checkpoint.version).unwrap_or_default()
    }

    /// Returns the number of events in the stream.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Folds in one event; never fails.
    pub(super) fn fold(&mut self, event: &FlowEvent) {
        self.version = Version(self.version.0.saturating_add(1));
        self.checkpoint = match event {
            FlowEvent::CheckpointPut { value } => {
                Some(Checkpoint { value: value.clone(), version: self.version })
            }
            FlowEvent::CheckpointDeleted { .. } => None,
        };
    }
}
