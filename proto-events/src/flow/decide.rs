//! The decisions of the flow state of a run: the checkpoint must still be the one that the caller read.

use crate::decider::Decider;
use crate::envelope::Metadata;
use crate::flow::command::{FlowCommand, FlowRejection};
use crate::flow::event::FlowEvent;
use crate::flow::state::{Checkpoint, FlowRun};
use crate::id::Version;

impl Decider for FlowRun {
    type Command = FlowCommand;
    type Event = FlowEvent;
    type Rejection = FlowRejection;

    fn decide(&self, command: FlowCommand) -> Result<Vec<FlowEvent>, FlowRejection> {
        match command {
            FlowCommand::Put { value, expected } => {
                self.check(expected)?;
                Ok(vec![FlowEvent::CheckpointPut { value }])
            }
            FlowCommand::Delete { expected } => {
                self.check(expected)?;
                // The deletion of an absent checkpoint adds no event.
                let deleted = |kept: &Checkpoint| FlowEvent::CheckpointDeleted { version: kept.version };
                Ok(self.checkpoint().map(deleted).into_iter().collect())
            }
        }
    }

    fn evolve(&mut self, event: &FlowEvent, _metadata: &Metadata) {
        self.fold(event);
    }
}

impl FlowRun {
    fn check(&self, expected: Option<Version>) -> Result<(), FlowRejection> {
        let actual = self.checkpoint_version();
        match expected.filter(|expected| *expected != actual) {
            Some(expected) => Err(FlowRejection::Conflict { expected, actual }),
            None => Ok(()),
        }
    }
}
