//! The entries that an event adds to a transcript.

use std::collections::HashMap;

use proto_events::call::CallEvent;
use proto_events::codec::AnyEvent;
use proto_events::json::{JsonText, JsonValue};
use proto_events::model::{LlmMessage, LlmRole, Message};
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;
use proto_events::turn::TurnMessage;

use crate::audit::json::one_line;
use crate::audit::words::parts_text;
use crate::views::event_row::EventRow;
use crate::views::transcript::entry::{Speaker, TranscriptEntry};

/// The note on an answer without a known end.
const WITHOUT_REASON: &str = "the provider gave no reason for the end of this answer: it may be cut off";

/// Turns events into entries, in their order.
#[derive(Default)]
pub(super) struct EntryWriter {
    /// The task that holds the turn.
    task: Option<String>,
    /// The tools of calls that have no answer yet.
    tools: HashMap<String, String>,
    /// The system prompt that was shown last, which each turn may set again.
    prompt: String,
}

impl EntryWriter {
    pub(super) fn entries(&mut self, row: &EventRow) -> Vec<TranscriptEntry> {
        match &row.event {
            Ok(AnyEvent::Session(event)) => self.session(row, event),
            Ok(AnyEvent::Task(event)) => self.task(row, event),
            Ok(_) => Vec::new(),
            Err(error) => vec![self.note_entry(row, &format!("an event cannot be read: {error}"))],
        }
    }

    fn session(&mut self, row: &EventRow, event: &SessionEvent) -> Vec<TranscriptEntry> {
        match event {
            SessionEvent::TurnStarted { task, .. } => {
                self.task = Some(task.clone());
                Vec::new()
            }
            SessionEvent::SystemPromptSet(prompt) if self.prompt == prompt.content => Vec::new(),
            SessionEvent::SystemPromptSet(prompt) => {
                self.prompt.clone_from(&prompt.content);
                vec![self.message_entry(row, Speaker::System, &prompt.content)]
            }
            SessionEvent::MessageAppended(message) => self.message(row, message),
            SessionEvent::TurnCommitted { .. } => {
                self.task = None;
                Vec::new()
            }
            SessionEvent::TurnAborted { reason, .. } => {
                let note = self.note_entry(
                    row,
                    &format!("the turn was aborted, and what it said is no part of the history: {reason}"),
                );
                self.task = None;
                vec![note]
            }
            SessionEvent::HistoryCompacted(compacted) => {
                let mut entries = vec![self.note_entry(
                    row,
                    &format!("the {} oldest messages of the history were removed", compacted.removed),
                )];
                entries.extend(
                    compacted.summary.as_ref().map(|summary| self.llm(row, Speaker::System, summary)),
                );
                entries
            }
            SessionEvent::Cleared { messages } => {
                vec![self.note_entry(row, &format!("the history was cleared: {messages} messages"))]
            }
            SessionEvent::Opened { .. }
            | SessionEvent::SummaryRequested(_)
            | SessionEvent::SummaryReceived { .. }
            | SessionEvent::SummaryFailed { .. } => Vec::new(),
        }
    }

    fn task(&mut self, row: &EventRow, event: &TaskEvent) -> Vec<TranscriptEntry> {
        self.task = Some(row.stream.to_string());
        match event {
            TaskEvent::Submitted(posted) => {
                posted.messages.iter().map(|message| self.posted(row, message)).collect()
            }
            TaskEvent::MessageAppended(message) => vec![self.posted(row, message)],
            TaskEvent::InferMessageAppended(message) => self.message(row, message),
            TaskEvent::ArtifactAppended { artifact, .. }
            | TaskEvent::ArtifactPartAppended { artifact, .. } => {
                vec![self.message_entry(row, Speaker::Model, &parts_text(&artifact.parts))]
            }
            TaskEvent::Call(CallEvent::Asked { question, .. }) => {
                vec![self.note_entry(row, &format!("a person is asked: {question}"))]
            }
            _ => Vec::new(),
        }
    }

    fn posted(&self, row: &EventRow, message: &Message) -> TranscriptEntry {
        let speaker = match message.role.as_deref() {
            Some("user") | None => Speaker::User,
            Some("system") => Speaker::System,
            Some(_) => Speaker::Model,
        };
        self.message_entry(row, speaker, &parts_text(&message.parts))
    }

    /// Returns the entries of a message to or from the model: a reply that asks for calls is one entry for each.
    fn message(&mut self, row: &EventRow, turn: &TurnMessage) -> Vec<TranscriptEntry> {
        let message = &turn.message;
        if let Some(answered) = &turn.answers {
            let tool = self
                .tools
                .remove(answered)
                .or_else(|| message.tool_name.clone())
                .or_else(|| message.name.clone());
            let text = result_in(&message.content).unwrap_or_else(|| message.content.clone());
            return vec![TranscriptEntry { tool, text, ..self.llm(row, Speaker::Result, message) }];
        }
        if message.role != LlmRole::Assistant {
            let speaker = if message.role == LlmRole::User { Speaker::User } else { Speaker::System };
            return vec![self.llm(row, speaker, message)];
        }
        if turn.asks.is_empty() {
            let text = final_in(&message.content).unwrap_or_else(|| message.content.clone());
            let answer = TranscriptEntry { text, ..self.llm(row, Speaker::Model, message) };
            let note = message.is_without_reason().then(|| self.note_entry(row, WITHOUT_REASON));
            return std::iter::once(answer).chain(note).collect();
        }
        let calls = calls_in(message);
        let mut entries = Vec::new();
        let said = message.content.trim();
        if !message.tool_calls.tree().as_array().is_none_or(Vec::is_empty) && !said.is_empty() {
            entries.push(self.llm(row, Speaker::Model, message));
        }
        for (at, id) in turn.asks.iter().enumerate() {
            let (tool, args) =
                calls.get(at).cloned().unwrap_or_else(|| (String::new(), message.content.clone()));
            self.tools.insert(id.clone(), tool.clone());
            let tool = Some(tool).filter(|tool| !tool.is_empty());
            entries.push(TranscriptEntry { tool, text: args, ..self.llm(row, Speaker::Call, message) });
        }
        entries
    }

    fn llm(&self, row: &EventRow, speaker: Speaker, message: &LlmMessage) -> TranscriptEntry {
        self.message_entry(row, speaker, &message.content)
    }

    fn note_entry(&self, row: &EventRow, text: &str) -> TranscriptEntry {
        self.message_entry(row, Speaker::Note, text)
    }

    fn message_entry(&self, row: &EventRow, speaker: Speaker, said: &str) -> TranscriptEntry {
        TranscriptEntry {
            speaker,
            tool: None,
            text: said.to_owned(),
            raw: said.to_owned(),
            stream: row.stream.clone(),
            version: row.version,
            at: row.at,
            task: self.task.clone(),
        }
    }
}

/// Returns the members of a message that is a JSON object of this type.
fn typed(content: &str, wanted: &str) -> Option<JsonValue> {
    let is_object = content.trim_start().starts_with('{');
    let value = is_object.then(|| JsonText::parse(content).ok()).flatten()?.tree();
    (value.get("type").and_then(JsonValue::as_str) == Some(wanted)).then_some(value)
}

fn plain(value: &JsonValue) -> String {
    value.as_str().map_or_else(|| one_line(&value.to_text()), str::to_owned)
}

/// Returns what a final reply says.
fn final_in(content: &str) -> Option<String> {
    typed(content, "final")?.get("content").map(plain)
}

/// Returns the result in the message that tells it to the model.
fn result_in(content: &str) -> Option<String> {
    let value = typed(content, "tool_result")?;
    value.get("result").or_else(|| value.get("error")).map(plain)
}

/// Returns the calls that a reply asks for, each with its arguments: the calls in the provider's own field, else the one in its text.
fn calls_in(message: &LlmMessage) -> Vec<(String, String)> {
    let of = |name: &JsonValue, args: &JsonValue| (plain(name), plain(args));
    let native = message.tool_calls.tree();
    let native = native.as_array().into_iter().flatten();
    let native: Vec<_> = native
        .filter_map(|call| {
            let function = call.get("function").unwrap_or(call);
            Some(of(function.get("name")?, function.get("arguments").or_else(|| function.get("args"))?))
        })
        .collect();
    if !native.is_empty() {
        return native;
    }
    let in_text = ["tool_call", "agent_call"].into_iter().find_map(|wanted| typed(&message.content, wanted));
    let name = |value: &JsonValue| value.get("tool").or_else(|| value.get("agent")).cloned();
    let args = |value: &JsonValue| value.get("args").cloned().unwrap_or(JsonValue::Null);
    in_text.and_then(|value| Some(of(&name(&value)?, &args(&value)))).into_iter().collect()
}
