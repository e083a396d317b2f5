//! The look of the states of tasks.

use anstyle::AnsiColor;
use proto_events::model::TaskState;

/// The look of a state: never distinguished by colour alone.
pub(super) struct StateStyle {
    pub(super) mark: &'static str,
    pub(super) ascii: &'static str,
    pub(super) colour: AnsiColor,
}

impl StateStyle {
    pub(super) fn from_state(state: TaskState) -> Self {
        let (mark, ascii, colour) = match state {
            TaskState::Submitted => ("○", "o", AnsiColor::Blue),
            TaskState::Working => ("●", "*", AnsiColor::Cyan),
            TaskState::InputRequired => ("?", "?", AnsiColor::Yellow),
            TaskState::Completed => ("✓", "+", AnsiColor::Green),
            TaskState::Failed => ("✗", "x", AnsiColor::Red),
            TaskState::Canceled => ("⊘", "-", AnsiColor::Magenta),
            TaskState::Unknown => ("·", ".", AnsiColor::White),
        };
        Self { mark, ascii, colour }
    }

    pub(super) fn words(&self, state: TaskState, unicode: bool) -> String {
        format!("{} {state}", if unicode { self.mark } else { self.ascii })
    }
}
