//! The stream that is open: its events in rows, the events of a call together, and the version that is looked at.

use std::collections::HashSet;
use std::sync::Arc;

use proto_events::id::{StreamId, Version};
use taskreel_log::views::Filter;

use crate::tui::data::{EventLine, EventRef, RunData};
use crate::tui::model::list::List;

/// A row of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventRow {
    /// An event that stands by itself.
    Event(usize),
    /// A call, with all of its events.
    Call(usize),
    /// An event of a call that is open.
    OfCall(usize),
}

/// A stream that is open.
#[derive(Debug)]
pub(crate) struct RunPane {
    /// The stream.
    pub(crate) stream: StreamId,
    /// The events and calls.
    pub(crate) data: Arc<RunData>,
    /// Whether they were read.
    pub(crate) is_read: bool,
    /// The version that is looked at.
    pub(crate) at: u64,
    /// The version to go to once the events are read.
    pub(crate) wanted: Option<u64>,
    /// The rows.
    pub(crate) rows: Vec<EventRow>,
    /// The chosen row.
    pub(crate) list: List,
    /// The calls that are open.
    pub(crate) open: HashSet<usize>,
    /// The filter of the events.
    pub(crate) filter: Filter,
    /// The filter, as it was typed.
    pub(crate) typed: String,
    /// The versions that hold the text that is searched for.
    pub(crate) found: Vec<u64>,
}

impl RunPane {
    /// Returns a stream that was not read yet.
    pub(crate) fn new(stream: StreamId, wanted: Option<u64>) -> Self {
        Self {
            stream,
            data: Arc::default(),
            is_read: false,
            at: wanted.unwrap_or_default(),
            wanted,
            rows: Vec::new(),
            list: List::default(),
            open: HashSet::new(),
            filter: Filter::default(),
            typed: String::new(),
            found: Vec::new(),
        }
    }

    /// Returns the place that is looked at; none of a stream without events.
    pub(crate) fn selected(&self) -> Option<EventRef> {
        (self.at > 0).then(|| EventRef { stream: self.stream.clone(), at: Version(self.at) })
    }

    /// Takes the events. The version stays, unless it was the last one and what is new is followed.
    pub(crate) fn accept_data(&mut self, data: RunData, is_followed: bool) {
        let was_at_end = self.at == self.data.end || self.at == 0;
        let is_first = !std::mem::replace(&mut self.is_read, true);
        self.data = Arc::new(data);
        self.at = match self.wanted.take() {
            Some(wanted) => wanted.clamp(1, self.data.end.max(1)),
            None if was_at_end && (is_followed || is_first) => self.data.end,
            None => self.at.min(self.data.end),
        };
        self.lay_out();
    }

    /// Makes the rows anew.
    pub(crate) fn lay_out(&mut self) {
        let (data, mut rows) = (Arc::clone(&self.data), Vec::new());
        for (at, event) in data.events.iter().enumerate() {
            let call = event.call.and_then(|call| Some((call, data.calls.get(call)?)));
            // An event alone needs no row for its call.
            let Some((number, call)) = call.filter(|(_, call)| call.events.len() > 1) else {
                if event.is_taken {
                    rows.push(EventRow::Event(at));
                }
                continue;
            };
            if call.events.first() != Some(&at) {
                continue;
            }
            let taken =
                call.events.iter().copied().filter(|at| self.event(*at).is_some_and(|it| it.is_taken));
            let taken: Vec<usize> = taken.collect();
            if taken.is_empty() {
                continue;
            }
            rows.push(EventRow::Call(number));
            if self.open.contains(&number) {
                rows.extend(taken.into_iter().map(EventRow::OfCall));
            }
        }
        self.rows = rows;
        self.follow_version();
    }

    /// Returns an event.
    pub(crate) fn event(&self, at: usize) -> Option<&EventLine> {
        self.data.events.get(at)
    }

    /// Returns the place of the event of a version.
    fn place_of(&self, version: u64) -> Option<usize> {
        self.data.events.binary_search_by_key(&version, |event| event.version).ok()
    }

    /// Returns the event that is looked at.
    pub(crate) fn current(&self) -> Option<&EventLine> {
        self.place_of(self.at).and_then(|at| self.event(at))
    }

    /// Chooses the row of the version that is looked at: its own, or that of its call; else the one before.
    pub(crate) fn follow_version(&mut self) {
        let Some(at) = self.place_of(self.at) else { return };
        let call = self.event(at).and_then(|event| event.call);
        let own = self.rows.iter().position(|row| match row {
            EventRow::Event(event) | EventRow::OfCall(event) => *event == at,
            EventRow::Call(number) => Some(*number) == call && !self.open.contains(number),
        });
        let before = || {
            self.rows.iter().rposition(|row| match row {
                EventRow::Event(event) | EventRow::OfCall(event) => *event <= at,
                EventRow::Call(number) => self
                    .data
                    .calls
                    .get(*number)
                    .and_then(|call| call.events.first())
                    .is_some_and(|first| *first <= at),
            })
        };
        if let Some(row) = own.or_else(before) {
            self.list.select(row);
        }
    }

    /// Looks at the version of the chosen row; of a call, at its last one.
    pub(crate) fn follow_row(&mut self) {
        let event = match self.rows.get(self.list.at) {
            Some(EventRow::Event(at) | EventRow::OfCall(at)) => Some(*at),
            Some(EventRow::Call(number)) => {
                self.data.calls.get(*number).and_then(|call| call.events.last()).copied()
            }
            None => None,
        };
        if let Some(version) = event.and_then(|at| self.event(at)).map(|event| event.version) {
            self.at = version;
        }
    }

    /// Goes to a version.
    pub(crate) fn select_version(&mut self, version: u64) {
        if !self.is_read {
            self.wanted = Some(version);
            return;
        }
        self.at = version.clamp(1, self.data.end.max(1)).min(self.data.end);
        self.follow_version();
    }

    /// Goes to the next version for which this holds, or to the one before. Returns whether there is one.
    pub(crate) fn seek(&mut self, is_back: bool, holds: impl Fn(&EventLine) -> bool) -> bool {
        let found = if is_back {
            self.data.events.iter().rev().find(|event| event.version < self.at && holds(event))
        } else {
            self.data.events.iter().find(|event| event.version > self.at && holds(event))
        };
        let version = found.map(|event| event.version);
        if let Some(version) = version {
            self.select_version(version);
        }
        version.is_some()
    }

    /// Opens or folds the events of the call of the chosen row.
    pub(crate) fn fold(&mut self) -> bool {
        let call = match self.rows.get(self.list.at) {
            Some(EventRow::Call(number)) => Some(*number),
            Some(EventRow::OfCall(at)) => self.event(*at).and_then(|event| event.call),
            _ => None,
        };
        let Some(call) = call else { return false };
        if !self.open.remove(&call) {
            self.open.insert(call);
        }
        self.lay_out();
        true
    }

    /// Opens the events of all calls, or folds them if one is open.
    pub(crate) fn fold_all(&mut self) {
        if self.open.is_empty() {
            self.open.extend(0..self.data.calls.len());
        } else {
            self.open.clear();
        }
        self.lay_out();
    }
}
