//! The rows of R7's table, and the cells that a run has met.

use std::collections::BTreeMap;

use proto_events::envelope::RecordedEvent;
use proto_events::task::TaskEvent;

/// A row of R7: the last event of a call in the log when its process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Row {
    /// The call was requested and never sent.
    RequestedOnly,
    /// The call was sent and has no outcome.
    InFlight,
    /// The call has its outcome.
    OutcomePresent,
    /// The call waits for a person's answer.
    Asked,
    /// The call was canceled while in flight: not a case of recovery, but a row of the table.
    CanceledInFlight,
}

/// The number of times each cell of R7's table was reached, by row and recovery mode.
pub type Cells = BTreeMap<(Row, &'static str), usize>;

/// Whether two events of one stream were written together: they then have the same command and the same time.
pub(crate) fn same_append(one: &RecordedEvent<TaskEvent>, other: &RecordedEvent<TaskEvent>) -> bool {
    one.metadata.command_id == other.metadata.command_id && one.metadata.at == other.metadata.at
}
