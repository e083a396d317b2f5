//! What a call leaves in its tool's state: decided with the call's success, written in the same append. Where the
//! tool's state says no, the call has failed and nothing of it is kept.

use proto_events::call::{CallFailure, FailureClass};
use proto_events::envelope::Metadata;
use proto_events::tool_store::ToolStoreCommand;

use super::TaskCore;
use crate::actors::messages::{AttemptEnd, TaskOp};
use crate::actors::shared::Shared;
use crate::agent::tool_state::state_error;
use crate::error::Error;

impl TaskCore {
    /// Decides an operation, and first what it writes to a tool's state, if it does.
    pub(super) async fn decide_whole(
        &mut self,
        shared: &Shared,
        op: TaskOp,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let op = self.stage(shared, op, metadata).await?;
        self.decide_op(shared, op, metadata)
    }

    /// Decides the writes of a call that still owes its outcome: only what closes the call writes. Answers the
    /// operation without them; a failure in its place if the tool's state refuses.
    async fn stage(&mut self, shared: &Shared, mut op: TaskOp, metadata: &Metadata) -> Result<TaskOp, Error> {
        let TaskOp::Outcome { call_id, end, .. } = &mut op else { return Ok(op) };
        let AttemptEnd::Succeeded { writes, .. } = end else { return Ok(op) };
        let writes = std::mem::take(writes);
        let open = self.task().calls().get(call_id).filter(|call| call.status.is_open());
        let Some(tool) = open.filter(|_| !writes.is_empty()).map(|call| call.request.target.clone()) else {
            return Ok(op);
        };
        let mut held = shared.tool_stores.hold(&tool).await?;
        let task = self.entity.stream().to_string();
        let command = ToolStoreCommand::Write { task, call_id: call_id.clone(), writes };
        match held.decide(command, metadata) {
            // It may have come to nothing: a key taken away that was not there.
            Ok(()) => self.tool = Some(held).filter(|held| held.pending().0),
            Err(Error::ToolState(rejection)) => {
                let error = state_error(&rejection);
                let (error_type, message) = (error.type_name().to_owned(), error.message().to_owned());
                let failure = CallFailure { class: FailureClass::AfterEffect, error_type, message };
                *end = AttemptEnd::Failed { failure, passing: false, delay_ms: 0 };
            }
            Err(error) => {
                held.forget();
                return Err(error);
            }
        }
        Ok(op)
    }
}
