//! The lifecycle label of a task and its edges, as one legible table.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::json::JsonText;
use crate::model::python;

/// Where a task stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum TaskState {
    /// Posted, not begun.
    #[default]
    Submitted,
    /// Being worked on.
    Working,
    /// Waiting for the user.
    InputRequired,
    /// Done.
    Completed,
    /// Ended by an error.
    Failed,
    /// Ended by the caller's wish.
    Canceled,
    /// Posted in a state that its poster did not know.
    Unknown,
}

/// A text that names no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a valid TaskState")]
pub struct UnknownTaskState(
    /// The value, as Python prints it.
    pub String,
);

impl TaskState {
    /// Every state, in the order of a task's life.
    pub const ALL: [Self; 7] = [
        Self::Submitted,
        Self::Working,
        Self::InputRequired,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
        Self::Unknown,
    ];

    /// Whether a task may go from this state to another, `next`. Staying is no transition: for the same state
    /// it is false, and callers let a repetition pass before they ask.
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

    /// Whether nothing may follow.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }

    /// The state in Protolink's words.
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
    /// [`UnknownTaskState`] with Protolink's text, for anything that names no state, null included.
    pub fn from_json(json: &JsonText) -> Result<Self, UnknownTaskState> {
        json.to_str()
            .and_then(|text| Self::named(&text))
            .ok_or_else(|| UnknownTaskState(python::repr_of(json)))
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
        Self::named(text).ok_or_else(|| UnknownTaskState(python::repr_str(text)))
    }
}

impl Serialize for TaskState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
