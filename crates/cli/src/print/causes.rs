//! The direct causes of events, named by the places of earlier events: what a list shows, it can be followed in.

use std::collections::{HashMap, VecDeque};

use proto_events::call::CallEvent;
use proto_events::codec::AnyEvent;
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;
use taskreel_log::views::EventRow;

/// The number of calls and turns that are remembered: causes are rarely farther back.
const REMEMBERED: usize = 10_000;

/// The places of calls and turns in a list, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Causes {
    places: HashMap<String, String>,
    order: VecDeque<String>,
}

impl Causes {
    /// Remembers the id that later events may name as their cause; `place` is the event's in the list.
    pub(crate) fn record(&mut self, row: &EventRow, place: String) {
        let id = match &row.event {
            Ok(AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request)))) => &request.call_id,
            Ok(AnyEvent::Task(TaskEvent::ApprovalRequested(asked))) => &asked.approval_id,
            Ok(AnyEvent::Session(SessionEvent::TurnStarted { turn_id, .. })) => turn_id,
            _ => return,
        };
        if self.places.insert(id.clone(), place).is_none() {
            self.order.push_back(id.clone());
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.places.remove(&oldest);
        }
    }

    /// Returns the cause of an event: the place of an earlier call or turn, the end of its id where that is not in the
    /// list, the start, or a caller. Commands take the end of an id for the id.
    pub(crate) fn cause(&self, row: &EventRow) -> String {
        let id = row.causation_id.as_str();
        if id.is_empty() {
            return "caller".to_owned();
        }
        match (self.places.get(id), id.split_once('_'), id.rsplit_once('_')) {
            (Some(place), Some((kind, _)), _) => format!("{kind} {place}"),
            (Some(place), None, _) => place.clone(),
            (None, Some((kind, _)), Some((_, end))) if id.len() > 13 => format!("{kind} {end}"),
            _ => id.chars().take(13).collect(),
        }
    }
}
