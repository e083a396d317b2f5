//! A thing that needs attention: its kind, its task, its words, and the commands that end it.

use proto_events::envelope::Timestamp;
use proto_events::id::StreamId;
use proto_events::json::JsonText;

use crate::audit::json::{object, text, text_or_null};
use crate::views::call_row::CallRow;

/// The kind of what needs attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Attention {
    /// A call waits for approval.
    Approval,
    /// A call waits for a person's answer.
    Question,
    /// The outcome of a call is unknown.
    Unknown,
    /// A task waits for a person's message, and no call of it says for what.
    Input,
    /// A task is working, but nothing goes on.
    Stalled,
    /// A tool that a task in flight used is gone, or takes less.
    Tool,
    /// A server of tools brings less than it should.
    Server,
    /// A webhook of a task cannot be told what became of it.
    Webhook,
    /// The program that has the log open takes no appends, since one failed.
    Poisoned,
    /// The last program did not end in order.
    UncleanEnd,
    /// The disk is nearly full.
    Disk,
}

impl Attention {
    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Question => "question",
            Self::Unknown => "unknown",
            Self::Input => "input",
            Self::Stalled => "stalled",
            Self::Tool => "tool",
            Self::Server => "server",
            Self::Webhook => "webhook",
            Self::Poisoned => "poisoned",
            Self::UncleanEnd => "unclean-end",
            Self::Disk => "disk",
        }
    }
}

/// The use of a log by a program, as far as its reader knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogUse {
    /// A program has the log open.
    Open,
    /// No program has the log open.
    Closed,
    /// The log is an export, which says nothing of programs.
    Exported,
}

/// A thing that needs attention.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttentionRow {
    /// The kind.
    pub kind: Attention,
    /// The task that it is about.
    pub task: Option<StreamId>,
    /// The time since when it is so, where that is known.
    pub since: Option<Timestamp>,
    /// The thing in words.
    pub what: String,
    /// The whole arguments of the call that it is about.
    pub args: Option<JsonText>,
    /// The arguments that were asked for, where the check against the tool's schema changed them.
    pub asked_args: Option<JsonText>,
    /// The call that it is about.
    pub call_id: Option<String>,
    /// The id by which a decision names it: that of the approval, the question or the call.
    pub about: Option<String>,
    /// The commands that end it, as typed after the program's name, with the task named by its stream.
    pub commands: Vec<String>,
    /// The advice where no command ends it.
    pub advice: Option<String>,
}

impl AttentionRow {
    /// Returns a row of this kind without a task.
    pub fn new(kind: Attention, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            kind,
            task: None,
            since: None,
            what: what.into(),
            args: None,
            asked_args: None,
            call_id: None,
            about: None,
            commands: Vec::new(),
            advice: Some(advice.into()),
        }
    }

    pub(super) fn of_call(row: CallRow) -> Option<Self> {
        let commands = row.commands();
        let kind = match (&row.approval_id, &row.question_id) {
            _ if commands.is_empty() => return None,
            (Some(_), _) => Attention::Approval,
            (None, Some(_)) => Attention::Question,
            (None, None) => Attention::Unknown,
        };
        let what = format!("{} {} waits for {}", row.kind, row.target, row.waits_for);
        Some(Self {
            kind,
            task: Some(row.stream),
            since: Some(row.since),
            what,
            args: Some(row.args),
            asked_args: row.asked_args,
            about: row.approval_id.or(row.question_id).or_else(|| Some(row.call_id.clone())),
            call_id: Some(row.call_id),
            commands,
            advice: None,
        })
    }

    /// Returns the row as JSON.
    pub fn to_json(&self) -> JsonText {
        let task = self.task.as_ref();
        object([
            ("schema", text("taskreel.attention/1")),
            ("kind", text(self.kind.as_str())),
            ("task", text_or_null(task.map(StreamId::id).as_deref())),
            ("stream", text_or_null(task.map(StreamId::as_str))),
            ("since", text_or_null(self.since.map(|since| since.to_string()).as_deref())),
            ("what", text(&self.what)),
            ("args", self.args.clone().unwrap_or_else(JsonText::null)),
            ("asked_args", self.asked_args.clone().unwrap_or_else(JsonText::null)),
            ("call_id", text_or_null(self.call_id.as_deref())),
            ("commands", JsonText::of_model(&self.commands)),
            ("advice", text_or_null(self.advice.as_deref())),
        ])
    }
}
