//! The line that is being typed, and what happens to its words.

use crate::decide::WishKind;

/// A line that is being typed.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    /// The kind.
    pub(crate) kind: InputKind,
    /// The text so far.
    pub(crate) text: String,
}

/// The kinds of typed lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InputKind {
    /// A text to search for.
    Search,
    /// A filter.
    Filter,
    /// A filter whose matches are left out.
    FilterOut,
    /// A command.
    Command,
    /// The text of a decision, with what it is about.
    Words(WordsOf),
}

/// The decisions that take words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WordsOf {
    /// The reason of a denial.
    Deny(String),
    /// The result of a call.
    Landed(String),
    /// The reason for giving a call up.
    Abandon(String),
    /// The answer to a question.
    Answer(String),
    /// The reason for not answering.
    Decline(String),
    /// The reason of a cancellation.
    Cancel,
}

impl Input {
    /// Returns an empty line.
    pub(crate) const fn new(kind: InputKind) -> Self {
        Self { kind, text: String::new() }
    }

    /// Returns the words before the line.
    pub(crate) const fn label(&self) -> &'static str {
        match &self.kind {
            InputKind::Search => "/",
            InputKind::Filter => "only: ",
            InputKind::FilterOut => "not: ",
            InputKind::Command => ":",
            InputKind::Words(of) => match of {
                WordsOf::Deny(_) => "reason of the denial: ",
                WordsOf::Landed(_) => "its result as JSON: ",
                WordsOf::Abandon(_) => "reason for giving up: ",
                WordsOf::Answer(_) => "answer: ",
                WordsOf::Decline(_) => "reason for not answering: ",
                WordsOf::Cancel => "reason of the cancellation: ",
            },
        }
    }
}

impl WordsOf {
    /// Returns the decision with its words.
    pub(crate) fn with(self, words: String) -> WishKind {
        match self {
            Self::Deny(approval) => WishKind::Deny(approval, words),
            Self::Landed(call) => WishKind::Landed(call, words),
            Self::Abandon(call) => WishKind::Abandon(call, words),
            Self::Answer(question) => WishKind::Answer(question, words),
            Self::Decline(question) => WishKind::Decline(question, words),
            Self::Cancel => WishKind::Cancel(words),
        }
    }
}
