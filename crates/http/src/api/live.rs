//! Live: the events of the log as server-sent events, from a position on. The id of each is its position, so that a
//! client that lost its connection resumes without a gap or a repeat.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::HeaderMap;
use proto_events::codec::AnyEvent;
use proto_events::id::{Position, StreamId};
use proto_events::task::TaskEvent;
use taskreel_log::api::{EventStore, StoredRecord};
use taskreel_log::audit::json::{number, object, one_line, text};
use taskreel_log::read::{Delivery, Subscription};
use taskreel_log::views::{EventRow, Field, Filter, KindsOf, Selection, Term, event_rows};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::bounded_reads::unread;
use crate::api::lists::condition;
use crate::api::records::{Lines, turn_to_follow};
use crate::api::routed_request::RoutedRequest;
use crate::error::Problem;
use crate::limits::QUIET_AFTER;

/// The header with which a client that lost its connection resumes.
const LAST_EVENT_ID: &str = "last-event-id";

/// The events that a client asks for.
struct LiveFilter {
    streams: Vec<StreamId>,
    states: Vec<String>,
    selection: Selection,
}

impl LiveFilter {
    fn from_request(asked: &RoutedRequest) -> Result<Self, Problem> {
        let streams = asked.texts("stream").map(StreamId::parse).collect::<Result<_, _>>();
        let mut filter = Filter::default();
        for field in [Field::Kind, Field::Agent] {
            filter.terms.extend(asked.texts(field.as_str()).map(|value| Term::new(field, value)));
        }
        filter.check_kinds(KindsOf::Events)?;
        Ok(Self {
            streams: streams.map_err(|error| Problem::not_found(format!("`stream`: {error}")))?,
            states: asked.texts("state").map(str::to_owned).collect(),
            // Kinds and agents need no events before: a client may begin anywhere.
            selection: Selection::new(filter).with_condition(condition(asked, "taskreel.event/1")?),
        })
    }

    fn takes(&mut self, row: &EventRow) -> bool {
        let of_stream = self.streams.is_empty() || self.streams.contains(&row.stream);
        of_stream && self.has_state(row) && self.selection.takes(row)
    }

    /// Whether a task enters one of the states by this event.
    fn has_state(&self, row: &EventRow) -> bool {
        let entered = match &row.event {
            Ok(AnyEvent::Task(TaskEvent::Submitted(posted))) => posted.state,
            Ok(AnyEvent::Task(TaskEvent::StateChanged { to, .. })) => *to,
            _ => return self.states.is_empty(),
        };
        self.states.is_empty() || self.states.iter().any(|state| state == entered.as_str())
    }
}

/// A client that follows.
struct Live {
    /// The subscription; none after the last event.
    subscription: Option<Subscription>,
    wanted: LiveFilter,
    /// The first position that was not looked at yet.
    next: u64,
    /// The position that the client knows as that of its last event.
    known: u64,
    ready: VecDeque<String>,
    /// The time of the last word.
    spoken: Instant,
    _place: OwnedSemaphorePermit,
}

/// Answers a request for events.
///
/// # Errors
/// [`Problem`] if the position is not one of this log or the next one, or too many others follow.
pub(crate) fn live(
    asked: &RoutedRequest,
    headers: &HeaderMap,
    log: Arc<dyn EventStore>,
    followers: &Arc<Semaphore>,
) -> Result<Lines, Problem> {
    let head = log.head().map_err(unread)?.0;
    let from = match headers.get(LAST_EVENT_ID) {
        None => asked.number("from")?.unwrap_or(head + 1).max(1),
        Some(last) => {
            let last = last.to_str().ok().and_then(|last| last.trim().parse::<u64>().ok());
            let last = last.ok_or_else(|| Problem::malformed("`last-event-id` is not a position"))?;
            last.saturating_add(1)
        }
    };
    if from > head.saturating_add(1) {
        let what = format!("the log ends at position {head}; {from} is after the next one");
        return Err(Problem::new(http::StatusCode::CONFLICT, "ahead", what));
    }
    let state = Live {
        subscription: Some(Subscription::all(log, Position(from))),
        wanted: LiveFilter::from_request(asked)?,
        next: from,
        known: from - 1,
        ready: VecDeque::new(),
        spoken: Instant::now(),
        _place: turn_to_follow(followers)?,
    };
    // At once, so that the client knows that it is connected.
    let first = stream::iter([Bytes::from(": connected\n\n")]);
    let rest = stream::unfold(state, |mut state| async {
        let event = state.next().await?;
        Some((Bytes::from(event), state))
    });
    Ok(first.chain(rest).boxed())
}

impl Live {
    async fn next(&mut self) -> Option<String> {
        let word = self.next_word().await?;
        self.spoken = Instant::now();
        Some(word)
    }

    async fn next_word(&mut self) -> Option<String> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            // A busy log of which nothing is wanted.
            if self.spoken.elapsed() >= QUIET_AFTER {
                return Some(self.quiet());
            }
            let subscription = self.subscription.as_mut()?;
            match tokio::time::timeout(QUIET_AFTER, subscription.next()).await {
                Err(_) => return Some(self.quiet()),
                Ok(Some(Ok(Delivery::Record(stored)))) => self.accept_record(&stored),
                Ok(Some(Ok(Delivery::Lagged { from, to }))) => {
                    let lagged = object([
                        ("schema", text("taskreel.lagged/1")),
                        ("from", number(from.0)),
                        ("to", number(to.0)),
                    ]);
                    return Some(format!("event: lagged\ndata: {}\n\n", one_line(&lagged)));
                }
                Ok(Some(Ok(_))) => {}
                Ok(Some(Err(error))) => {
                    tracing::warn!(%error, "a follower's log cannot be read further");
                    self.subscription = None;
                    let error = one_line(&object([("error", text(&error.to_string()))]));
                    return Some(format!("event: failed\ndata: {error}\n\n"));
                }
                Ok(None) => {
                    self.subscription = None;
                    return Some("event: ended\ndata: {}\n\n".to_owned());
                }
            }
        }
    }

    /// Queues the events of a record that the client asks for.
    fn accept_record(&mut self, stored: &StoredRecord) {
        for row in event_rows(stored) {
            // The first record may begin before what was asked for.
            if row.position.0 < self.next {
                continue;
            }
            self.next = row.position.0 + 1;
            if self.wanted.takes(&row) {
                self.known = row.position.0;
                let data = one_line(&row.to_json());
                self.ready.push_back(format!("id: {}\nevent: event\ndata: {data}\n\n", row.position));
            }
        }
    }

    /// Returns a word that says only that the server is there; or up to where the log was looked through, so that a client
    /// with a filter does not read all of it again when it resumes.
    fn quiet(&mut self) -> String {
        let seen = self.next - 1;
        if seen == self.known {
            return ": quiet\n\n".to_owned();
        }
        self.known = seen;
        format!("id: {seen}\n\n")
    }
}
