//! Rows made from the log: plain data, printed by others. Their JSON form has a `schema` field; fields may be
//! added, never renamed.

use proto_events::call::Call;
use proto_events::envelope::Timestamp;
use proto_events::id::{Category, Position, StreamId};
use proto_events::json::JsonText;
use proto_events::model::TaskState;
use proto_events::session::Session;
use proto_events::task::Task;
use proto_events::tool_store::ToolStore;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::api::record::StreamInfo;
use crate::audit::json::{call_kind, number, object, text, text_or_null};
use crate::read::fold::{FoldedStream, fold_stream};
use crate::views::find::streams;
use crate::views::readable::Readable;
use crate::views::rows::{IN_ORDER_FROM, rows_of, rows_of_some};
use crate::views::task_rows::{OutlinedTask, outlined};

/// A task in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskRow {
    /// The task's stream.
    pub stream: StreamId,
    /// The caller's id.
    pub id: String,
    /// The task's state.
    pub state: TaskState,
    /// The session that the task names, if any.
    pub session: Option<String>,
    /// The number of events.
    pub events: u64,
    /// The time when the last event was accepted.
    pub last_at: Timestamp,
    /// The position of the last event.
    pub last_position: Position,
    /// The reason why the task waits; none if it is over.
    pub waiting_for: Option<String>,
    /// The reason why the task failed.
    pub error: Option<String>,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionRow {
    /// The session's stream.
    pub stream: StreamId,
    /// The caller's id.
    pub id: String,
    /// The number of messages in the committed history.
    pub messages: usize,
    /// The number of committed turns.
    pub turns: u64,
    /// The task that owns the open turn.
    pub turn_of: Option<String>,
    /// The number of events.
    pub events: u64,
    /// The time when the last event was accepted.
    pub last_at: Timestamp,
    /// The position of the last event.
    pub last_position: Position,
}

/// A tool's state in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolRow {
    /// The tool's stream.
    pub stream: StreamId,
    /// The tool's name.
    pub name: String,
    /// The number of keys.
    pub keys: usize,
    /// The total size of all keys and values in bytes.
    pub bytes: usize,
    /// The number of events.
    pub events: u64,
    /// The time when the last event was accepted.
    pub last_at: Timestamp,
    /// The position of the last event.
    pub last_position: Position,
}

/// Returns a task's row.
///
/// # Errors
/// [`ReadError`] if its stream cannot be read.
pub fn task_row(reader: &dyn EventReader, info: &StreamInfo) -> Result<TaskRow, ReadError> {
    Ok(TaskRow::new(&info.stream, &fold_stream::<Task>(reader, &info.stream, None)?))
}

/// Returns a session's row.
///
/// # Errors
/// [`ReadError`] if its stream cannot be read.
pub fn session_row(reader: &dyn EventReader, info: &StreamInfo) -> Result<SessionRow, ReadError> {
    Ok(SessionRow::new(&info.stream, &fold_stream::<Session>(reader, &info.stream, None)?))
}

/// Returns the row of a tool's state.
///
/// # Errors
/// [`ReadError`] if its stream cannot be read.
pub fn tool_row(reader: &dyn EventReader, info: &StreamInfo) -> Result<ToolRow, ReadError> {
    Ok(ToolRow::new(&info.stream, &fold_stream::<ToolStore>(reader, &info.stream, None)?))
}

/// Returns the rows of all tasks. A log of many tasks is read once, in its order.
///
/// # Errors
/// [`ReadError`] of the first task that cannot be read; those that a newer release wrote are left out and named.
pub fn task_rows(reader: &dyn EventReader) -> Result<Readable<TaskRow>, ReadError> {
    let infos = streams(reader, Category::Task.prefix())?;
    let mut rows = Vec::new();
    let left = if infos.len() < IN_ORDER_FROM {
        infos
    } else {
        outlined(reader, infos, &mut |info, task| rows.push(TaskRow::outlined(info, task)))
    };
    let mut found = rows_of_some(reader, (Category::Task, left), TaskRow::new)?;
    found.rows.append(&mut rows);
    Ok(found)
}

/// Returns the rows of all sessions, as [`task_rows`] does.
///
/// # Errors
/// As [`task_rows`].
pub fn session_rows(reader: &dyn EventReader) -> Result<Readable<SessionRow>, ReadError> {
    rows_of(reader, Category::Session, SessionRow::new)
}

/// Returns the rows of all tools that have state, as [`task_rows`] does.
///
/// # Errors
/// As [`task_rows`].
pub fn tool_rows(reader: &dyn EventReader) -> Result<Readable<ToolRow>, ReadError> {
    rows_of(reader, Category::Tool, ToolRow::new)
}

impl TaskRow {
    /// Returns the row of a task that was folded.
    pub fn new(stream: &StreamId, folded: &FoldedStream<Task>) -> Self {
        let task = &folded.state;
        Self {
            id: stream.id(),
            state: task.state(),
            session: task.metadata().get("session_id").and_then(JsonText::to_str),
            events: folded.version.0,
            last_at: folded.last_at,
            last_position: folded.position,
            waiting_for: waiting_for(task),
            error: task.error(),
            stream: stream.clone(),
        }
    }
}

impl TaskRow {
    /// Returns the row of a task of which an outline was folded: it neither runs nor waits for a person.
    fn outlined(info: &StreamInfo, task: &OutlinedTask) -> Self {
        let state = task.outline.state();
        Self {
            id: info.stream.id(),
            state,
            session: task.outline.session().map(str::to_owned),
            events: task.version.0,
            last_at: task.last_at,
            last_position: task.position,
            waiting_for: (!state.is_terminal()).then(|| WAITS_TO_BEGIN.to_owned()),
            error: task.outline.error().map(str::to_owned),
            stream: info.stream.clone(),
        }
    }
}

impl SessionRow {
    /// Returns the row of a session that was folded.
    pub fn new(stream: &StreamId, folded: &FoldedStream<Session>) -> Self {
        let session = &folded.state;
        let open = session.open_turn().map(|open| open.task.clone());
        Self {
            id: stream.id(),
            messages: session.history().len(),
            turns: session.commits(),
            turn_of: open.map(|task| StreamId::parse(&task).map_or(task, |stream| stream.id())),
            events: folded.version.0,
            last_at: folded.last_at,
            last_position: folded.position,
            stream: stream.clone(),
        }
    }
}

impl ToolRow {
    /// Returns the row of a tool's state that was folded.
    pub fn new(stream: &StreamId, folded: &FoldedStream<ToolStore>) -> Self {
        Self {
            name: stream.id(),
            keys: folded.state.len(),
            bytes: folded.state.bytes(),
            events: folded.version.0,
            last_at: folded.last_at,
            last_position: folded.position,
            stream: stream.clone(),
        }
    }
}

/// The reason why a task waits that has not begun.
const WAITS_TO_BEGIN: &str = "a running process";

/// Describes why a task waits; none if it is over and the outcome of each of its calls is known.
pub fn waiting_for(task: &Task) -> Option<String> {
    let of = |call: &Call| format!("{} {}", call_kind(call.request.kind), call.request.target);
    let lost = || {
        let lost = task.lost_calls().last();
        lost.map(|call| format!("a person: what was the outcome of {}?", of(call)))
    };
    match task.state() {
        state if state.is_terminal() => lost(),
        TaskState::InputRequired => {
            if let Some(approval) = task.awaited_approvals().next() {
                return Some(format!("a person: approve the call of tool {}?", approval.request.tool));
            }
            Some(lost().unwrap_or_else(|| "a person".to_owned()))
        }
        TaskState::Working if task.is_held() => Some(match task.budget_stop() {
            Some((approval, over)) if approval.decision.is_none() => {
                format!("a person: go on beyond the budget? {over}")
            }
            _ => "a person: go on under the changed agent?".to_owned(),
        }),
        TaskState::Working => Some(match task.calls().open().next() {
            Some(call) => format!("{} ({})", of(call), call.status.as_str()),
            None => match task.awaited_approvals().next() {
                Some(approval) => format!("approval of tool {}", approval.request.tool),
                None => "its session's turn, or a running process".to_owned(),
            },
        }),
        _ => Some(WAITS_TO_BEGIN.to_owned()),
    }
}

impl TaskRow {
    /// Returns the row as JSON.
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
    /// Returns the row as JSON.
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
    /// Returns the row as JSON.
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
