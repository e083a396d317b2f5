//! The layout of a causation graph: one row for each event, and lanes in which lines lead from causes to what they caused.

use std::collections::BTreeSet;

use crate::views::causes::event::CausedEvent;

/// An event in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LanePlace {
    /// The lane; those beyond the last one share it.
    pub(super) lane: usize,
    /// The row and the lane of the cause.
    pub(super) cause: Option<(usize, usize)>,
    /// Whether it caused something further down.
    pub(super) goes_on: bool,
    /// Whether its cause has caused something further down still.
    pub(super) cause_goes_on: bool,
}

/// Lays events out in at most `lanes` lanes. The last event of a cause takes over its lane, others open the first free one.
pub(super) fn layout(events: &[CausedEvent], lanes: usize) -> Vec<LanePlace> {
    let last_lane = lanes.max(1) - 1;
    let mut last_of = vec![None; events.len()];
    for (row, event) in events.iter().enumerate() {
        if let Some(last) = event.cause.and_then(|cause| last_of.get_mut(cause)) {
            *last = Some(row);
        }
    }
    let mut free: BTreeSet<usize> = (0..lanes.max(1)).collect();
    // The number of lines in the last lane, which may be more than one.
    let mut places: Vec<LanePlace> = Vec::with_capacity(events.len());
    for (row, event) in events.iter().enumerate() {
        let cause = event.cause.and_then(|cause| Some((cause, places.get(cause)?.lane)));
        let ends_cause = cause.is_some_and(|(cause, _)| last_of.get(cause) == Some(&Some(row)));
        let lane = match cause {
            Some((_, lane)) if ends_cause => lane,
            _ => free.pop_first().unwrap_or(last_lane),
        };
        let goes_on = last_of.get(row).is_some_and(Option::is_some);
        if !goes_on {
            free.insert(lane);
        }
        places.push(LanePlace { lane, cause, goes_on, cause_goes_on: cause.is_some() && !ends_cause });
    }
    places
}
