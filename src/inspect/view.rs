//! Rows made from the log: pure data, printed by whoever shows them. Their JSON form has a `schema` field;
//! fields may be added, never renamed.

use proto_events::call::{Call, CallStatus, Verdict};
use proto_events::codec::{AnyEvent, kind};
use proto_events::envelope::Timestamp;
use proto_events::id::{Position, StreamId, Version};
use proto_events::json::JsonText;
use proto_events::model::TaskState;
use proto_events::session::Session;
use proto_events::task::Task;
use proto_events::tool_store::ToolStore;

use crate::audit::export::basis;
use crate::audit::json::{call_kind, event_json, number, object, text, text_or_null};
use crate::store::fold::{Folded, fold_stream};
use crate::store::jsonl::hex;
use crate::store::{EventReader, ReadError, StoredRecord, StreamInfo};

/// One task in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// Its stream.
    pub stream: StreamId,
    /// The caller's id.
    pub id: String,
    /// Where it is in its life.
    pub state: TaskState,
    /// The session that it names, if any.
    pub session: Option<String>,
    /// How many events it has.
    pub events: u64,
    /// When its last event was accepted.
    pub last_at: Timestamp,
    /// Position of its last event.
    pub last_position: Position,
    /// What it waits for; nothing if it is over.
    pub waiting_for: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
}

/// One session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Its stream.
    pub stream: StreamId,
    /// The caller's id.
    pub id: String,
    /// Messages in its committed history.
    pub messages: usize,
    /// Turns committed.
    pub turns: u64,
    /// The task whose turn is going on.
    pub turn_of: Option<String>,
    /// How many events it has.
    pub events: u64,
    /// When its last event was accepted.
    pub last_at: Timestamp,
    /// Position of its last event.
    pub last_position: Position,
}

/// What one tool keeps, in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRow {
    /// Its stream.
    pub stream: StreamId,
    /// The tool's name.
    pub name: String,
    /// How many keys it has.
    pub keys: usize,
    /// Bytes of all keys and values.
    pub bytes: usize,
    /// How many events it has.
    pub events: u64,
    /// When its last event was accepted.
    pub last_at: Timestamp,
    /// Position of its last event.
    pub last_position: Position,
}

/// One event, with its place and its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRow {
    /// Its stream.
    pub stream: StreamId,
    /// Its place in the stream.
    pub version: Version,
    /// Its place in the log.
    pub position: Position,
    /// When its command was accepted.
    pub at: Timestamp,
    /// Its kind's number.
    pub kind_number: u16,
    /// Its kind's name.
    pub kind: &'static str,
    /// Version of the schema that it was written in.
    pub schema: u8,
    /// The command that appended it.
    pub command_id: String,
    /// What directly caused that; empty if a caller did.
    pub causation_id: String,
    /// The outside request that set it all off.
    pub correlation_id: String,
    /// Who.
    pub principal: String,
    /// `asserted` or `authenticated`.
    pub principal_basis: &'static str,
    /// The append that it is part of, in hexadecimal.
    pub set_id: String,
    /// What happened, or why it cannot be read.
    pub event: Result<AnyEvent, String>,
}

/// A task as listed.
///
/// # Errors
/// [`ReadError`] if its stream cannot be read.
pub fn task_row(reader: &dyn EventReader, info: &StreamInfo) -> Result<TaskRow, ReadError> {
    let folded = fold_stream::<Task>(reader, &info.stream, None)?;
    let task = &folded.state;
    Ok(TaskRow {
        id: info.stream.id(),
        state: task.state(),
        session: task.metadata().get("session_id").and_then(JsonText::to_str),
        events: folded.version.0,
        last_at: last_at(reader, &info.stream, &folded)?,
        last_position: folded.position,
        waiting_for: waiting_for(task),
        error: task.error(),
        stream: info.stream.clone(),
    })
}

/// A session as listed.
///
/// # Errors
/// [`ReadError`] if its stream cannot be read.
pub fn session_row(reader: &dyn EventReader, info: &StreamInfo) -> Result<SessionRow, ReadError> {
    let folded = fold_stream::<Session>(reader, &info.stream, None)?;
    let session = &folded.state;
    let open = session.open_turn().map(|open| open.task.clone());
    Ok(SessionRow {
        id: info.stream.id(),
        messages: session.history().len(),
        turns: session.commits(),
        turn_of: open.map(|task| StreamId::parse(&task).map_or(task, |stream| stream.id())),
        events: folded.version.0,
        last_at: last_at(reader, &info.stream, &folded)?,
        last_position: folded.position,
        stream: info.stream.clone(),
    })
}

/// What a tool keeps, as listed.
///
/// # Errors
/// [`ReadError`] if its stream cannot be read.
pub fn tool_row(reader: &dyn EventReader, info: &StreamInfo) -> Result<ToolRow, ReadError> {
    let folded = fold_stream::<ToolStore>(reader, &info.stream, None)?;
    Ok(ToolRow {
        name: info.stream.id(),
        keys: folded.state.len(),
        bytes: folded.state.bytes(),
        events: folded.version.0,
        last_at: last_at(reader, &info.stream, &folded)?,
        last_position: folded.position,
        stream: info.stream.clone(),
    })
}

fn last_at<D>(
    reader: &dyn EventReader,
    stream: &StreamId,
    folded: &Folded<D>,
) -> Result<Timestamp, ReadError> {
    let last = reader.read_stream(stream, folded.version, 1)?;
    Ok(last.first().map(|stored| stored.record.metadata.at).unwrap_or_default())
}

/// What a task waits for, in words; nothing if it is over.
pub fn waiting_for(task: &Task) -> Option<String> {
    let of = |call: &Call| format!("{} {}", call_kind(call.request.kind), call.request.target);
    match task.state() {
        state if state.is_terminal() => None,
        TaskState::InputRequired => {
            if let Some(approval) = task.awaited_approvals().next() {
                return Some(format!("a person: may tool {} be called?", approval.request.tool));
            }
            let lost = task.calls().iter().rev().find(|call| matches!(call.status, CallStatus::Unknown(_)));
            Some(match lost {
                Some(call) => format!("a person: what became of {}?", of(call)),
                None => "a person".to_owned(),
            })
        }
        TaskState::Working => Some(match task.calls().open().next() {
            Some(call) => format!("{} ({})", of(call), call.status.as_str()),
            None => match task.awaited_approvals().next() {
                Some(approval) => format!("approval of tool {}", approval.request.tool),
                None => "its session's turn, or a running process".to_owned(),
            },
        }),
        _ => Some("a running process".to_owned()),
    }
}

/// The events of a record.
pub fn event_rows(stored: &StoredRecord) -> Vec<EventRow> {
    let record = &stored.record;
    let metadata = &record.metadata;
    let places = (stored.position.0..).zip(record.first_version.0..);
    record
        .events
        .iter()
        .zip(places)
        .map(|(event, (position, version))| EventRow {
            stream: record.stream.clone(),
            version: Version(version),
            position: Position(position),
            at: metadata.at,
            kind_number: event.kind,
            kind: kind::name(event.kind),
            schema: event.schema,
            command_id: metadata.command_id.clone(),
            causation_id: metadata.causation_id.clone(),
            correlation_id: metadata.correlation_id.clone(),
            principal: metadata.principal.name.clone(),
            principal_basis: basis(stored),
            set_id: hex(&record.set_id),
            event: match event.body() {
                None => Err("its body is not in the log any more".to_owned()),
                Some(body) => AnyEvent::decode(record.stream.category(), event.kind, event.schema, body)
                    .map_err(|error| error.to_string()),
            },
        })
        .collect()
}

impl EventRow {
    /// The whole row, payload included.
    pub fn to_json(&self) -> JsonText {
        let (payload, error) = match &self.event {
            Ok(event) => (event_json(event), JsonText::null()),
            Err(error) => (JsonText::null(), text(error)),
        };
        object([
            ("schema", text("taskreel.event/1")),
            ("position", number(self.position.0)),
            ("stream", text(self.stream.as_str())),
            ("id", text(&self.stream.id())),
            ("version", number(self.version.0)),
            ("at", text(&self.at.to_string())),
            ("kind", text(self.kind)),
            ("kind_number", number(self.kind_number)),
            ("schema_version", number(self.schema)),
            ("command_id", text(&self.command_id)),
            ("causation_id", text(&self.causation_id)),
            ("correlation_id", text(&self.correlation_id)),
            ("principal", text(&self.principal)),
            ("principal_basis", text(self.principal_basis)),
            ("set_id", text(&self.set_id)),
            ("payload", payload),
            ("error", error),
        ])
    }
}

impl TaskRow {
    /// The row as JSON.
    pub fn to_json(&self) -> JsonText {
        object([
            ("schema", text("taskreel.task/1")),
            ("id", text(&self.id)),
            ("stream", text(self.stream.as_str())),
            ("state", text(self.state.as_str())),
            ("session", text_or_null(self.session.as_deref())),
            ("events", number(self.events)),
            ("last_at", text(&self.last_at.to_string())),
            ("last_position", number(self.last_position.0)),
            ("waiting_for", text_or_null(self.waiting_for.as_deref())),
            ("error", text_or_null(self.error.as_deref())),
        ])
    }
}

impl SessionRow {
    /// The row as JSON.
    pub fn to_json(&self) -> JsonText {
        object([
            ("schema", text("taskreel.session/1")),
            ("id", text(&self.id)),
            ("stream", text(self.stream.as_str())),
            ("messages", number(self.messages as u64)),
            ("turns", number(self.turns)),
            ("turn_of", text_or_null(self.turn_of.as_deref())),
            ("events", number(self.events)),
            ("last_at", text(&self.last_at.to_string())),
            ("last_position", number(self.last_position.0)),
        ])
    }
}

impl ToolRow {
    /// The row as JSON.
    pub fn to_json(&self) -> JsonText {
        object([
            ("schema", text("taskreel.tool/1")),
            ("name", text(&self.name)),
            ("stream", text(self.stream.as_str())),
            ("keys", number(self.keys as u64)),
            ("bytes", number(self.bytes as u64)),
            ("events", number(self.events)),
            ("last_at", text(&self.last_at.to_string())),
            ("last_position", number(self.last_position.0)),
        ])
    }
}

/// A call as JSON: what was intended and what became of it.
pub fn call_json(call: &Call) -> JsonText {
    let (result, error) = match &call.status {
        CallStatus::Succeeded(result) | CallStatus::Reconciled(Verdict::Landed(result)) => {
            (result.clone(), JsonText::null())
        }
        CallStatus::Failed(failure) => (JsonText::null(), text(&failure.message)),
        CallStatus::Unknown(why) | CallStatus::Abandoned(why) => (JsonText::null(), text(why)),
        _ => (JsonText::null(), JsonText::null()),
    };
    object([
        ("call_id", text(&call.request.call_id)),
        ("kind", text(call_kind(call.request.kind))),
        ("target", text(&call.request.target)),
        ("recovery", text(call.request.recovery.as_str())),
        ("args", call.request.args.clone()),
        ("attempts", number(call.attempts)),
        ("status", text(call.status.as_str())),
        ("result", result),
        ("error", error),
    ])
}
