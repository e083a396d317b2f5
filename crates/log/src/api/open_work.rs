//! Open work: whether a record leaves its stream with work that continues. The one rule that writer, index
//! and readers share.

use std::borrow::Cow;

use proto_events::codec::record::{EventView, RecordView};
use proto_events::codec::{kind, state_after};
use proto_events::id::Category;
use proto_events::model::TaskState;

/// The effect of a record on its stream's open work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkChange {
    /// The work is unchanged.
    Unchanged,
    /// The stream has open work.
    Opened,
    /// The stream has no open work.
    Ended,
}

/// Returns the effect of a record on its stream's open work: the last event that sets the task's state
/// decides. `body_of` returns the body of that event, whose number in the record it is given; `undecodable`
/// makes an error of the reason why an event cannot be decoded.
pub(crate) fn work_change<'a, E>(
    record: &RecordView<'a>,
    body_of: impl FnOnce(usize, &EventView<'a>) -> Result<Cow<'a, [u8]>, E>,
    undecodable: impl Fn(String) -> E,
) -> Result<WorkChange, E> {
    if Category::from_stream(record.stream) != Some(Category::Task) {
        return Ok(WorkChange::Unchanged);
    }
    let mut last = None;
    for (number, event) in record.events().enumerate() {
        let event = event.map_err(|error| undecodable(error.to_string()))?;
        if matches!(event.kind, kind::SUBMITTED | kind::STATE_CHANGED) {
            last = Some((number, event));
        }
    }
    let Some((number, event)) = last else { return Ok(WorkChange::Unchanged) };
    let body = body_of(number, &event)?;
    let state =
        state_after(event.kind, event.schema, &body).map_err(|error| undecodable(error.to_string()))?;
    Ok(if state.is_none_or(|state| state == TaskState::Working) {
        WorkChange::Opened
    } else {
        WorkChange::Ended
    })
}

/// Returns the effect of a record on its stream's open work from the record's own bytes. A record that cannot
/// be decoded, or whose deciding body is in chunks, counts as open: a needless check costs a moment, a
/// missed one leaves a task unfinished.
pub(crate) fn work_change_in(record: &RecordView<'_>) -> WorkChange {
    let change = work_change(record, |_, event| event.body.map(Cow::Borrowed).ok_or(()), |_| ());
    change.unwrap_or(WorkChange::Opened)
}
