//! What a handler's attempt says: texts and artifacts while it works, and the last ones, which come with its end, as the
//! artifacts of a tool's do.

use proto_events::envelope::Metadata;
use proto_events::task::{HandlerSays, TaskCommand, TaskRejection};

use crate::actors::shared::messages::AttemptEnd;
use crate::actors::task::core::TaskCore;
use crate::error::Error;

impl TaskCore {
    /// Adds what an attempt says.
    pub(super) fn append_handler_output(
        &mut self,
        call_id: String,
        attempt: u32,
        says: Box<HandlerSays>,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        self.entity.decide(TaskCommand::OfHandler { call_id, attempt, says }, metadata)
    }

    /// Adds the last words or artifacts of an attempt, which stand before its success in the same record. Words of an attempt that
    /// is under way no more are dropped, as all else that it says.
    pub(super) fn say_last(
        &mut self,
        call_id: &str,
        attempt: u32,
        end: &mut AttemptEnd,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let AttemptEnd::Succeeded { says, .. } = end else { return Ok(()) };
        for said in std::mem::take(says) {
            match self.append_handler_output(call_id.to_owned(), attempt, Box::new(said), metadata) {
                Err(Error::Task(TaskRejection::HandlerOver { .. })) => {}
                decided => decided?,
            }
        }
        Ok(())
    }
}
