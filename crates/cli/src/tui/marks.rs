//! The look of the screen: marks in Unicode or ASCII, and the terminal's own colours. A colour never says anything alone: a mark or
//! a word stands beside it.

use proto_events::model::TaskState;
use ratatui::style::{Color, Modifier, Style};

/// The marks of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Whether the locale shows characters beyond ASCII.
    pub(crate) is_unicode: bool,
    /// Whether colours are used.
    pub(crate) is_coloured: bool,
}

impl Marks {
    /// Returns a mark, or the one in ASCII that stands for it.
    pub(crate) const fn pick(self, mark: &'static str, ascii: &'static str) -> &'static str {
        if self.is_unicode { mark } else { ascii }
    }

    /// Returns the mark of a text that is cut.
    pub(crate) const fn ellipsis(self) -> &'static str {
        self.pick("…", "...")
    }

    /// Returns the line between two panes.
    pub(crate) const fn between(self) -> &'static str {
        self.pick("│", "|")
    }

    /// Returns the mark of the row that is chosen.
    pub(crate) const fn chosen(self) -> &'static str {
        self.pick("▌", ">")
    }

    /// Returns the mark of what is folded or open.
    pub(crate) const fn fold(self, is_open: bool) -> &'static str {
        match (is_open, self.is_unicode) {
            (true, true) => "▾",
            (false, true) => "▸",
            (true, false) => "-",
            (false, false) => "+",
        }
    }

    /// Returns the mark and the tone of a task's state.
    pub(crate) const fn state(self, state: TaskState) -> (&'static str, Tone) {
        match state {
            TaskState::Submitted => (self.pick("○", "o"), Tone::Quiet),
            TaskState::Working => (self.pick("●", "*"), Tone::Busy),
            TaskState::InputRequired => ("?", Tone::Asks),
            TaskState::Completed => (self.pick("✓", "+"), Tone::Good),
            TaskState::Failed => (self.pick("✗", "x"), Tone::Bad),
            TaskState::Canceled => (self.pick("⊘", "-"), Tone::Quiet),
            TaskState::Unknown => (self.pick("·", "."), Tone::Quiet),
        }
    }

    /// Returns the mark and the tone of an event or an outcome.
    pub(crate) const fn sign(self, sign: Sign) -> (&'static str, Tone) {
        match sign {
            Sign::Failed => (self.pick("✗", "x"), Tone::Bad),
            Sign::Asks => ("?", Tone::Asks),
            Sign::Done => (self.pick("✓", "+"), Tone::Good),
            Sign::Again => (self.pick("↻", "~"), Tone::Busy),
            Sign::Goes => (self.pick("→", ">"), Tone::Busy),
            Sign::Open => (self.pick("●", "*"), Tone::Busy),
            Sign::Ended => (self.pick("⊘", "-"), Tone::Quiet),
            Sign::Plain => (self.pick("·", "."), Tone::Quiet),
        }
    }

    /// Returns the style of a tone.
    pub(crate) fn style(self, tone: Tone) -> Style {
        let coloured = |colour: Color| {
            if self.is_coloured { Style::new().fg(colour) } else { Style::new() }
        };
        match tone {
            Tone::Plain => Style::new(),
            Tone::Dim | Tone::Quiet => Style::new().add_modifier(Modifier::DIM),
            Tone::Bold => Style::new().add_modifier(Modifier::BOLD),
            Tone::Good | Tone::Added => coloured(Color::Green),
            Tone::Bad => coloured(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Gone => coloured(Color::Red),
            Tone::Busy => coloured(Color::Cyan),
            Tone::Asks => coloured(Color::Yellow).add_modifier(Modifier::BOLD),
            Tone::Key => coloured(Color::Blue),
            Tone::Reverse => Style::new().add_modifier(Modifier::REVERSED),
        }
    }
}

/// The tone of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    /// Text as it is.
    #[default]
    Plain,
    /// Text of less importance.
    Dim,
    /// Important text.
    Bold,
    /// A success.
    Good,
    /// A failure.
    Bad,
    /// Work that goes on.
    Busy,
    /// A question to a person.
    Asks,
    /// A state of rest.
    Quiet,
    /// An item that is new.
    Added,
    /// An item that is gone.
    Gone,
    /// A name.
    Key,
    /// Text that stands out.
    Reverse,
}

/// The meaning of an event or of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sign {
    /// A failure.
    Failed,
    /// A question to a person.
    Asks,
    /// A success.
    Done,
    /// Another attempt.
    Again,
    /// The beginning of work.
    Goes,
    /// Work that goes on.
    Open,
    /// An end that is neither.
    Ended,
    /// Any other event.
    #[default]
    Plain,
}

impl Sign {
    /// Returns the sign of an event, by the name of its kind.
    pub(crate) fn of_event(kind: &str) -> Self {
        match kind {
            "CallFailed" | "CallTimedOut" | "SummaryFailed" | "TurnAborted" => Self::Failed,
            "CallOutcomeUnknown" | "ApprovalRequested" | "CallAsked" => Self::Asks,
            "CallSucceeded" | "CallReconciled" | "ApprovalDecided" | "CallAnswered" | "TurnCommitted" => {
                Self::Done
            }
            "CallRetryScheduled" => Self::Again,
            "CallRequested" | "CallDispatched" | "TurnStarted" => Self::Goes,
            "CallAbandoned" | "CallCanceled" => Self::Ended,
            _ => Self::Plain,
        }
    }

    /// Returns the sign of a call's outcome in a word; of an open call without one.
    pub(crate) fn of_outcome(word: Option<&str>) -> Self {
        match word {
            None => Self::Open,
            Some("succeeded" | "landed") => Self::Done,
            Some("failed") => Self::Failed,
            Some("unknown") => Self::Asks,
            Some(_) => Self::Ended,
        }
    }
}
