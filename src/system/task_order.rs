//! The order of an agent's tasks by the time of their last change of state: what a page of the newest tasks costs does not grow
//! with the number of all tasks.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use proto_events::envelope::{Principal, Timestamp};
use proto_events::id::Position;
use proto_events::model::TaskState;

/// The place of a task in the order.
pub(crate) type Place = (Timestamp, Position);

/// The end of a run as its handler names it, beside the state of the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum NamedEnd {
    Nothing,
    /// The work was refused.
    Rejected,
    /// Credentials are needed.
    AuthRequired,
    /// A message is all of the answer.
    Replied,
}

/// The tasks that are one for every condition but those on times and conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    /// The address of the one copy of the principal who submitted them.
    by: usize,
    pub(crate) state: TaskState,
    pub(crate) named: NamedEnd,
}

impl Group {
    pub(crate) fn new(by: &Arc<Principal>, state: TaskState, named: NamedEnd) -> Self {
        Self { by: Arc::as_ptr(by).addr(), state, named }
    }

    /// Whether this principal submitted the tasks.
    pub(crate) fn is_by(&self, by: &Arc<Principal>) -> bool {
        self.by == Arc::as_ptr(by).addr()
    }
}

/// The places of all tasks, in groups, and of those that name a conversation other than their own.
#[derive(Debug, Default)]
pub(crate) struct TaskOrder {
    groups: HashMap<Group, BTreeSet<Place>>,
    conversations: HashMap<String, BTreeSet<Position>>,
}

impl TaskOrder {
    /// Moves a task from where it was to where it is.
    pub(crate) fn move_to(&mut self, before: Option<(Group, Place)>, after: (Group, Place)) {
        if before == Some(after) {
            return;
        }
        if let Some((group, place)) = before
            && let Some(places) = self.groups.get_mut(&group)
        {
            places.remove(&place);
        }
        self.groups.entry(after.0).or_default().insert(after.1);
    }

    /// Notes the conversation that a task names in place of another one.
    pub(crate) fn converse(&mut self, task: Position, before: Option<&str>, after: Option<&str>) {
        if before == after {
            return;
        }
        if let Some(before) = before
            && let Some(places) = self.conversations.get_mut(before)
        {
            places.remove(&task);
        }
        if let Some(after) = after {
            self.conversations.entry(after.to_owned()).or_default().insert(task);
        }
    }

    /// Returns the tasks that name a conversation other than their own, oldest first.
    pub(crate) fn of_conversation(&self, conversation: &str) -> impl DoubleEndedIterator<Item = Position> {
        self.conversations.get(conversation).into_iter().flatten().copied()
    }

    /// Returns the newest places of the groups that are wanted, from a time on and before a place, the last one first, at most
    /// `limit`; and the number of all of them, without regard to the place.
    pub(crate) fn newest(
        &self,
        is_wanted: impl Fn(&Group) -> bool,
        since: Option<Timestamp>,
        before: Option<Place>,
        limit: usize,
    ) -> (Vec<Place>, usize) {
        let first = (since.unwrap_or(Timestamp(i64::MIN)), Position(0));
        let (mut found, mut total) = (Vec::new(), 0);
        for (_, places) in self.groups.iter().filter(|(group, _)| is_wanted(group)) {
            total += if since.is_some() { places.range(first..).count() } else { places.len() };
            let newest: Box<dyn Iterator<Item = &Place>> = match before {
                Some(before) if before <= first => continue,
                Some(before) => Box::new(places.range(first..before).rev()),
                None => Box::new(places.range(first..).rev()),
            };
            found.extend(newest.take(limit).copied());
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.truncate(limit);
        (found, total)
    }
}
