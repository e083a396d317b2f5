//! What changed between two states of a task or session, in the domain's words: two versions of one stream, or the same
//! stream in two logs.

use proto_events::call::{Call, CallBook};
use proto_events::id::{Digest, StreamId, Version};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, LlmMessage, LlmRole, Message};
use proto_events::session::{OpenTurn, Session};
use proto_events::task::{StateChange, Task};
use proto_events::tool_store::ToolStore;

use super::difference::first_difference;
use super::json::one_line;
use super::words::{became, call_name, parts};
use crate::store::{EventReader, ReadError};

/// Records read at a time.
const PAGE_RECORDS: usize = 256;

/// What a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Area {
    /// The lifecycle of a task.
    Lifecycle,
    /// A message of a task, or of a conversation.
    Message,
    /// An artifact of a task.
    Artifact,
    /// A call.
    Call,
    /// A key of a task's metadata.
    Metadata,
    /// The turn of a session, or the turns committed.
    Turn,
    /// A key of a tool's state.
    Key,
    /// Anything else that readers see.
    Field,
}

/// How it changed, seen from the first state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum How {
    /// Only the second has it.
    Added,
    /// Only the first has it.
    Gone,
    /// Both have it, and it is another.
    Changed,
    /// A call was intended and owes its outcome.
    Opened,
    /// A call got its outcome.
    Closed,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What it is about.
    pub area: Area,
    /// How it changed.
    pub how: How,
    /// Which one: an id, a number, a key, a digest.
    pub which: String,
    /// What is there now, or was.
    pub words: String,
}

impl Area {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lifecycle => "lifecycle",
            Self::Message => "message",
            Self::Artifact => "artifact",
            Self::Call => "call",
            Self::Metadata => "metadata",
            Self::Turn => "turn",
            Self::Key => "key",
            Self::Field => "field",
        }
    }
}

impl How {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Gone => "gone",
            Self::Changed => "changed",
            Self::Opened => "opened",
            Self::Closed => "closed",
        }
    }
}

fn change(area: Area, how: How, which: impl Into<String>, words: impl Into<String>) -> Change {
    Change { area, how, which: which.into(), words: words.into() }
}

/// What changed from one state of a task to another.
pub fn diff_tasks(before: &Task, after: &Task) -> Vec<Change> {
    let mut changes = lifecycle(before, after);
    let message = |message: &Message| Item {
        which: message.id.clone(),
        json: message.to_json(),
        words: format!("{}: {}", message.role.as_deref().unwrap_or("nobody"), parts(&message.parts)),
    };
    let items = |task: &Task| task.messages().iter().map(message).collect::<Vec<_>>();
    changes.extend(messages(&items(before), &items(after)));
    changes.extend(artifacts(before, after));
    changes.extend(calls(before.calls(), after.calls()));
    changes.extend(metadata(before.metadata(), after.metadata()));
    if changes.is_empty() {
        changes.extend(field(&before.to_json(), &after.to_json()));
    }
    changes
}

/// What changed from one state of a session to another. The messages of an open turn are told as the conversation's,
/// so that its end changes none of them: a turn that is dropped takes them away.
pub fn diff_sessions(before: &Session, after: &Session) -> Vec<Change> {
    let mut changes = turns(before, after);
    let (old, new) = (system_prompt(before), system_prompt(after));
    if old.map(|prompt| &prompt.content) != new.map(|prompt| &prompt.content) {
        let how = match (old, new) {
            (None, _) => How::Added,
            (_, None) => How::Gone,
            _ => How::Changed,
        };
        let words = new.or(old).map(|prompt| prompt.content.clone()).unwrap_or_default();
        changes.push(change(Area::Message, how, "system prompt", words));
    }
    changes.extend(messages(&conversation(before), &conversation(after)));
    if changes.is_empty() {
        changes.extend(field(&before.history().to_json(), &after.history().to_json()));
    }
    changes
}

/// What changed from one state of a tool to another.
pub fn diff_tools(before: &ToolStore, after: &ToolStore) -> Vec<Change> {
    let mut changes = Vec::new();
    for (key, old) in before.list("").filter(|(key, _)| after.get(key).is_none()) {
        changes.push(change(Area::Key, How::Gone, key, one_line(&old.value)));
    }
    for (key, new) in after.list("") {
        let shown = one_line(&new.value);
        match before.get(key) {
            None => changes.push(change(Area::Key, How::Added, key, shown)),
            Some(old) if old.value != new.value => {
                let words = format!("{shown}, was {}", one_line(&old.value));
                changes.push(change(Area::Key, How::Changed, key, words));
            }
            Some(old) if old.version != new.version => {
                let words = format!("{shown}, written again at version {}", new.version);
                changes.push(change(Area::Key, How::Changed, key, words));
            }
            Some(_) => {}
        }
    }
    changes
}

/// The leading system message: that of the open turn, or the history's.
fn system_prompt(session: &Session) -> Option<&LlmMessage> {
    let open = session.open_turn().and_then(|open| open.system_prompt.as_ref());
    open.or_else(|| session.history().as_slice().first().filter(|first| first.role == LlmRole::System))
}

/// All messages but the leading system message.
fn conversation(session: &Session) -> Vec<Item> {
    let history = session.history().as_slice();
    let led = history.first().is_some_and(|first| first.role == LlmRole::System);
    let open = session.open_turn().map_or(&[][..], |open| open.turn.messages());
    let all = history.iter().skip(usize::from(led)).chain(open.iter().map(|message| &message.message));
    let item = |message: &LlmMessage| Item {
        which: None,
        json: message.to_json(),
        words: format!("{}: {}", message.role, message.content),
    };
    all.map(item).collect()
}

/// The first version at which the two logs have not the same record; none, if one has all that the other has.
///
/// # Errors
/// [`ReadError`] if one of them cannot be read.
pub fn first_other_record(
    one: &dyn EventReader,
    other: &dyn EventReader,
    stream: &StreamId,
) -> Result<Option<Version>, ReadError> {
    let mut next = Version(1);
    loop {
        let left = one.read_stream(stream, next, PAGE_RECORDS)?;
        let right = other.read_stream(stream, next, PAGE_RECORDS)?;
        let other = left.iter().zip(&right).find(|(left, right)| left.hash != right.hash);
        if let Some((stored, _)) = other {
            return Ok(Some(stored.record.first_version));
        }
        let pages = left.len().min(right.len());
        match left.get(..pages).and_then(|same| same.last()) {
            Some(stored) if pages == PAGE_RECORDS => next = Version(stored.record.last_version().0 + 1),
            _ => return Ok(None),
        }
    }
}

fn lifecycle(before: &Task, after: &Task) -> Vec<Change> {
    let path = |task: &Task| task.history().iter().map(|change| (change.from, change.to)).collect::<Vec<_>>();
    let (left, right) = (path(before), path(after));
    let same = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
    let steps = |how, task: &Task| {
        let steps = task.history().iter().enumerate().skip(same);
        let row = |(at, step): (usize, &StateChange)| {
            change(
                Area::Lifecycle,
                how,
                format!("{}", at + 1),
                format!("{} → {}   {}", step.from, step.to, step.at),
            )
        };
        steps.map(row).collect::<Vec<_>>()
    };
    let mut changes = steps(How::Gone, before);
    changes.extend(steps(How::Added, after));
    if changes.is_empty() && before.state() != after.state() {
        let words = format!("{}, was {}", after.state(), before.state());
        changes.push(change(Area::Lifecycle, How::Changed, "state", words));
    }
    changes
}

/// A message, whatever it is a message of.
struct Item {
    which: Option<String>,
    json: JsonText,
    words: String,
}

fn messages(before: &[Item], after: &[Item]) -> Vec<Change> {
    let mut changes = Vec::new();
    for at in 0..before.len().max(after.len()) {
        let row = |how, item: &Item, words: String| {
            let number = format!("{}", at + 1);
            let which = item.which.as_ref().map_or(number.clone(), |id| format!("{number} {id}"));
            change(Area::Message, how, which, words)
        };
        match (before.get(at), after.get(at)) {
            (Some(old), Some(new)) if old.json == new.json => {}
            (Some(old), Some(new)) => {
                let place = first_difference(&old.json.to_value(), &new.json.to_value())
                    .map_or_else(String::new, |found| format!("   ({}: was {})", found.place, found.left));
                changes.push(row(How::Changed, new, format!("{}{place}", new.words)));
            }
            (None, Some(new)) => changes.push(row(How::Added, new, new.words.clone())),
            (Some(old), None) => changes.push(row(How::Gone, old, old.words.clone())),
            (None, None) => {}
        }
    }
    changes
}

/// Artifacts are what they say: compared by digest, each as often as it is there.
fn artifacts(before: &Task, after: &Task) -> Vec<Change> {
    let rows = |task: &Task| {
        let row = |artifact: &Artifact| {
            (Digest::of(artifact.to_json().as_str().as_bytes()), parts(&artifact.parts))
        };
        task.artifacts().iter().map(row).collect::<Vec<_>>()
    };
    let (left, mut right) = (rows(before), rows(after));
    let mut changes = Vec::new();
    for (digest, words) in left {
        match right.iter().position(|(there, _)| *there == digest) {
            Some(at) => drop(right.remove(at)),
            None => changes.push(change(Area::Artifact, How::Gone, digest.to_string(), words)),
        }
    }
    let added =
        |(digest, words): (Digest, String)| change(Area::Artifact, How::Added, digest.to_string(), words);
    changes.extend(right.into_iter().map(added));
    changes
}

fn calls(before: &CallBook, after: &CallBook) -> Vec<Change> {
    let row = |how, call: &Call, words: String| change(Area::Call, how, &call.request.call_id, words);
    let told = |call: &Call| format!("{}, {}", call_name(&call.request), became(call));
    // What became of it has a row of its own, or stands behind the intent as long as it is open.
    let asked = |call: &Call| {
        let (args, mode) = (one_line(&call.request.args), call.request.recovery.as_str());
        format!("{} {args} ({mode})", call_name(&call.request))
    };
    let mut changes = Vec::new();
    for call in before.iter().filter(|call| after.get(&call.request.call_id).is_none()) {
        changes.push(row(How::Gone, call, told(call)));
    }
    for call in after.iter() {
        match before.get(&call.request.call_id) {
            None if call.status.is_open() => {
                changes.push(row(How::Opened, call, format!("{}, {}", asked(call), became(call))));
            }
            None => {
                changes.push(row(How::Opened, call, asked(call)));
                changes.push(row(How::Closed, call, told(call)));
            }
            Some(old) if old == call => {}
            Some(old) if old.status.is_open() && !call.status.is_open() => {
                changes.push(row(How::Closed, call, told(call)));
            }
            Some(old) => {
                changes.push(row(How::Changed, call, format!("{}, was {}", told(call), became(old))));
            }
        }
    }
    changes
}

fn metadata(before: &JsonObject, after: &JsonObject) -> Vec<Change> {
    let mut changes = Vec::new();
    for (key, old) in before.iter() {
        match after.get(key) {
            None => changes.push(change(Area::Metadata, How::Gone, key, one_line(old))),
            Some(new) if new != old => {
                let words = format!("{}, was {}", one_line(new), one_line(old));
                changes.push(change(Area::Metadata, How::Changed, key, words));
            }
            Some(_) => {}
        }
    }
    for (key, new) in after.iter().filter(|(key, _)| before.get(key).is_none()) {
        changes.push(change(Area::Metadata, How::Added, key, one_line(new)));
    }
    changes
}

fn turns(before: &Session, after: &Session) -> Vec<Change> {
    let mut changes = Vec::new();
    let (old, new) = (before.open_turn(), after.open_turn());
    let id = |open: Option<&OpenTurn>| open.map(|open| open.turn_id.clone());
    if id(old) != id(new) {
        for (how, open) in [(How::Gone, old), (How::Added, new)] {
            if let Some(open) = open {
                let words = format!("open, of {}", open.task);
                changes.push(change(Area::Turn, how, &open.turn_id, words));
            }
        }
    }
    if before.commits() != after.commits() {
        let words = format!("{}, were {}", after.commits(), before.commits());
        changes.push(change(Area::Turn, How::Changed, "committed", words));
    }
    changes
}

/// What readers see and no area above tells.
fn field(before: &JsonText, after: &JsonText) -> Option<Change> {
    let found = first_difference(&before.to_value(), &after.to_value())?;
    Some(change(Area::Field, How::Changed, found.place, format!("{}, was {}", found.right, found.left)))
}
