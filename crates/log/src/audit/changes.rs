//! The changes between two states: how one is told, and the first ones of any number.

use proto_events::json::JsonText;

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

/// The first changes between two states. Two versions of a long task have tens of thousands, of which a reader looks at a few.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FirstChanges {
    /// The first changes, in the order in which all would stand.
    pub changes: Vec<Change>,
    /// The number of all changes.
    pub count: usize,
    limit: usize,
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

impl Change {
    pub(super) fn new(
        area: Area,
        kind: ChangeKind,
        which: impl Into<String>,
        words: impl Into<String>,
    ) -> Self {
        Self { area, kind, which: which.into(), words: words.into(), before: None, after: None }
    }

    /// Returns the change with the item in the first state and in the second one.
    pub(super) fn with_values(self, before: Option<JsonText>, after: Option<JsonText>) -> Self {
        Self { before, after, ..self }
    }

    /// Returns the change with an item that is in one state only.
    pub(super) fn of_one(self, item: JsonText) -> Self {
        if self.kind == ChangeKind::Gone {
            self.with_values(Some(item), None)
        } else {
            self.with_values(None, Some(item))
        }
    }
}

impl FirstChanges {
    /// Returns the place for at most this many changes.
    pub(super) const fn with_states(limit: usize) -> Self {
        Self { changes: Vec::new(), count: 0, limit }
    }

    /// Counts a change, and makes it if it is among the first ones.
    pub(super) fn push(&mut self, change: impl FnOnce() -> Change) {
        self.count += 1;
        if self.changes.len() < self.limit {
            self.changes.push(change());
        }
    }

    /// Counts changes that are made already.
    pub(super) fn extend(&mut self, changes: impl IntoIterator<Item = Change>) {
        changes.into_iter().for_each(|change| self.push(|| change));
    }
}
