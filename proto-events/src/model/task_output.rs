//! The outcome of a task that came back: the last part, the answer, and whether the task went well.

use crate::json::JsonText;
use crate::model::artifact::Artifact;
use crate::model::message::Message;
use crate::model::part::Part;
use crate::model::posted_task::{LastItem, PostedTask};
use crate::model::python;
use crate::model::task_state::TaskState;

/// A task that failed or was canceled, as an error. Its text is that of Protolink 0.8.3.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Task '{id}' {state}{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
pub struct TaskExecutionError {
    /// The task's id.
    pub id: String,
    /// The state: failed or canceled.
    pub state: TaskState,
    /// The error of a failed task, the reason of a canceled one.
    pub reason: Option<String>,
}

impl TaskExecutionError {
    /// Returns the error of a task in this state with these metadata; `None` if it neither failed nor was canceled.
    pub fn from_task(id: &str, state: TaskState, metadata: &crate::json::JsonObject) -> Option<Self> {
        let key = match state {
            TaskState::Failed => "error",
            TaskState::Canceled => "cancel_reason",
            _ => return None,
        };
        let reason = metadata.get(key).filter(|reason| python::truthy(reason)).map(python::text);
        Some(Self { id: id.to_owned(), state, reason })
    }
}

impl<'a> LastItem<'a> {
    /// Returns the last part of the item.
    pub fn last_part(self) -> Option<&'a Part> {
        self.parts().last()
    }

    /// Returns the answer in the item's last part: an `infer_output`, the result of a tool that succeeded, a text or
    /// JSON of an agent's message or of a result. A request, a preview or an error is not an answer.
    pub fn output(self) -> Option<JsonText> {
        let part = self.last_part()?;
        let is_answer = match self {
            Self::Artifact(Artifact { kind, .. }) if kind != "result" => return None,
            Self::Artifact(_) => true,
            Self::Message(Message { role, .. }) => matches!(role.as_deref(), Some("agent" | "assistant")),
        };
        match part.kind() {
            "infer_output" => Some(part.content().clone()),
            "tool_output" => {
                part.as_tool_output().ok().filter(|output| output.error.is_null()).map(|output| output.result)
            }
            "text" | "json" if is_answer => Some(part.content().clone()),
            _ => None,
        }
    }
}

impl PostedTask {
    /// Returns the last part of the last item.
    pub fn last_part(&self) -> Option<&Part> {
        self.last_item()?.last_part()
    }

    /// Returns the task's answer, see [`LastItem::output`]; `None` if the last part does not answer.
    pub fn output(&self) -> Option<JsonText> {
        self.last_item()?.output()
    }

    /// Returns the task, unless it failed or was canceled. It does not say that the task is over.
    ///
    /// # Errors
    /// [`TaskExecutionError`] for a task that failed or was canceled.
    pub fn raise_for_status(&self) -> Result<&Self, TaskExecutionError> {
        TaskExecutionError::from_task(&self.id, self.state, &self.metadata).map_or(Ok(self), Err)
    }
}
