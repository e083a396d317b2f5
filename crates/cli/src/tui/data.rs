//! Data that was read of a log for the screen: rows and contents, made of the views that the command line prints.

use std::sync::Arc;

use proto_events::call::TokenUsage;
use proto_events::envelope::Timestamp;
use proto_events::id::{Category, StreamId, Version};
use proto_events::json::{JsonText, JsonValue};
use taskreel_log::views::{AlignedStep, AttentionRow, CallRow, PromptPair, RunCursor, RunRow};

use crate::tui::line::ScreenLine;
use crate::tui::marks::{Sign, Tone};

/// An event, named by its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventRef {
    /// The stream.
    pub(crate) stream: StreamId,
    /// The version.
    pub(crate) at: Version,
}

/// Whether a stream is a task's.
pub(crate) fn is_task(stream: &StreamId) -> bool {
    stream.category() == Some(Category::Task)
}

/// A row of the list of streams.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StreamRow {
    /// A task.
    Run(Box<RunRow>),
    /// Any other stream, with its last version.
    Other(StreamId, Version),
    /// A task that cannot be read, with the reason.
    Unreadable(StreamId, String),
}

impl StreamRow {
    /// Returns the stream.
    pub(crate) fn stream(&self) -> &StreamId {
        match self {
            Self::Run(row) => &row.task.stream,
            Self::Other(stream, _) | Self::Unreadable(stream, _) => stream,
        }
    }
}

/// A page of the list of streams.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StreamPage {
    /// The rows.
    pub(crate) rows: Vec<StreamRow>,
    /// The place of the next page.
    pub(crate) next: Option<RunCursor>,
    /// The reason why the log cannot be read from end to end.
    pub(crate) damage: Option<String>,
}

/// A stream that was read from its first event to its last.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunData {
    /// The last version that could be read.
    pub(crate) end: u64,
    /// The row of the task, of a task.
    pub(crate) row: Option<Box<RunRow>>,
    /// The events, in their order.
    pub(crate) events: Vec<EventLine>,
    /// The calls.
    pub(crate) calls: Vec<CallGroup>,
    /// The reason why it cannot be read further.
    pub(crate) damage: Option<String>,
}

/// An event of a stream, as a line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EventLine {
    /// The version.
    pub(crate) version: u64,
    /// The position in the log.
    pub(crate) position: u64,
    /// The time.
    pub(crate) at: Timestamp,
    /// The name of the kind.
    pub(crate) kind: &'static str,
    /// The event in words, cut.
    pub(crate) words: String,
    /// The meaning.
    pub(crate) sign: Sign,
    /// The number of its call.
    pub(crate) call: Option<usize>,
    /// Whether the state of the task changes.
    pub(crate) is_state: bool,
    /// Whether the filter takes it.
    pub(crate) is_taken: bool,
}

/// A call, with the events that tell of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CallGroup {
    /// The id.
    pub(crate) id: String,
    /// The kind and the target.
    pub(crate) name: String,
    /// The arguments and the outcome in words, cut.
    pub(crate) words: String,
    /// The meaning of its outcome.
    pub(crate) sign: Sign,
    /// The time from its first event to its outcome, in microseconds.
    pub(crate) took_us: Option<u64>,
    /// The tokens of all attempts.
    pub(crate) usage: Option<TokenUsage>,
    /// The places of its events.
    pub(crate) events: Vec<usize>,
}

/// The kinds of what is shown of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub(crate) enum Tab {
    /// The payload.
    #[default]
    Payload,
    /// The prompt of the last inference up to it.
    Prompt,
    /// The call: arguments, result.
    Call,
    /// The state behind it.
    State,
    /// The changes that it made, or those since the mark.
    Diff,
    /// The chain of causes.
    Cause,
    /// The work of recovery behind it.
    Recovery,
    /// The record with its hashes.
    Raw,
}

impl Tab {
    /// All tabs, in their order.
    pub(crate) const ALL: [Self; 8] = [
        Self::Payload,
        Self::Prompt,
        Self::Call,
        Self::State,
        Self::Diff,
        Self::Cause,
        Self::Recovery,
        Self::Raw,
    ];

    /// Returns the name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Payload => "payload",
            Self::Prompt => "prompt",
            Self::Call => "call",
            Self::State => "state",
            Self::Diff => "diff",
            Self::Cause => "cause",
            Self::Recovery => "recovery",
            Self::Raw => "raw",
        }
    }

    /// Returns the tab so many places further, around the end.
    pub(crate) fn further(self, steps: usize) -> Self {
        let at = Self::ALL.iter().position(|tab| *tab == self).unwrap_or_default();
        Self::ALL.get((at + steps) % Self::ALL.len()).copied().unwrap_or_default()
    }
}

/// The contents of the detail pane.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Content {
    /// Lines at the top.
    pub(crate) head: Vec<ScreenLine>,
    /// The sections.
    pub(crate) sections: Vec<Section>,
}

/// A section of a content.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Section {
    /// The title.
    pub(crate) title: String,
    /// The tone of the title.
    pub(crate) tone: Tone,
    /// The body.
    pub(crate) body: Body,
}

/// The body of a section.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    /// A JSON value, as a tree.
    Json(Arc<JsonValue>),
    /// A text.
    Text(Arc<str>),
    /// No body.
    Empty,
}

impl Content {
    /// Returns a content of one line.
    pub(crate) fn single_line(text: impl Into<String>) -> Self {
        Self { head: vec![ScreenLine::new(text, Tone::Dim)], sections: Vec::new() }
    }

    /// Adds a fact to the lines at the top.
    pub(crate) fn fact(&mut self, name: &str, text: impl Into<String>) {
        self.head.push(ScreenLine::new(format!("{name:<10} "), Tone::Dim).and(text, Tone::Plain));
    }

    /// Adds a text.
    pub(crate) fn text(&mut self, title: impl Into<String>, text: &str) {
        let body = Body::Text(Arc::from(text));
        self.sections.push(Section { title: title.into(), tone: Tone::Bold, body });
    }

    /// Adds a JSON value.
    pub(crate) fn json(&mut self, title: impl Into<String>, json: &JsonText) {
        let body = Body::Json(Arc::new(json.tree()));
        self.sections.push(Section { title: title.into(), tone: Tone::Bold, body });
    }
}

/// A row of the inbox.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InboxRow {
    /// The kind in a word.
    pub(crate) kind: String,
    /// The meaning.
    pub(crate) sign: Sign,
    /// The thing in words.
    pub(crate) what: String,
    /// The task.
    pub(crate) task: Option<StreamId>,
    /// The time since when it is so.
    pub(crate) since: Option<Timestamp>,
    /// The call.
    pub(crate) call: Option<Box<CallRow>>,
    /// The commands that end it, as typed after the program's name.
    pub(crate) commands: Vec<String>,
    /// The advice where no command ends it.
    pub(crate) advice: Option<String>,
    /// The whole arguments.
    pub(crate) args: Option<JsonText>,
}

impl InboxRow {
    /// Returns the row of what needs attention, with its call.
    pub(crate) fn new(row: AttentionRow, call: Option<CallRow>) -> Self {
        use taskreel_log::views::Attention;
        let sign = match row.kind {
            Attention::Approval | Attention::Question | Attention::Input | Attention::Unknown => Sign::Asks,
            _ => Sign::Failed,
        };
        Self {
            kind: row.kind.as_str().to_owned(),
            sign,
            what: row.what,
            task: row.task,
            since: row.since,
            call: call.map(Box::new),
            commands: row.commands,
            advice: row.advice,
            args: row.args,
        }
    }

    /// Returns the row of a call that waits for nobody.
    pub(crate) fn in_flight(call: CallRow) -> Self {
        Self {
            kind: call.status.to_owned(),
            sign: Sign::Open,
            what: format!("{} {} waits for {}", call.kind, call.target, call.waits_for),
            task: Some(call.stream.clone()),
            since: Some(call.since),
            commands: Vec::new(),
            advice: call.next_step.clone().map(|next| format!("when a process resumes the task: {next}")),
            args: Some(call.args.clone()),
            call: Some(Box::new(call)),
        }
    }

    /// Whether the row stands for the same thing as another one that was read later.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let id = |row: &Self| row.call.as_ref().map(|call| call.call_id.clone());
        self.kind == other.kind && self.task == other.task && id(self) == id(other)
    }
}

/// Two runs beside each other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ComparedRuns {
    /// The streams.
    pub(crate) streams: (StreamId, StreamId),
    /// The names.
    pub(crate) names: (String, String),
    /// The numbers of their events.
    pub(crate) events: (u64, u64),
    /// The steps.
    pub(crate) steps: Vec<AlignedStep>,
    /// The prompts of both, where the runs part.
    pub(crate) prompts: Vec<PromptPair>,
}

/// The kinds of drawings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrawingKind {
    /// The sequence diagram.
    Sequence,
    /// The tree of causes.
    Trace,
}

/// A drawing in lines, each with the version that it tells of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LineDrawing {
    /// The title.
    pub(crate) title: String,
    /// The lines.
    pub(crate) lines: Vec<(ScreenLine, Option<EventRef>)>,
}
