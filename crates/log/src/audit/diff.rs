//! The differences between two states of a task or session, in the domain's words: two versions of one
//! stream, or the same stream in two logs.

use std::collections::HashMap;

use proto_events::call::{Call, CallBook};
use proto_events::id::Digest;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, LlmMessage, Message};
use proto_events::session::{OpenTurn, Session};
use proto_events::task::{StateChange, Task};
use proto_events::tool_store::ToolStore;

use crate::audit::call_json::call_json;
use crate::audit::changes::{Area, Change, ChangeKind, FirstChanges};
use crate::audit::difference::first_difference;
use crate::audit::json::{number, object, one_line, text};
use crate::audit::words::{call_name, parts_text, status_text};

fn change(area: Area, how: ChangeKind, which: impl Into<String>, words: impl Into<String>) -> Change {
    Change::new(area, how, which, words)
}

/// Returns the changes from one state of a task to another.
pub fn diff_tasks(before: &Task, after: &Task) -> Vec<Change> {
    first_changes(before, after, usize::MAX).changes
}

/// Returns the first changes from one state of a task to another, and how many there are: those beyond the limit are counted, and
/// cost little more than that.
pub fn first_changes(before: &Task, after: &Task, limit: usize) -> FirstChanges {
    let mut found = FirstChanges::with_states(limit);
    found.extend(lifecycle(before, after));
    let listed = |message: &Message| ListedMessage {
        which: message.id.clone(),
        json: message.to_json(),
        words: format!("{}: {}", message.role.as_deref().unwrap_or("nobody"), parts_text(&message.parts)),
    };
    let said: [Vec<&Message>; 2] = [before, after].map(|task| task.messages().iter().collect());
    let [old, new] = &said;
    messages((old, new), listed, &mut found);
    artifacts(before, after, &mut found);
    calls(before.calls(), after.calls(), &mut found);
    found.extend(metadata(before.metadata(), after.metadata()));
    if found.count == 0 && before != after {
        found.extend(field(&before.to_json(), &after.to_json()));
    }
    found
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
    let listed = |message: &LlmMessage| ListedMessage {
        which: None,
        json: message.to_json(),
        words: format!("{}: {}", message.role, message.content),
    };
    let mut said = FirstChanges::with_states(usize::MAX);
    messages((&conversation(before), &conversation(after)), listed, &mut said);
    changes.extend(said.changes);
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
                changes
                    .push(change(Area::Key, ChangeKind::Changed, key, words).with_values(values.0, values.1));
            }
            Some(old) if old.version != new.version => {
                let words = format!("{shown}, written again at version {}", new.version);
                let values = (Some(old.value.clone()), Some(new.value.clone()));
                changes
                    .push(change(Area::Key, ChangeKind::Changed, key, words).with_values(values.0, values.1));
            }
            Some(_) => {}
        }
    }
    changes
}

/// The leading system message: that of the open turn, otherwise the history's.
fn system_prompt(session: &Session) -> Option<&LlmMessage> {
    let open = session.open_turn().and_then(|open| open.system_prompt.as_ref());
    open.or_else(|| session.leading())
}

/// All messages but the leading system message.
fn conversation(session: &Session) -> Vec<&LlmMessage> {
    let open = session.open_turn().map_or(&[][..], |open| open.turn.messages());
    session.body().iter().chain(open.iter().map(|message| &message.message)).collect()
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
        changes.push(found.with_values(state(before), state(after)));
    }
    changes
}

/// A message of a task or of a conversation.
struct ListedMessage {
    which: Option<String>,
    json: JsonText,
    words: String,
}

/// Compares messages place by place. Only those that differ are put into words.
fn messages<T: PartialEq>(
    (before, after): (&[&T], &[&T]),
    listed: impl Fn(&T) -> ListedMessage,
    found: &mut FirstChanges,
) {
    for at in 0..before.len().max(after.len()) {
        let row = |how, item: &ListedMessage, words: String| {
            let number = format!("{}", at + 1);
            let which = item.which.as_ref().map_or(number.clone(), |id| format!("{number} {id}"));
            change(Area::Message, how, which, words)
        };
        let alone = |how, item: &T| {
            let item = listed(item);
            row(how, &item, item.words.clone()).of_one(item.json)
        };
        match (before.get(at), after.get(at)) {
            (Some(old), Some(new)) if old == new => {}
            (Some(old), Some(new)) => {
                let (old, new) = (listed(old), listed(new));
                if old.json != new.json {
                    found.push(|| {
                        let path = first_difference(&old.json.tree(), &new.json.tree())
                            .map_or_else(String::new, |found| {
                                format!("   ({}: was {})", found.path, found.left)
                            });
                        let changed = row(ChangeKind::Changed, &new, format!("{}{path}", new.words));
                        changed.with_values(Some(old.json), Some(new.json))
                    });
                }
            }
            (None, Some(new)) => found.push(|| alone(ChangeKind::Added, new)),
            (Some(old), None) => found.push(|| alone(ChangeKind::Gone, old)),
            (None, None) => {}
        }
    }
}

/// Compares artifacts by the digest of their contents; equal ones are counted.
fn artifacts(before: &Task, after: &Task, found: &mut FirstChanges) {
    // A task keeps its artifacts: mostly all that were there are there still, at the same places.
    let pairs = before.artifacts().iter().zip(after.artifacts());
    let same = pairs.take_while(|(old, new)| old == new).count();
    let digest = |artifact: &Artifact| Digest::compute(artifact.to_json().as_str().as_bytes());
    let told = |how, artifact: &Artifact| {
        let json = artifact.to_json();
        let which = Digest::compute(json.as_str().as_bytes()).to_string();
        change(Area::Artifact, how, which, parts_text(&artifact.parts)).of_one(json)
    };
    let gone: Vec<&Artifact> = before.artifacts().iter().skip(same).collect();
    let added = after.artifacts().iter().skip(same);
    if gone.is_empty() {
        return added.for_each(|artifact| found.push(|| told(ChangeKind::Added, artifact)));
    }
    let added: Vec<(Digest, &Artifact)> = added.map(|artifact| (digest(artifact), artifact)).collect();
    let mut there: HashMap<Digest, usize> = HashMap::new();
    for (digest, _) in &added {
        *there.entry(*digest).or_default() += 1;
    }
    let mut met: HashMap<Digest, usize> = HashMap::new();
    for artifact in gone {
        let digest = digest(artifact);
        match there.get_mut(&digest).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                *met.entry(digest).or_default() += 1;
            }
            None => found.push(|| told(ChangeKind::Gone, artifact)),
        }
    }
    for (digest, artifact) in added {
        match met.get_mut(&digest).filter(|left| **left > 0) {
            Some(left) => *left -= 1,
            None => found.push(|| told(ChangeKind::Added, artifact)),
        }
    }
}

fn calls(before: &CallBook, after: &CallBook, found: &mut FirstChanges) {
    let row = |how, call: &Call, words: String| change(Area::Call, how, &call.request.call_id, words);
    let told = |call: &Call| format!("{}, {}", call_name(&call.request), status_text(call));
    // The outcome has a row of its own; an open call's status follows its intent.
    let asked = |call: &Call| {
        let (args, mode) = (one_line(&call.request.args), call.request.recovery.as_str());
        format!("{} {args} ({mode})", call_name(&call.request))
    };
    for call in before.iter().filter(|call| after.get(&call.request.call_id).is_none()) {
        found.push(|| row(ChangeKind::Gone, call, told(call)).of_one(call_json(call)));
    }
    for call in after.iter() {
        match before.get(&call.request.call_id) {
            None if call.status.is_open() => found.push(|| {
                let words = format!("{}, {}", asked(call), status_text(call));
                row(ChangeKind::Opened, call, words).of_one(call_json(call))
            }),
            None => {
                found.push(|| row(ChangeKind::Opened, call, asked(call)).of_one(call_json(call)));
                found.push(|| row(ChangeKind::Closed, call, told(call)).of_one(call_json(call)));
            }
            Some(old) if old == call => {}
            Some(old) if old.status.is_open() && !call.status.is_open() => found.push(|| {
                let closed = row(ChangeKind::Closed, call, told(call));
                closed.with_values(Some(call_json(old)), Some(call_json(call)))
            }),
            Some(old) => found.push(|| {
                let words = format!("{}, was {}", told(call), status_text(old));
                let changed = row(ChangeKind::Changed, call, words);
                changed.with_values(Some(call_json(old)), Some(call_json(call)))
            }),
        }
    }
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
                changes.push(found.with_values(Some(old.clone()), Some(new.clone())));
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
        changes.push(found.with_values(Some(number(before.commits())), Some(number(after.commits()))));
    }
    changes
}

/// A change in a field that no area above covers.
fn field(before: &JsonText, after: &JsonText) -> Option<Change> {
    let found = first_difference(&before.tree(), &after.tree())?;
    let words = format!("{}, was {}", found.right, found.left);
    let (left, right) = (text(&found.left), text(&found.right));
    Some(change(Area::Field, ChangeKind::Changed, found.path, words).with_values(Some(left), Some(right)))
}

#[cfg(test)]
mod tests;
