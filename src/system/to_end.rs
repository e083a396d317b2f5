//! A task that is submitted and awaited at once: one exchange with its actor instead of two.

use std::sync::Arc;

use proto_events::model::PostedTask;

use crate::error::Error;
use crate::system::handle::{Caller, System};
use crate::system::handles::TaskSnapshot;
use crate::system::input::TaskInput;
use crate::tools::current_call::current_call;

impl System {
    /// Submits a task as [`System::try_submit`] does, and returns it at its end as
    /// [`TaskHandle::finished`](crate::TaskHandle::finished) does. A caller that goes away after the first poll cancels nothing.
    ///
    /// # Errors
    /// As both of them.
    pub async fn try_run(&self, posted: PostedTask) -> Result<TaskSnapshot, Error> {
        // In a call's code a wait may be one for itself, which the handle finds; the first answer to a caller's own command has no
        // task.
        if current_call().is_some() || self.caller.command_id.is_some() {
            return self.try_submit(posted).await?.finished().await;
        }
        let caller = Caller { is_impatient: true, ..Caller::clone(&self.caller) };
        let system = Self { inner: Arc::clone(&self.inner), caller: Arc::new(caller) };
        let mut posted = TaskInput::from(posted).into_task(None, &mut self.inner.ports.clone())?;
        let mut cause = system.complete(&mut posted, false)?;
        cause.awaits_end = true;
        let id = posted.id.clone();
        let last = posted.messages.last().and_then(|message| message.id.clone());
        match system.submitted_as(posted, cause).await {
            Ok((task, reply)) => match reply.task {
                Some(ended) => Ok(TaskSnapshot::new(ended, reply.committed.version)),
                None => task.finished().await,
            },
            Err(error @ Error::InDoubt { .. }) => {
                // The log was reopened while the end was awaited: what is on disk goes on.
                let task = self.task(&id)?;
                let is_taken = |known: &TaskSnapshot| {
                    last.is_some() && known.task().messages().iter().any(|said| said.id == last)
                };
                let known = task.snapshot().await.ok().filter(is_taken);
                if known.is_some() { task.finished().await } else { Err(error) }
            }
            Err(error) => Err(error),
        }
    }
}
