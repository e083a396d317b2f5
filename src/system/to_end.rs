//! A task that is submitted and awaited at once: one exchange with its actor instead of two.

use std::sync::Arc;

use proto_events::model::PostedTask;

use crate::error::Error;
use crate::system::handle::{Caller, System};
use crate::system::handles::TaskSnapshot;
use crate::system::input::TaskInput;
use crate::system::tasks::with_new_id;
use crate::tools::current_call::current_call;

impl System {
    /// Submits a task as [`System::submit`] does, and returns it at its end as
    /// [`TaskHandle::finished`](crate::TaskHandle::finished) does, in one exchange with its actor. A caller that goes away after
    /// the first poll cancels nothing.
    ///
    /// ```
    /// # use taskreel::{Part, System, TaskState};
    /// # async fn pay(system: System) -> Result<(), taskreel::Error> {
    /// let paid = system.run_to_end(Part::tool_call("pay", serde_json::json!({"cents": 100}))?).await?;
    /// assert_eq!(paid.state(), TaskState::Completed);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As both of them. A failed task is not an error here: check its state.
    pub async fn run_to_end(&self, input: impl Into<TaskInput>) -> Result<TaskSnapshot, Error> {
        let input = input.into();
        if self.asks_twice() {
            return self.submit(input).await?.finished().await;
        }
        let made = &|| input.clone().into_task(None, &mut self.inner.ports.clone());
        if matches!(input, TaskInput::Task(_)) {
            return self.run_made(made()?, false).await;
        }
        with_new_id(move || async move { self.run_made(made()?, true).await }).await
    }

    /// Whether the end is asked for apart from the submission: in a call's code a wait may be one for itself, which the handle
    /// finds; the first answer to a caller's own command has no task.
    fn asks_twice(&self) -> bool {
        current_call().is_some() || self.caller.command_id.is_some()
    }

    /// Submits a task as [`System::try_submit`] does, and returns it at its end as
    /// [`TaskHandle::finished`](crate::TaskHandle::finished) does. A caller that goes away after the first poll cancels nothing.
    ///
    /// # Errors
    /// As both of them.
    pub async fn try_run(&self, posted: PostedTask) -> Result<TaskSnapshot, Error> {
        if self.asks_twice() {
            return self.try_submit(posted).await?.finished().await;
        }
        let caller = Caller { is_impatient: true, ..Caller::clone(&self.caller) };
        let system = Self { inner: Arc::clone(&self.inner), caller: Arc::new(caller) };
        let posted = TaskInput::from(posted).into_task(None, &mut self.inner.ports.clone())?;
        system.run_made(posted, false).await
    }

    /// Submits a task under the id that it has, `ours` if we made it, and returns it at its end.
    async fn run_made(&self, mut posted: PostedTask, ours: bool) -> Result<TaskSnapshot, Error> {
        let mut cause = self.complete(&mut posted, ours)?;
        cause.awaits_end = true;
        let id = posted.id.clone();
        let last = posted.messages.last().and_then(|message| message.id.clone());
        match self.submitted_as(posted, cause).await {
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
