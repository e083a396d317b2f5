//! The decision of an operation together with a call's writes to its tool's state: the writes are decided with
//! the call's success and written in the same append. If the tool's state refuses them, the call has failed
//! and none of them is kept.

use proto_events::call::{CallFailure, FailureClass};
use proto_events::envelope::Metadata;
use proto_events::tool_store::ToolStoreCommand;

use crate::actors::shared::messages::{AttemptEnd, TaskOp};
use crate::actors::shared::parts::Shared;
use crate::actors::task::core::TaskCore;
use crate::error::Error;
use crate::tools::state::state_error;

impl TaskCore {
    /// Decides an operation, after its writes to a tool's state, if it has any.
    pub(crate) async fn decide_with_tool_writes(
        &mut self,
        shared: &Shared,
        op: TaskOp,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let op = self.decide_tool_writes(shared, op, metadata).await?;
        self.decide_op(shared, op, metadata)
    }

    /// Decides the writes of a call whose outcome is still open: only the outcome that closes the call
    /// writes. Returns the operation without them, or with a failure in its place if the tool's state
    /// refuses.
    async fn decide_tool_writes(
        &mut self,
        shared: &Shared,
        mut op: TaskOp,
        metadata: &Metadata,
    ) -> Result<TaskOp, Error> {
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
            // The write may change nothing, such as the removal of an absent key.
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
