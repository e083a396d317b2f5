//! The parts of the state.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use proto_events::id::{Position, Version};
use taskreel_log::views::{LogUse, RunCursor, RunFilter};

use crate::opened_log::Typed;
use crate::tui::ask::StreamList;
use crate::tui::data::{ComparedRuns, Content, EventRef, InboxRow, StreamPage, StreamRow, Tab};
use crate::tui::line::ScreenLine;
use crate::tui::model::list::List;
use crate::tui::tree::{ContentRow, Folds};

/// The seconds of the rate that are kept.
const RATE_SECONDS: usize = 60;

/// The pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// All that waits.
    Inbox,
    /// Streams, events, details.
    Run,
    /// Two runs.
    Compare,
}

/// The panes of the page of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pane {
    /// The streams.
    Streams,
    /// The events.
    Events,
    /// The details.
    Detail,
    /// The time bar.
    Time,
}

impl Pane {
    /// All panes, from left to right.
    pub(crate) const ALL: [Self; 4] = [Self::Streams, Self::Events, Self::Detail, Self::Time];
}

/// Work outside of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// A text for the clipboard.
    Copy(String),
    /// A place for the browser.
    Browse(EventRef),
    /// A screen that is drawn anew.
    Redraw,
    /// The end.
    Quit,
}

/// The log, as it is named.
#[derive(Clone)]
pub(crate) struct LogSource {
    /// The name.
    pub(crate) name: String,
    /// The use by a program.
    pub(crate) used: LogUse,
    /// The address of the server that has it.
    pub(crate) url: Option<String>,
    /// The reason why only a part of it can be read.
    pub(crate) note: Option<String>,
    /// The name of the other log, of which the second run of a comparison is.
    pub(crate) other: Option<String>,
    /// The way to type commands about it.
    pub(crate) typed: Typed,
}

impl fmt::Debug for LogSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSource").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The end of the log.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// The last position.
    pub(crate) head: u64,
    /// The program that writes.
    pub(crate) writer: Option<String>,
    /// The reason why the end cannot be read.
    pub(crate) fault: Option<String>,
    /// The last position when following was paused.
    pub(crate) paused_at: Option<u64>,
    /// The time of the last look.
    pub(crate) at: Duration,
    /// The events of each of the last seconds.
    pub(crate) rates: VecDeque<u64>,
    second: u64,
    is_known: bool,
}

impl Live {
    /// Notes the last position; returns whether it was not known before.
    pub(crate) fn record_head(&mut self, head: u64, at: Duration) -> bool {
        let is_first = !std::mem::replace(&mut self.is_known, true);
        let new = if is_first { 0 } else { head.saturating_sub(self.head) };
        let passed = at.as_secs().saturating_sub(self.second).min(RATE_SECONDS as u64);
        self.second = at.as_secs();
        for _ in 0..passed {
            self.rates.push_back(0);
        }
        if self.rates.is_empty() {
            self.rates.push_back(0);
        }
        if let Some(last) = self.rates.back_mut() {
            *last = last.saturating_add(new);
        }
        while self.rates.len() > RATE_SECONDS {
            self.rates.pop_front();
        }
        self.head = head;
        is_first
    }

    /// Returns the events a second over the last ten seconds.
    pub(crate) fn rate(&self) -> u64 {
        let counted = self.rates.len().clamp(1, 10) as u64;
        self.rates.iter().rev().take(10).sum::<u64>() / counted
    }

    /// Returns the number of events since following was paused.
    pub(crate) fn new_events(&self) -> Option<u64> {
        self.paused_at.map(|paused| self.head.saturating_sub(paused))
    }
}

/// The place of a list of which nothing was read yet.
pub(crate) const END: Position = Position(u64::MAX);

/// The list of streams.
#[derive(Debug)]
pub(crate) struct StreamsPane {
    /// The streams that are listed.
    pub(crate) listed: StreamList,
    /// The rows.
    pub(crate) rows: Vec<StreamRow>,
    /// The place before which no task was looked at for them.
    pub(crate) reached: Position,
    /// The place of the next page.
    pub(crate) next: Option<RunCursor>,
    /// The end of the log when the first page was read, if it has a next one.
    pub(crate) as_of: Option<Position>,
    /// The chosen row.
    pub(crate) list: List,
    /// The reason why the log cannot be read from end to end.
    pub(crate) damage: Option<String>,
    /// The filter, as it was typed.
    pub(crate) typed: String,
}

impl Default for StreamsPane {
    fn default() -> Self {
        Self {
            listed: StreamList::Tasks(RunFilter::default()),
            rows: Vec::new(),
            reached: END,
            next: None,
            as_of: None,
            list: List::default(),
            damage: None,
            typed: String::new(),
        }
    }
}

impl StreamsPane {
    /// Takes the first page. Further pages stay where they are certain to be what follows it.
    pub(crate) fn take_first(&mut self, page: StreamPage) {
        let StreamPage { rows, next, .. } = page;
        // Where the page reaches back behind the end that the log had then, it has all tasks that have changed since. Of a filter
        // a task may have fallen out.
        let meets = next.zip(self.as_of).is_some_and(|(next, as_of)| next.before <= as_of);
        let old = std::mem::replace(&mut self.rows, rows);
        self.as_of = next.map(|next| next.as_of);
        if !self.add(if meets && !self.is_filtered() { old } else { Vec::new() }) {
            self.goes_on_at(next);
        }
    }

    /// Takes a further page. A task that has changed since the first one stands in the list already.
    pub(crate) fn take_further(&mut self, page: StreamPage) {
        self.goes_on_at(page.next);
        self.add(page.rows);
    }

    fn goes_on_at(&mut self, next: Option<RunCursor>) {
        self.next = next;
        self.reached = next.map_or(Position(0), |next| next.before);
    }

    /// Whether only some tasks are listed.
    pub(crate) fn is_filtered(&self) -> bool {
        self.listed != StreamList::Tasks(RunFilter::default())
    }

    /// Adds the rows of streams that are not listed. Returns whether there are any.
    fn add(&mut self, mut rows: Vec<StreamRow>) -> bool {
        let listed: HashSet<_> = self.rows.iter().map(|row| row.stream().clone()).collect();
        rows.retain(|row| !listed.contains(row.stream()));
        let is_any = !rows.is_empty();
        self.rows.extend(rows);
        is_any
    }
}

/// The details of an event.
#[derive(Debug, Default)]
pub(crate) struct DetailPane {
    /// The tab.
    pub(crate) tab: Tab,
    /// The event, the tab and the mark that the contents belong to.
    pub(crate) of: Option<(EventRef, Tab, Option<Version>)>,
    /// The contents.
    pub(crate) content: Arc<Content>,
    /// The contents in rows.
    pub(crate) rows: Vec<ContentRow>,
    /// The chosen row.
    pub(crate) list: List,
    /// The values that were opened or folded, by tab.
    pub(crate) folds: HashMap<Tab, Folds>,
    /// The width that the rows were made for.
    pub(crate) width: usize,
}

/// The page of all that waits.
#[derive(Debug, Default)]
pub(crate) struct InboxPage {
    /// The rows.
    pub(crate) rows: Vec<InboxRow>,
    /// The reason why they cannot be read.
    pub(crate) fault: Option<String>,
    /// Whether they were read at all.
    pub(crate) is_read: bool,
    /// The chosen row.
    pub(crate) list: List,
    /// The number of times that they were read.
    pub(crate) readings: u64,
    /// The lines about the chosen row, whole.
    pub(crate) lines: Vec<ScreenLine>,
    /// The reading, the row and the width that the lines were made for.
    pub(crate) lines_of: Option<(u64, usize, u16)>,
    /// The first of these lines on the screen.
    pub(crate) top: usize,
    /// Whether the arguments of the chosen row were on the screen to their end.
    pub(crate) is_seen: bool,
}

/// The page of two runs.
#[derive(Debug, Default)]
pub(crate) struct ComparePage {
    /// The runs.
    pub(crate) runs: Option<Box<ComparedRuns>>,
    /// The chosen step.
    pub(crate) list: List,
}
