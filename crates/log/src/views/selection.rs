//! A filter applied to a log: events are shown to it in order, since an event may only name a call or a session that an
//! earlier one describes.

use std::borrow::Cow;
use std::collections::HashMap;

use proto_events::call::{CallEvent, CallKind, CallRequested};
use proto_events::codec::AnyEvent;
use proto_events::envelope::Timestamp;
use proto_events::id::{Category, StreamId};
use proto_events::json::{JsonObject, JsonText};
use proto_events::task::TaskEvent;

use crate::audit::json::{call_kind, event_json};
use crate::views::call_row::CallRow;
use crate::views::event_row::EventRow;
use crate::views::expression::Expression;
use crate::views::filter::{Field, Filter, FilterFacts, family, json_has, session_of};

/// The events of a log that a filter takes.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    filter: Filter,
    /// The condition that must hold too.
    condition: Option<Expression>,
    /// The tools of calls and approvals, by stream and id.
    tools: HashMap<(StreamId, String), String>,
    /// The sessions that tasks name.
    sessions: HashMap<StreamId, String>,
}

impl Selection {
    /// Returns the selection of a filter.
    pub fn new(filter: Filter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// Returns the selection of its events for which a condition holds too, over the fields of their JSON.
    #[must_use]
    pub fn with_condition(self, condition: Option<Expression>) -> Self {
        Self { condition, ..self }
    }

    /// Whether everything is taken.
    pub fn is_empty(&self) -> bool {
        self.filter.is_empty() && self.condition.is_none()
    }

    /// Whether an event can only be judged after the earlier events of its stream were shown.
    pub fn needs_order(&self) -> bool {
        self.filter.names(Field::Tool) || self.filter.names(Field::Session)
    }

    /// Whether the next event is taken. All events of a stream are to be shown, from its first one on.
    pub fn takes(&mut self, row: &EventRow) -> bool {
        self.filter_takes(row) && self.condition.as_ref().is_none_or(|condition| row.fits(condition))
    }

    fn filter_takes(&mut self, row: &EventRow) -> bool {
        if self.filter.is_empty() {
            return true;
        }
        self.record_row(row);
        let agent = row.stream.agent();
        let has_text = |text: &str| has_text(row, text);
        self.filter.takes(&FilterFacts {
            at: row.at,
            kind: row.kind,
            family: family(row.kind_number),
            tool: self.tool_of(row).as_deref(),
            session: self.session_of(&row.stream),
            agent: &agent,
            has_text: &has_text,
        })
    }

    /// Remembers what later events of the stream only name by an id.
    fn record_row(&mut self, row: &EventRow) {
        let Ok(AnyEvent::Task(event)) = &row.event else { return };
        match event {
            TaskEvent::Submitted(posted) => self.note_session(&row.stream, &posted.metadata),
            TaskEvent::MetadataMerged(entries) => self.note_session(&row.stream, entries),
            TaskEvent::Call(CallEvent::Requested(request)) if request.kind == CallKind::Tool => {
                self.note_tool(&row.stream, &request.call_id, &request.target);
            }
            TaskEvent::ApprovalRequested(asked) => {
                self.note_tool(&row.stream, &asked.approval_id, &asked.tool);
            }
            _ => {}
        }
    }

    fn note_tool(&mut self, stream: &StreamId, id: &str, tool: &str) {
        if self.filter.names(Field::Tool) {
            self.tools.insert((stream.clone(), id.to_owned()), tool.to_owned());
        }
    }

    fn note_session(&mut self, stream: &StreamId, metadata: &JsonObject) {
        let named = metadata.get("session_id").and_then(JsonText::to_str);
        if let Some(named) = named.filter(|_| self.filter.names(Field::Session)) {
            self.sessions.insert(stream.clone(), named);
        }
    }

    fn tool_of(&self, row: &EventRow) -> Option<String> {
        if row.stream.category() == Some(Category::Tool) {
            return Some(row.stream.id());
        }
        let id = match &row.event {
            Ok(AnyEvent::Task(TaskEvent::Call(event))) => event.call_id(),
            Ok(AnyEvent::Task(TaskEvent::ApprovalRequested(asked))) => &asked.approval_id,
            Ok(AnyEvent::Task(TaskEvent::ApprovalDecided(decided))) => &decided.approval_id,
            _ => return None,
        };
        self.tools.get(&(row.stream.clone(), id.to_owned())).cloned()
    }

    fn session_of(&self, stream: &StreamId) -> Option<Cow<'_, str>> {
        match stream.category() {
            Some(Category::Session) => Some(Cow::Owned(stream.id())),
            Some(Category::Task) => Some(session_of(stream, self.sessions.get(stream).map(String::as_str))),
            _ => None,
        }
    }
}

fn has_text(row: &EventRow, text: &str) -> bool {
    let names = [row.stream.as_str(), &row.command_id, &row.causation_id, &row.principal];
    let in_event = || row.event.as_ref().is_ok_and(|event| json_has(&event_json(event).tree(), text));
    names.iter().any(|name| name.to_lowercase().contains(text)) || in_event()
}

impl Filter {
    /// Whether the filter takes a call, by the time of its intent or of the request to approve it.
    pub fn takes_call(&self, row: &CallRow) -> bool {
        let agent = row.stream.agent();
        let has_text = |text: &str| {
            let said = [row.stream.as_str(), &row.call_id, &row.target, &row.waits_for];
            said.iter().any(|said| said.to_lowercase().contains(text)) || json_has(&row.args.tree(), text)
        };
        self.takes(&FilterFacts {
            at: row.since,
            kind: row.kind,
            family: "",
            tool: (row.kind == "tool").then_some(row.target.as_str()),
            session: Some(Cow::Borrowed(&row.session)),
            agent: &agent,
            has_text: &has_text,
        })
    }

    /// Whether the filter takes a call with this intent.
    pub(crate) fn takes_intent(
        &self,
        (stream, session, at): (&StreamId, Option<&str>, Timestamp),
        request: &CallRequested,
    ) -> bool {
        if self.is_empty() {
            return true;
        }
        let agent = stream.agent();
        let has_text = |text: &str| {
            let said = [stream.as_str(), &request.call_id, &request.target];
            said.iter().any(|said| said.to_lowercase().contains(text)) || json_has(&request.args.tree(), text)
        };
        self.takes(&FilterFacts {
            at,
            kind: call_kind(request.kind),
            family: "",
            tool: (request.kind == CallKind::Tool).then_some(request.target.as_str()),
            session: Some(session_of(stream, session)),
            agent: &agent,
            has_text: &has_text,
        })
    }
}
