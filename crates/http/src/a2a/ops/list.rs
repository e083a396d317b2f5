//! Listing tasks.

use std::str::FromStr as _;

use proto_events::envelope::Timestamp;
use proto_events::id::Position;
use proto_events::json::JsonText;
use proto_events::model::TaskState;
use taskreel::TaskQuery;

use crate::a2a::a2a_request::A2aRequest;
use crate::a2a::failure::A2aFailure;
use crate::a2a::model::State;
use crate::a2a::ops::tasks::history;
use crate::a2a::task_projection::{Extent, show_now};
use crate::a2a::wire::fields::{Invalid, WireFields};
use crate::a2a::wire::write::Members;
use crate::a2a::wire::{read, write};
use crate::limits::TASKS_PAGE_BYTES;

/// The tasks of a page where the client asks for no number.
const PAGE: i64 = 50;

/// The most tasks of a page, as A2A has it.
const PAGE_MAX: i64 = 100;

/// Returns a page of the caller's tasks, the one whose state changed last first.
pub(crate) async fn list(asking: &A2aRequest, fields: &WireFields) -> Result<JsonText, A2aFailure> {
    let size = fields.number("pageSize")?.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&size) {
        return Err(fields.wrong("pageSize", "must be from 1 to 100").into());
    }
    let limit = usize::try_from(size).unwrap_or_default();
    let after = fields.word("pageToken")?.map(|token| parse_page_token(&token, fields)).transpose()?;
    // A list shows no history unless it is asked for.
    let extent = Extent {
        history: Some(history(fields)?.unwrap_or_default()),
        artifacts: fields.flag("includeArtifacts")?.unwrap_or(false),
    };
    let query = query(asking, fields)?;
    // Taken before anything is read: a page that nobody takes is not made.
    let room = asking.room(TASKS_PAGE_BYTES).await?;
    let found = query.newest(after, limit).await?;
    let mut tasks: Vec<JsonText> = Vec::with_capacity(found.tasks.len());
    let mut bytes = 0;
    let mut next = found.next;
    for (index, info) in found.tasks.iter().enumerate() {
        let snapshot = asking.system.state_at(&info.id, info.version).await?;
        let task = write::task(asking.form, &show_now(&snapshot, extent));
        bytes += task.as_str().len();
        tasks.push(task);
        if bytes >= TASKS_PAGE_BYTES && index + 1 < found.tasks.len() {
            next = Some((info.since, info.submitted_at));
            break;
        }
    }
    drop(room);
    let next = next.map(|(since, place)| format!("{}-{}", since.0, place.0)).unwrap_or_default();
    let number = |number: usize| JsonText::of_model(&number);
    Ok(Members::default()
        .json("tasks", JsonText::of_model(&tasks))
        .text("nextPageToken", &next)
        .json("pageSize", number(limit))
        .json("totalSize", number(found.total))
        .end())
}

/// Returns the place that a token names.
fn parse_page_token(token: &str, fields: &WireFields) -> Result<(Timestamp, Position), Invalid> {
    let read = || {
        let (since, place) = token.split_once('-')?;
        Some((Timestamp(since.parse().ok()?), Position(place.parse().ok()?)))
    };
    read().ok_or_else(|| fields.wrong("pageToken", "must be the nextPageToken of another page"))
}

fn query(asking: &A2aRequest, fields: &WireFields) -> Result<TaskQuery, A2aFailure> {
    // A task behind a message that was the whole answer is not the client's.
    let mut query = asking.system.tasks().replied(false);
    if let Some(owner) = asking.owner() {
        query = query.submitted_by(owner.clone());
    }
    if let Some(context) = fields.word("contextId")? {
        query = query.conversation(context);
    }
    if fields.get("status").is_some() {
        query = match read::state(asking.form, fields, "status")? {
            State::Unspecified => query,
            State::Submitted => query.in_state(TaskState::Submitted),
            State::Working => query.in_state(TaskState::Working),
            State::Completed => query.in_state(TaskState::Completed),
            State::Canceled => query.in_state(TaskState::Canceled),
            State::InputRequired => query.in_state(TaskState::InputRequired).needing_auth(false),
            State::Failed => query.in_state(TaskState::Failed).rejected(false),
            State::AuthRequired => query.in_state(TaskState::InputRequired).needing_auth(true),
            State::Rejected => query.in_state(TaskState::Failed).rejected(true),
        };
    }
    let name = if fields.get("statusTimestampAfter").is_some() {
        "statusTimestampAfter"
    } else {
        "lastUpdatedAfter"
    };
    if let Some(time) = fields.word(name)? {
        let time =
            jiff::Timestamp::from_str(&time).map_err(|_| fields.wrong(name, "must be a time of ISO 8601"))?;
        query = query.since(Timestamp(time.as_microsecond()));
    }
    Ok(query)
}
