//! The lifecycle label of a task and the allowed transitions, as one table.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::json::JsonText;
use crate::json::error::cut;
use crate::model::python;

/// The lifecycle state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum TaskState {
    /// The task was submitted and has not begun.
    #[default]
    Submitted,
    /// The task is in work.
    Working,
    /// The task waits for the user.
    InputRequired,
    /// The task has completed.
    Completed,
    /// The task has failed.
    Failed,
    /// The task was canceled.
    Canceled,
    /// The task was posted in a state that its poster did not know.
    Unknown,
}

/// The error for a text that is not a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a valid TaskState")]
pub struct UnknownTaskState(
    /// The value, as Python prints it.
    pub String,
);

impl TaskState {
    /// All states, in the order of the lifecycle.
    pub const ALL: [Self; 7] = [
        Self::Submitted,
        Self::Working,
        Self::InputRequired,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
        Self::Unknown,
    ];

    /// Whether a task may go from this state to another, `next`. False for the same state, which is no
    /// transition: callers accept a repetition before they ask.
    pub const fn can_become(self, next: Self) -> bool {
        use TaskState::{Canceled, Completed, Failed, InputRequired, Submitted, Unknown, Working};
        match self {
            Submitted => matches!(next, Working | Failed | Canceled),
            Working => matches!(next, InputRequired | Completed | Failed | Canceled),
            InputRequired => matches!(next, Working | Failed | Canceled),
            Completed | Failed | Canceled => false,
            Unknown => !matches!(next, Unknown),
        }
    }

    /// Whether the state is final.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }

    /// Returns the state in Protolink's words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input-required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Unknown => "unknown",
        }
    }

    /// Reads a state from JSON.
    ///
    /// # Errors
    /// [`UnknownTaskState`] with Protolink's text, for anything that is not a state, null included.
    pub fn from_json(json: &JsonText) -> Result<Self, UnknownTaskState> {
        json.to_str()
            .and_then(|text| Self::named(&text))
            .ok_or_else(|| UnknownTaskState(cut(&python::repr_of(json))))
    }

    fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TaskState {
    type Err = UnknownTaskState;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::named(text).ok_or_else(|| UnknownTaskState(cut(&python::repr_str(text))))
    }
}

impl Serialize for TaskState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
