//! The differences between two states of a task or session, in the domain's words: two versions of one
//! stream, or the same stream in two logs.

use proto_events::call::{Call, CallBook};
use proto_events::id::Digest;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, LlmMessage, LlmRole, Message};
use proto_events::session::{OpenTurn, Session};
use proto_events::task::{StateChange, Task};
use proto_events::tool_store::ToolStore;

use crate::audit::call_json::call_json;
use crate::audit::difference::first_difference;
use crate::audit::json::{number, object, one_line, text};
use crate::audit::words::{call_name, parts, status_text};

/// The subject of a change.
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
    /// Any other field that readers see.
    Field,
}

/// The kind of a change, seen from the first state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// Present in the second state only.
    Added,
    /// Present in the first state only.
    Gone,
    /// Present in both states with different values.
    Changed,
    /// A call was intended and owes its outcome.
    Opened,
    /// A call got its outcome.
    Closed,
}

/// A single change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The subject of the change.
    pub area: Area,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The changed item: an id, a number, a key or a digest.
    pub which: String,
    /// The new value, or the old one if the item is gone, in words.
    pub words: String,
    /// The item in the first state; none if it is not in it.
    pub before: Option<JsonText>,
    /// The item in the second state; none if it is not in it.
    pub after: Option<JsonText>,
}

impl Area {
    /// Returns the area's name.
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

impl ChangeKind {
    /// Returns the name of this kind of change.
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

fn change(area: Area, how: ChangeKind, which: impl Into<String>, words: impl Into<String>) -> Change {
    Change { area, kind: how, which: which.into(), words: words.into(), before: None, after: None }
}

impl Change {
    /// Returns the change with the item in the first state and in the second one.
    fn of(self, before: Option<JsonText>, after: Option<JsonText>) -> Self {
        Self { before, after, ..self }
    }

    /// Returns the change with an item that is in one state only.
    fn of_one(self, item: JsonText) -> Self {
        if self.kind == ChangeKind::Gone { self.of(Some(item), None) } else { self.of(None, Some(item)) }
    }
}

/// Returns the changes from one state of a task to another.
pub fn diff_tasks(before: &Task, after: &Task) -> Vec<Change> {
    let mut changes = lifecycle(before, after);
    let message = |message: &Message| ListedMessage {
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

/// Returns the changes from one state of a session to another. The messages of an open turn count as part of
/// the conversation: committing the turn changes none of them, aborting it removes them.
pub fn diff_sessions(before: &Session, after: &Session) -> Vec<Change> {
    let mut changes = turns(before, after);
    let (old, new) = (system_prompt(before), system_prompt(after));
    if old.map(|prompt| &prompt.content) != new.map(|prompt| &prompt.content) {
        let how = match (old, new) {
            (None, _) => ChangeKind::Added,
            (_, None) => ChangeKind::Gone,
            _ => ChangeKind::Changed,
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

/// Returns the changes from one state of a tool to another.
pub fn diff_tools(before: &ToolStore, after: &ToolStore) -> Vec<Change> {
    let mut changes = Vec::new();
    for (key, old) in before.list("").filter(|(key, _)| after.get(key).is_none()) {
        changes
            .push(change(Area::Key, ChangeKind::Gone, key, one_line(&old.value)).of_one(old.value.clone()));
    }
    for (key, new) in after.list("") {
        let shown = one_line(&new.value);
        match before.get(key) {
            None => changes.push(change(Area::Key, ChangeKind::Added, key, shown).of_one(new.value.clone())),
            Some(old) if old.value != new.value => {
                let words = format!("{shown}, was {}", one_line(&old.value));
                let values = (Some(old.value.clone()), Some(new.value.clone()));
                changes.push(change(Area::Key, ChangeKind::Changed, key, words).of(values.0, values.1));
            }
            Some(old) if old.version != new.version => {
                let words = format!("{shown}, written again at version {}", new.version);
                let values = (Some(old.value.clone()), Some(new.value.clone()));
                changes.push(change(Area::Key, ChangeKind::Changed, key, words).of(values.0, values.1));
            }
            Some(_) => {}
        }
    }
    changes
}

/// The leading system message: that of the open turn, otherwise the history's.
fn system_prompt(session: &Session) -> Option<&LlmMessage> {
    let open = session.open_turn().and_then(|open| open.system_prompt.as_ref());
    open.or_else(|| session.history().as_slice().first().filter(|first| first.role == LlmRole::System))
}

/// All messages but the leading system message.
fn conversation(session: &Session) -> Vec<ListedMessage> {
    let history = session.history().as_slice();
    let led = history.first().is_some_and(|first| first.role == LlmRole::System);
    let open = session.open_turn().map_or(&[][..], |open| open.turn.messages());
    let all = history.iter().skip(usize::from(led)).chain(open.iter().map(|message| &message.message));
    let item = |message: &LlmMessage| ListedMessage {
        which: None,
        json: message.to_json(),
        words: format!("{}: {}", message.role, message.content),
    };
    all.map(item).collect()
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
            .of_one(object([
                ("from", text(step.from.as_str())),
                ("to", text(step.to.as_str())),
                ("at", text(&step.at.to_string())),
            ]))
        };
        steps.map(row).collect::<Vec<_>>()
    };
    let mut changes = steps(ChangeKind::Gone, before);
    changes.extend(steps(ChangeKind::Added, after));
    if changes.is_empty() && before.state() != after.state() {
        let words = format!("{}, was {}", after.state(), before.state());
        let state = |task: &Task| Some(text(task.state().as_str()));
        let found = change(Area::Lifecycle, ChangeKind::Changed, "state", words);
        changes.push(found.of(state(before), state(after)));
    }
    changes
}

/// A message of a task or of a conversation.
struct ListedMessage {
    which: Option<String>,
    json: JsonText,
    words: String,
}

fn messages(before: &[ListedMessage], after: &[ListedMessage]) -> Vec<Change> {
    let mut changes = Vec::new();
    for at in 0..before.len().max(after.len()) {
        let row = |how, item: &ListedMessage, words: String| {
            let number = format!("{}", at + 1);
            let which = item.which.as_ref().map_or(number.clone(), |id| format!("{number} {id}"));
            change(Area::Message, how, which, words)
        };
        match (before.get(at), after.get(at)) {
            (Some(old), Some(new)) if old.json == new.json => {}
            (Some(old), Some(new)) => {
                let path = first_difference(&old.json.tree(), &new.json.tree())
                    .map_or_else(String::new, |found| format!("   ({}: was {})", found.path, found.left));
                let found = row(ChangeKind::Changed, new, format!("{}{path}", new.words));
                changes.push(found.of(Some(old.json.clone()), Some(new.json.clone())));
            }
            (None, Some(new)) => {
                changes.push(row(ChangeKind::Added, new, new.words.clone()).of_one(new.json.clone()));
            }
            (Some(old), None) => {
                changes.push(row(ChangeKind::Gone, old, old.words.clone()).of_one(old.json.clone()));
            }
            (None, None) => {}
        }
    }
    changes
}

/// Compares artifacts by the digest of their contents; equal ones are counted.
fn artifacts(before: &Task, after: &Task) -> Vec<Change> {
    let rows = |task: &Task| {
        let row = |artifact: &Artifact| {
            let json = artifact.to_json();
            (Digest::of(json.as_str().as_bytes()), parts(&artifact.parts), json)
        };
        task.artifacts().iter().map(row).collect::<Vec<_>>()
    };
    let (left, mut right) = (rows(before), rows(after));
    let mut changes = Vec::new();
    for (digest, words, json) in left {
        if let Some(at) = right.iter().position(|(there, ..)| *there == digest) {
            right.remove(at);
        } else {
            let gone = change(Area::Artifact, ChangeKind::Gone, digest.to_string(), words);
            changes.push(gone.of_one(json));
        }
    }
    let added = |(digest, words, json): (Digest, String, JsonText)| {
        change(Area::Artifact, ChangeKind::Added, digest.to_string(), words).of_one(json)
    };
    changes.extend(right.into_iter().map(added));
    changes
}

fn calls(before: &CallBook, after: &CallBook) -> Vec<Change> {
    let row = |how, call: &Call, words: String| change(Area::Call, how, &call.request.call_id, words);
    let told = |call: &Call| format!("{}, {}", call_name(&call.request), status_text(call));
    // The outcome has a row of its own; an open call's status follows its intent.
    let asked = |call: &Call| {
        let (args, mode) = (one_line(&call.request.args), call.request.recovery.as_str());
        format!("{} {args} ({mode})", call_name(&call.request))
    };
    let mut changes = Vec::new();
    for call in before.iter().filter(|call| after.get(&call.request.call_id).is_none()) {
        changes.push(row(ChangeKind::Gone, call, told(call)).of_one(call_json(call)));
    }
    for call in after.iter() {
        match before.get(&call.request.call_id) {
            None if call.status.is_open() => {
                let words = format!("{}, {}", asked(call), status_text(call));
                changes.push(row(ChangeKind::Opened, call, words).of_one(call_json(call)));
            }
            None => {
                changes.push(row(ChangeKind::Opened, call, asked(call)).of_one(call_json(call)));
                changes.push(row(ChangeKind::Closed, call, told(call)).of_one(call_json(call)));
            }
            Some(old) if old == call => {}
            Some(old) if old.status.is_open() && !call.status.is_open() => {
                let closed = row(ChangeKind::Closed, call, told(call));
                changes.push(closed.of(Some(call_json(old)), Some(call_json(call))));
            }
            Some(old) => {
                let words = format!("{}, was {}", told(call), status_text(old));
                let found = row(ChangeKind::Changed, call, words);
                changes.push(found.of(Some(call_json(old)), Some(call_json(call))));
            }
        }
    }
    changes
}

fn metadata(before: &JsonObject, after: &JsonObject) -> Vec<Change> {
    let mut changes = Vec::new();
    for (key, old) in before.iter() {
        match after.get(key) {
            None => {
                changes
                    .push(change(Area::Metadata, ChangeKind::Gone, key, one_line(old)).of_one(old.clone()));
            }
            Some(new) if new != old => {
                let words = format!("{}, was {}", one_line(new), one_line(old));
                let found = change(Area::Metadata, ChangeKind::Changed, key, words);
                changes.push(found.of(Some(old.clone()), Some(new.clone())));
            }
            Some(_) => {}
        }
    }
    for (key, new) in after.iter().filter(|(key, _)| before.get(key).is_none()) {
        changes.push(change(Area::Metadata, ChangeKind::Added, key, one_line(new)).of_one(new.clone()));
    }
    changes
}

fn turns(before: &Session, after: &Session) -> Vec<Change> {
    let mut changes = Vec::new();
    let (old, new) = (before.open_turn(), after.open_turn());
    let id = |open: Option<&OpenTurn>| open.map(|open| open.turn_id.clone());
    if id(old) != id(new) {
        for (how, open) in [(ChangeKind::Gone, old), (ChangeKind::Added, new)] {
            if let Some(open) = open {
                let words = format!("open, for {}", open.task);
                let turn = object([("turn_id", text(&open.turn_id)), ("task", text(&open.task))]);
                changes.push(change(Area::Turn, how, &open.turn_id, words).of_one(turn));
            }
        }
    }
    if before.commits() != after.commits() {
        let words = format!("{}, were {}", after.commits(), before.commits());
        let found = change(Area::Turn, ChangeKind::Changed, "committed", words);
        changes.push(found.of(Some(number(before.commits())), Some(number(after.commits()))));
    }
    changes
}

/// A change in a field that no area above covers.
fn field(before: &JsonText, after: &JsonText) -> Option<Change> {
    let found = first_difference(&before.tree(), &after.tree())?;
    let words = format!("{}, was {}", found.right, found.left);
    let (left, right) = (text(&found.left), text(&found.right));
    Some(change(Area::Field, ChangeKind::Changed, found.path, words).of(Some(left), Some(right)))
}
