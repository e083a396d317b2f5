//! The contents of a log in figures: its streams, its time span, and its tasks by their states.

use std::collections::BTreeMap;

use proto_events::envelope::Timestamp;
use proto_events::id::{Category, Position};
use proto_events::model::TaskState;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::read::for_each::{for_each_record, for_each_stream};
use crate::views::view::task_rows;

/// The contents of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogSummary {
    /// The position of the last event.
    pub head: Position,
    /// The number of records.
    pub records: u64,
    /// The number of streams.
    pub streams: u64,
    /// The number of sessions.
    pub sessions: u64,
    /// The number of tasks in each state.
    pub tasks: BTreeMap<&'static str, u64>,
    /// The number of tasks that a newer release wrote.
    pub newer: u64,
    /// The times of the first and the last record, by position.
    pub span: Option<(Timestamp, Timestamp)>,
}

/// Returns the contents of a log. Reads it twice.
///
/// # Errors
/// [`ReadError`] if it cannot be read.
pub fn log_summary(reader: &dyn EventReader) -> Result<LogSummary, ReadError> {
    let mut summary = LogSummary { head: reader.head()?, ..LogSummary::default() };
    for_each_stream(reader, "", |info| {
        summary.streams += 1;
        summary.sessions += u64::from(info.stream.category() == Some(Category::Session));
    })?;
    for_each_record(reader, Position(1), |stored| {
        summary.records += 1;
        let at = stored.record.metadata.at;
        summary.span = Some((summary.span.map_or(at, |(first, _)| first), at));
        Ok::<_, ReadError>(())
    })?;
    let rows = task_rows(reader)?;
    summary.newer = rows.newer.len() as u64;
    for row in rows.rows {
        let name: &'static str = TaskState::as_str(row.state);
        *summary.tasks.entry(name).or_default() += 1;
    }
    Ok(summary)
}
