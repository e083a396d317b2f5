//! A conversation, told event by event: what was said, by whom, in which task and for which call.

use std::collections::HashSet;

use proto_events::codec::AnyEvent;
use proto_events::id::StreamId;
use proto_events::session::SessionEvent;
use proto_events::turn::TurnMessage;
use taskreel_log::views::{EventRow, Summaries};

use crate::inspect::block::Block;
use crate::inspect::frame::Cx;
use crate::inspect::words::At;
use crate::limits::INSPECT_BLOCK_MAX;

/// A line of the conversation: a message, or what happened to it.
pub(crate) struct TalkLine {
    /// The name of its place on the page; empty where another line has it.
    pub(crate) place: String,
    pub(crate) class: &'static str,
    pub(crate) title: String,
    pub(crate) at: At,
    pub(crate) version: u64,
    pub(crate) url: String,
    pub(crate) block: Block,
    /// The task, the inference and the calls that it belongs to.
    pub(crate) links: Vec<(String, String)>,
}

/// The telling of a session's events in their order.
pub(crate) struct TalkReader<'a> {
    cx: &'a Cx,
    stream: &'a StreamId,
    /// The stream of the task that has the turn.
    task: Option<String>,
    /// The calls that were asked for and refused at once: the task has no record of them, so nothing can be linked.
    refused: HashSet<String>,
    summaries: Summaries,
}

impl<'a> TalkReader<'a> {
    /// Begins to tell of a session in which this task has the turn.
    pub(crate) fn new(cx: &'a Cx, stream: &'a StreamId, task: Option<String>) -> Self {
        Self { cx, stream, task, refused: HashSet::new(), summaries: Summaries::default() }
    }

    /// Looks through events that are told next for calls that were refused: an ask and its answer in one append.
    pub(crate) fn read_ahead(&mut self, rows: &[EventRow]) {
        let messages = || {
            rows.iter().filter_map(|row| match &row.event {
                Ok(AnyEvent::Session(SessionEvent::MessageAppended(message))) => Some((&row.set_id, message)),
                _ => None,
            })
        };
        let asked: HashSet<_> =
            messages().flat_map(|(set, message)| message.asks.iter().map(move |call| (set, call))).collect();
        let answered =
            messages().flat_map(|(set, message)| message.answers.iter().map(move |call| (set, call)));
        self.refused =
            answered.filter(|answer| asked.contains(answer)).map(|(_, call)| call.clone()).collect();
    }

    /// Tells of the next event.
    pub(crate) fn said(&mut self, row: &EventRow) -> TalkLine {
        let whole_at = self.cx.whole(self.stream, row.version);
        let before =
            self.cx.links.anchor(self.stream).map_or_else(String::new, |anchor| format!("{anchor}-"));
        let mut said = TalkLine {
            place: format!("{before}v{}", row.version),
            class: "note",
            title: row.kind.to_owned(),
            at: self.cx.at(row.at),
            version: row.version.0,
            url: self.cx.links.raw(self.stream, row.version),
            block: Block::within(&self.summaries.of(row), INSPECT_BLOCK_MAX, &whole_at),
            links: Vec::new(),
        };
        match &row.event {
            Ok(AnyEvent::Session(SessionEvent::MessageAppended(message))) => {
                said.message(message, &whole_at);
                self.links(message, &mut said);
            }
            Ok(AnyEvent::Session(SessionEvent::SystemPromptSet(prompt))) => {
                (said.class, said.title) = ("system", "system".to_owned());
                said.block = Block::within(&prompt.content, INSPECT_BLOCK_MAX, &whole_at);
            }
            Ok(AnyEvent::Session(SessionEvent::TurnStarted { task, .. })) => {
                self.task = Some(task.clone());
                if let Ok(task) = StreamId::parse(task) {
                    said.links.push((format!("task {}", task.id()), self.cx.links.stream(&task)));
                }
            }
            Ok(AnyEvent::Session(SessionEvent::TurnAborted { .. })) | Err(_) => said.class = "gone",
            Ok(AnyEvent::Session(SessionEvent::HistoryCompacted(compacted))) => {
                if let Some(summary) = &compacted.summary {
                    said.block = Block::within(&summary.content, INSPECT_BLOCK_MAX, &whole_at);
                }
            }
            _ => {}
        }
        said
    }

    fn links(&self, message: &TurnMessage, said: &mut TalkLine) {
        let Some(task) = self.task.as_deref().and_then(|task| StreamId::parse(task).ok()) else { return };
        let to_call = |call: &str| self.cx.links.call(&task, call);
        said.links.push((format!("task {}", task.id()), self.cx.links.stream(&task)));
        if let Some(call) = &message.infer_call {
            said.links.push(("inference".to_owned(), to_call(call)));
        }
        for call in message.asks.iter().chain(&message.answers).filter(|call| !self.refused.contains(*call)) {
            said.links.push(("call".to_owned(), to_call(call)));
        }
    }
}

impl TalkLine {
    fn message(&mut self, message: &TurnMessage, whole_at: &str) {
        let role = message.message.role.as_str();
        self.class = match role {
            "user" => "user",
            "assistant" => "assistant",
            "tool" => "tool",
            _ => "system",
        };
        self.title = match (&message.message.tool_name, &message.message.name) {
            (Some(name), _) | (None, Some(name)) => format!("{role} {name}"),
            _ if message.message.is_without_reason() => {
                format!("{role}, ended without a reason: it may be cut off")
            }
            _ => role.to_owned(),
        };
        self.block = Block::within(&message.message.content, INSPECT_BLOCK_MAX, whole_at);
    }
}
