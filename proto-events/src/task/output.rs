//! The outcome of a task for its caller: the last part, the answer, and whether the task went well.

use crate::json::JsonText;
use crate::model::{LastItem, Part, TaskExecutionError};
use crate::task::state::{ItemRef, Task};

impl Task {
    /// Returns the last part of the last item.
    pub fn last_part(&self) -> Option<&Part> {
        self.parts(self.last_item()?).last()
    }

    /// Returns the task's answer, see [`LastItem::output`]; `None` if the last part does not answer.
    pub fn output(&self) -> Option<JsonText> {
        let last = match self.last_item()? {
            ItemRef::Message(at) => LastItem::Message(self.messages().get(at)?),
            ItemRef::Artifact(at) => LastItem::Artifact(self.artifacts().get(at)?),
        };
        last.output()
    }

    /// Returns the task, unless it failed or was canceled. It does not say that the task is over.
    ///
    /// # Errors
    /// [`TaskExecutionError`] for a task that failed or was canceled.
    pub fn raise_for_status(&self) -> Result<&Self, TaskExecutionError> {
        TaskExecutionError::from_task(self.id(), self.state(), self.metadata()).map_or(Ok(self), Err)
    }
}
