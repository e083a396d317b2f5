//! The events of a run, as an agent sends them.

use std::collections::VecDeque;
use std::fmt;

use futures_util::Stream;
use futures_util::stream::BoxStream;
use proto_events::id::Mint as _;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{ClientRequestSpec, ModelError, PostedTask, python};
use reqwest::Response;
use taskreel::{Ports, TaskStreamEvent};

use crate::client::address::{Address, address};
use crate::client::error::ClientError;
use crate::client::socket::{Answers, SocketFailure};
use crate::client::sse::{SseEvent, SseReader};
use crate::client::transport::{Client, RequestContent, result_of};

/// The types of events that this client knows. Protolink 0.8.3 sends more; what those say stands in the task's end too.
const TYPES: [&str; 5] =
    ["task_status_update", "task_progress", "task_llm_stream", "task_artifact_update", "task_error"];

/// Whether an event has a type that this client knows, or none at all; others are passed over.
fn is_known(event: &JsonText) -> bool {
    let kind = event.read::<JsonObject>().ok().and_then(|fields| fields.get("type").map(python::text));
    kind.is_none_or(|kind| TYPES.contains(&kind.as_str()))
}

/// The events of a run: a stream that ends after the final one. It ends with an error where the agent says so or the
/// connection breaks.
pub struct TaskEventStream {
    events: BoxStream<'static, Result<EventFrame, ClientError>>,
    last_event_id: Option<String>,
    is_over: bool,
}

/// An event, and the place in the stream behind it.
struct EventFrame {
    event: Option<TaskStreamEvent>,
    place: Option<String>,
    is_final: bool,
}

impl fmt::Debug for TaskEventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskEventStream").field("last_event_id", &self.last_event_id).finish_non_exhaustive()
    }
}

impl TaskEventStream {
    pub(crate) async fn open(
        client: &Client,
        agent_url: &str,
        spec: ClientRequestSpec,
        task: &PostedTask,
        last_event_id: Option<&str>,
    ) -> Result<Self, ClientError> {
        let body = task.to_json();
        let source = match address(agent_url, spec.path)? {
            Address::Http(url) => {
                let request_id = Ports::default().uuid();
                let mut headers = vec![("x-protolink-request-id", request_id.as_str())];
                headers.extend(last_event_id.map(|id| ("last-event-id", id)));
                let response =
                    client.begun(agent_url, url, spec, RequestContent::Body(&body), &headers).await?;
                let reader = SseReader::new(client.bounds().0);
                EventSource::Sse { request_id, response, reader, ready: VecDeque::new() }
            }
            Address::Socket(url) => {
                let sent = RequestContent::Body(&body);
                let (first, rest) =
                    client.on_socket_begun(agent_url, url, (spec, true), sent, last_event_id).await?;
                // A run that does not begin has no stream.
                result_of(agent_url, &first)?;
                EventSource::Socket { first: Some(first), rest }
            }
        };
        let reading = EventReading { client: client.clone(), url: agent_url.to_owned(), source };
        let events = futures_util::stream::unfold(Some(reading), |reading| async move {
            let mut reading = reading?;
            match reading.next().await {
                Ok(Some(frame)) => Some((Ok(frame), Some(reading))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        let last_event_id = last_event_id.map(str::to_owned);
        Ok(Self { events: Box::pin(events), last_event_id, is_over: false })
    }

    /// Returns the next event; `None` after the final one. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError`]; no event follows.
    pub async fn next(&mut self) -> Option<Result<TaskStreamEvent, ClientError>> {
        futures_util::StreamExt::next(self).await
    }

    /// Returns the place behind the last event, where the server gives its events places.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref()
    }
}

impl Stream for TaskEventStream {
    type Item = Result<TaskStreamEvent, ClientError>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        use std::task::Poll;
        loop {
            if self.is_over {
                return Poll::Ready(None);
            }
            match futures_util::ready!(self.events.as_mut().poll_next(cx)) {
                None => self.is_over = true,
                Some(Err(error)) => {
                    self.is_over = true;
                    return Poll::Ready(Some(Err(error)));
                }
                Some(Ok(frame)) => {
                    self.is_over = frame.is_final;
                    if frame.place.is_some() {
                        self.last_event_id = frame.place;
                    }
                    if let Some(event) = frame.event {
                        return Poll::Ready(Some(Ok(event)));
                    }
                }
            }
        }
    }
}

/// The reading of an answer.
struct EventReading {
    client: Client,
    url: String,
    source: EventSource,
}

/// The way by which the events come.
enum EventSource {
    /// Server-sent events.
    Sse { request_id: String, response: Response, reader: SseReader, ready: VecDeque<SseEvent> },
    /// Frames of a WebSocket, the first of which is there already.
    Socket { first: Option<JsonObject>, rest: Answers },
}

impl EventReading {
    /// Returns the next frame; `None` at the end of the answer.
    async fn next(&mut self) -> Result<Option<EventFrame>, ClientError> {
        let Self { client, url, source } = self;
        let (limit, wait) = client.bounds();
        match source {
            EventSource::Sse { request_id, response, reader, ready } => loop {
                if let Some(event) = ready.pop_front() {
                    return sent_event(url, request_id, &event).map(Some);
                }
                let piece = tokio::time::timeout(wait, response.chunk()).await;
                let piece = piece.map_err(|_| client.late(url))?;
                let Some(piece) = piece.map_err(|error| client.failed(url, error))? else {
                    return Ok(None);
                };
                let taken = reader.take(&piece, ready);
                taken.map_err(|_| ClientError::TooLarge { url: url.clone(), limit })?;
            },
            EventSource::Socket { first, rest } => {
                if let Some(fields) = first.take() {
                    return frame(url, &fields, place_in(&fields)).map(Some);
                }
                let answer = tokio::time::timeout(wait, rest.next()).await.map_err(|_| client.late(url))?;
                match answer {
                    Some(Ok(fields)) => frame(url, &fields, place_in(&fields)).map(Some),
                    Some(Err(SocketFailure::Error(error))) => Err(error),
                    Some(Err(SocketFailure::NotSent)) | None => {
                        let why = "its answers have ended".to_owned();
                        Err(ClientError::Closed { url: url.clone(), why })
                    }
                }
            }
        }
    }
}

/// Returns the place in a frame of a WebSocket.
fn place_in(fields: &JsonObject) -> Option<String> {
    fields.get("event_id").and_then(JsonText::to_str)
}

fn sent_event(url: &str, request_id: &str, event: &SseEvent) -> Result<EventFrame, ClientError> {
    let unreadable = |source| ClientError::Answer { url: url.to_owned(), source };
    let json = JsonText::parse(&event.data).map_err(|error| unreadable(error.into()))?;
    let fields: JsonObject = json.read().map_err(|error| unreadable(error.into()))?;
    let id = fields.get("id").filter(|id| !id.is_null());
    if id.is_some_and(|id| id.to_str().as_deref() != Some(request_id)) {
        let text = format!("Mismatched SSE JSON-RPC event id from {url}");
        return Err(unreadable(ModelError::Invalid(text)));
    }
    frame(url, &fields, event.id.clone())
}

fn frame(url: &str, fields: &JsonObject, place: Option<String>) -> Result<EventFrame, ClientError> {
    let result = result_of(url, fields).map_err(|error| match error {
        ClientError::Refused { url, kind, message, .. } => ClientError::Stream { url, kind, message },
        other => other,
    })?;
    let result = result.filter(is_known);
    let read = |result| TaskStreamEvent::from_json(&result, &mut Ports::default());
    let unreadable = |source| ClientError::Answer { url: url.to_owned(), source };
    Ok(EventFrame {
        event: result.map(read).transpose().map_err(unreadable)?,
        place,
        is_final: fields.get("final").is_some_and(python::truthy),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_newer_release_are_passed_over_and_what_is_no_event_is_not() {
        let is = |text: &str| is_known(&JsonText::parse(text).unwrap());
        assert!(!is(r#"{"type": "action.requested"}"#));
        assert!(is(r#"{"type": "task_error"}"#) && is("{}") && is("[]"));
    }
}
