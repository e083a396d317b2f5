//! The inbox: all that waits for somebody or is wrong, then the calls that wait for nobody.

use proto_events::id::StreamId;
use taskreel_log::api::{EventReader, ReadError};
use taskreel_log::ports::{Clock as _, SystemClock};
use taskreel_log::views::{LogUse, attention, unsettled};

use crate::tui::data::InboxRow;

/// Reads the inbox. Where the log cannot be read from end to end, the reason is the answer.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub(super) fn inbox(log: &dyn EventReader, used: LogUse) -> Result<Vec<InboxRow>, ReadError> {
    let now = SystemClock.now();
    let found = attention(log, used, now)?;
    let mut calls = unsettled(log, None, now)?.rows;
    let mut rows: Vec<InboxRow> = Vec::new();
    for row in found.rows {
        let is_it =
            |task: &StreamId, id: &str| row.task.as_ref() == Some(task) && row.call_id.as_deref() == Some(id);
        let at = calls.iter().position(|call| is_it(&call.stream, &call.call_id));
        let call = at.map(|at| calls.remove(at));
        rows.push(InboxRow::new(row, call));
    }
    rows.extend(calls.into_iter().map(InboxRow::in_flight));
    Ok(rows)
}
