//! The events that a page which follows the log wants: by the filter of its address, judged on the server. An event that only names its
//! call is judged by what an earlier event of its stream said of it, which is read when the stream is first met.

use std::collections::HashSet;
use std::ops::ControlFlow;

use proto_events::id::{StreamId, Version};
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::read::for_each_page_of;
use taskreel_log::views::{EventRow, Filter, KindsOf, Selection, Term, event_rows};

use crate::error::Problem;
use crate::inspect::page_request::{Query, conditions};

/// A filter of events, and what it has learned.
#[derive(Debug)]
pub(crate) struct EventFilter {
    tasks: Vec<String>,
    not_tasks: Vec<String>,
    selection: Selection,
    /// The streams whose earlier events the selection knows.
    known: HashSet<StreamId>,
}

impl EventFilter {
    /// Reads the filter of a query: `kind`, `task`, `session`, `tool`, `agent`, `text`, and `not` with any of them.
    ///
    /// # Errors
    /// [`Problem`] if a condition or a kind is not valid.
    pub(crate) fn from_query(query: &Query) -> Result<Self, Problem> {
        let mut filter: Filter = query.filter()?;
        let mut not_tasks = Vec::new();
        for condition in query.texts("not").flat_map(conditions) {
            match condition.split_once('=') {
                Some(("task", id)) if !id.is_empty() => not_tasks.push(id.to_owned()),
                _ => {
                    let term = Term::parse(condition);
                    let term =
                        term.map_err(|error| Problem::malformed(format!("{error}; here also task=ID")))?;
                    filter.not.push(term);
                }
            }
        }
        filter.check_kinds(KindsOf::Events)?;
        Ok(Self {
            tasks: query.texts("task").map(str::to_owned).collect(),
            not_tasks,
            selection: Selection::new(filter),
            known: HashSet::new(),
        })
    }

    /// Whether everything is wanted.
    pub(crate) fn is_all(&self) -> bool {
        self.tasks.is_empty() && self.not_tasks.is_empty() && self.selection.is_empty()
    }

    /// Whether an event is wanted. Events of one stream are shown in their order.
    ///
    /// # Errors
    /// [`ReadError`] if the earlier events of its stream cannot be read.
    pub(crate) fn takes(&mut self, log: &dyn EventReader, row: &EventRow) -> Result<bool, ReadError> {
        if self.is_all() {
            return Ok(true);
        }
        let is_named = |ids: &[String]| {
            let id = row.stream.id();
            ids.iter().any(|asked| *asked == id || asked == row.stream.as_str())
        };
        if (!self.tasks.is_empty() && !is_named(&self.tasks)) || is_named(&self.not_tasks) {
            return Ok(false);
        }
        if self.selection.needs_order() && self.known.insert(row.stream.clone()) {
            self.learn(log, row)?;
        }
        Ok(self.selection.takes(row))
    }

    /// Shows the selection the events of a stream before this one.
    fn learn(&mut self, log: &dyn EventReader, row: &EventRow) -> Result<(), ReadError> {
        if row.version <= Version(1) {
            return Ok(());
        }
        for_each_page_of(log, &row.stream, Version(1), |page| {
            for earlier in page.iter().flat_map(event_rows) {
                if earlier.version >= row.version {
                    return Ok(ControlFlow::Break(()));
                }
                self.selection.takes(&earlier);
            }
            Ok::<_, ReadError>(ControlFlow::Continue(()))
        })
    }
}
