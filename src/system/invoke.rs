//! A task and its answer in one call, as Protolink's `invoke`.

use proto_events::json::JsonText;
use proto_events::model::TaskState;
use proto_events::model::python::truthy;

use crate::error::Error;
use crate::system::handle::System;
use crate::system::input::TaskInput;
use crate::system::session::SessionHandle;

/// The conversation of [`System::invoke`], under Protolink's name.
pub const INVOKE_SESSION: &str = "invocation_session_id";

/// The answer of a task that has produced nothing, in Protolink's words.
pub const NO_RESPONSE: &str = "No response generated";

impl System {
    /// Makes a task of this input, waits until nothing more happens without a person, and returns the content of its
    /// last part, or [`NO_RESPONSE`] where that is empty. All invocations share the conversation [`INVOKE_SESSION`];
    /// [`SessionHandle::invoke`] has another one.
    ///
    /// # Errors
    /// As [`System::submit`], and [`Error::NotCompleted`] if the task failed or was canceled.
    pub async fn invoke(&self, input: impl Into<TaskInput>) -> Result<JsonText, Error> {
        self.session(INVOKE_SESSION).invoke(input).await
    }

    /// Invokes as [`System::invoke`] does, and blocks the thread until the answer is there: for code without an async
    /// runtime.
    ///
    /// ```
    /// # fn ask(system: taskreel::System) -> Result<(), taskreel::Error> {
    /// let answer = system.invoke_blocking(taskreel::Part::infer("Coat in Oslo?"))?;
    /// println!("{answer}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`System::invoke`], and [`Error::WithinRuntime`] on a thread of an async runtime: what it waits for may need that
    /// very thread.
    pub fn invoke_blocking(&self, input: impl Into<TaskInput>) -> Result<JsonText, Error> {
        self.session(INVOKE_SESSION).invoke_blocking(input)
    }
}

impl SessionHandle {
    /// Makes a task in the conversation, as [`System::invoke`] does, and returns its answer.
    ///
    /// # Errors
    /// As there.
    pub async fn invoke(&self, input: impl Into<TaskInput>) -> Result<JsonText, Error> {
        let task = self.send(input).await?;
        let done = task.finished().await?;
        if !matches!(done.state(), TaskState::Completed | TaskState::InputRequired) {
            let why = done.error().unwrap_or_default();
            return Err(Error::NotCompleted { id: task.id().to_owned(), state: done.state(), why });
        }
        let said = done.task().last_part_content().filter(|content| truthy(content)).cloned();
        Ok(said.unwrap_or_else(|| JsonText::string(NO_RESPONSE)))
    }

    /// Invokes as [`SessionHandle::invoke`] does, and blocks the thread until the answer is there.
    ///
    /// # Errors
    /// As [`System::invoke_blocking`].
    pub fn invoke_blocking(&self, input: impl Into<TaskInput>) -> Result<JsonText, Error> {
        if tokio::runtime::Handle::try_current().is_ok() {
            return Err(Error::WithinRuntime);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime =
            runtime.map_err(|error| Error::Internal(format!("no runtime could be created: {error}")))?;
        runtime.block_on(self.invoke(input))
    }
}
