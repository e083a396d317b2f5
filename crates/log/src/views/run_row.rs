//! A task as a row of a list of runs.

use proto_events::call::{Call, CallStatus, Costs, TokenUsage};
use proto_events::envelope::Timestamp;
use proto_events::id::{StreamId, Version};
use proto_events::task::Task;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::read::fold::FoldedStream;
use crate::views::view::TaskRow;

/// A run in a list.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunRow {
    /// The task.
    pub task: TaskRow,
    /// The time of its first event.
    pub began_at: Timestamp,
    /// The time until which an open call may take, or its back-off lasts.
    pub waits_until: Option<Timestamp>,
    /// The number of calls.
    pub calls: u64,
    /// The number of calls that failed, or whose outcome is unknown.
    pub failed_calls: u64,
    /// The tokens of all calls.
    pub usage: TokenUsage,
    /// The cost of the calls, by currency.
    pub costs: Costs,
}

impl RunRow {
    /// Returns the row of a task that was folded.
    ///
    /// # Errors
    /// [`ReadError`] if its first record cannot be read.
    pub fn new(
        reader: &dyn EventReader,
        stream: &StreamId,
        folded: &FoldedStream<Task>,
    ) -> Result<Self, ReadError> {
        let task = &folded.state;
        let first = reader.read_stream(stream, Version(1), 1)?;
        let mut usage = TokenUsage { input_tokens: 0, output_tokens: 0 };
        for used in task.calls().iter().filter_map(|call| call.usage) {
            usage.input_tokens = usage.input_tokens.saturating_add(used.input_tokens);
            usage.output_tokens = usage.output_tokens.saturating_add(used.output_tokens);
        }
        let is_failed = |call: &&Call| matches!(call.status, CallStatus::Failed(_) | CallStatus::Unknown(_));
        Ok(Self {
            task: TaskRow::new(stream, folded),
            began_at: first.first().map_or(folded.last_at, |stored| stored.record.metadata.at),
            waits_until: task.calls().open().filter_map(waits_until).min(),
            calls: task.calls().iter().count() as u64,
            failed_calls: task.calls().iter().filter(is_failed).count() as u64,
            usage,
            costs: task.costs(),
        })
    }
}

/// Returns the time until which an open call may take, or its back-off lasts.
fn waits_until(call: &Call) -> Option<Timestamp> {
    match (&call.status, call.sent_at) {
        (CallStatus::RetryScheduled(due, _), _) => Some(*due),
        (CallStatus::Dispatched, Some(sent)) => Some(sent.plus_millis(call.request.timeout_ms)),
        _ => call.deadline(),
    }
}
