//! Checks a run's flow state: a deletion names the checkpoint that is there.

use proto_events::flow::FlowEvent;
use proto_events::id::Version;

/// A run's flow state as read so far: the version of its checkpoint, 0 if it has none.
#[derive(Default)]
pub(crate) struct FlowCheck {
    checkpoint: u64,
}

impl FlowCheck {
    /// Takes the event of this version.
    ///
    /// # Errors
    /// The fault of the event.
    pub(crate) fn accept_event(&mut self, at: u64, event: &FlowEvent) -> Result<(), String> {
        match event {
            FlowEvent::CheckpointPut { .. } => self.checkpoint = at,
            FlowEvent::CheckpointDeleted { version: Version(named) } => {
                let there = std::mem::take(&mut self.checkpoint);
                if there == 0 {
                    return Err("a checkpoint was deleted, but there was none".to_owned());
                }
                if there != *named {
                    return Err(format!(
                        "the checkpoint of version {named} was deleted, but the run had that of version {there}"
                    ));
                }
            }
        }
        Ok(())
    }
}
