//! REST.

use futures_util::stream;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use proto_events::json::{JsonObject, JsonText};

use crate::a2a::bindings::request::Head;
use crate::a2a::bindings::rpc::with_retry;
use crate::a2a::events::Told;
use crate::a2a::failure::{A2aFailure, FailureKind};
use crate::a2a::ops::operation::{A2aOperation, OperationOutcome, carry_out};
use crate::a2a::version::{Version, unsupported};
use crate::a2a::wire::fields::WireFields;
use crate::a2a::wire::write::In;
use crate::a2a::wire::{DataForm, write};
use crate::handler::body::RequestBody;
use crate::handler::json::read_json;
use crate::handler::message::Response;
use crate::handler::respond;
use crate::handler::sse::{SseFrame, event_stream};
use crate::limits::SSE_HEARTBEAT;

/// The media type of A2A's bodies.
const MEDIA: &str = "application/a2a+json";

/// The operation that a path names.
pub(crate) struct RestCall {
    pub(crate) operation: A2aOperation,
    pub(crate) id: Option<String>,
    pub(crate) config: Option<String>,
    pub(crate) is_03: bool,
}

/// Answers a request.
pub(crate) async fn answer(method: Method, head: Head, body: RequestBody, called: RestCall) -> Response {
    let is_a2a = speaks_a2a(&head.headers);
    let response = match carried_out(&method, head, body, called).await {
        Ok((_, OperationOutcome::Json(result))) => respond::json(StatusCode::OK, &result),
        Ok((form, OperationOutcome::Task(task))) => respond::written(StatusCode::OK, &In(form, &*task)),
        Ok((form, OperationOutcome::Sent(answer))) => respond::written(StatusCode::OK, &In(form, &answer)),
        Ok((form, OperationOutcome::Events(events))) => {
            let frames = stream::unfold(events, move |mut events| async move {
                let frame = frame(form, events.next().await?);
                Some((frame, events))
            });
            return event_stream(frames, SSE_HEARTBEAT);
        }
        Err(failure) => refused(&failure),
    };
    if is_a2a { in_media(response) } else { response }
}

/// Returns the response to a request that was not carried out.
pub(crate) fn refused(failure: &A2aFailure) -> Response {
    with_retry(respond::json(failure.status(), &failure.to_rest()))
}

/// Whether the client writes or wants A2A's own media type; others are answered in plain JSON.
fn speaks_a2a(headers: &HeaderMap) -> bool {
    let names = |name: http::HeaderName| {
        headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains(MEDIA))
    };
    names(CONTENT_TYPE) || names(ACCEPT)
}

fn in_media(mut response: Response) -> Response {
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA));
    response
}

async fn carried_out(
    method: &Method,
    head: Head,
    body: RequestBody,
    RestCall { operation, id, config, is_03 }: RestCall,
) -> Result<(DataForm, OperationOutcome), A2aFailure> {
    let form = match (head.version()?, is_03) {
        (None | Some(Version::V03), true) => DataForm::Rest03,
        (None | Some(Version::V1), false) => DataForm::V1,
        (Some(Version::V1), true) => return Err(unsupported("1.0 under /v1")),
        (Some(Version::V03), false) => return Err(unsupported("0.3 beside /v1")),
    };
    head.spoken(if is_03 { Version::V03 } else { Version::V1 })?;
    let mut params: JsonObject = if *method == Method::POST {
        let body = read_json(&head.headers, body).await?.unwrap_or_else(JsonText::empty_object);
        if !body.is_object() {
            return Err(A2aFailure::new(FailureKind::InvalidRequest, "the body must be an object"));
        }
        body.read().map_err(|error| A2aFailure::new(FailureKind::Parse, error.to_string()))?
    } else {
        head.query.iter().map(|(key, value)| (key.clone(), JsonText::string(value))).collect()
    };
    if let Some(id) = id {
        // A webhook's own id stands beside that of its task.
        let name = if operation.is_of_webhooks() { "taskId" } else { "id" };
        params.set(name, JsonText::string(&id));
    }
    if let Some(id) = config {
        params.set("id", JsonText::string(&id));
    }
    let params = WireFields::of_object(params);
    let asking = head.asking(form, &params)?;
    Ok((form, carry_out(&asking, operation, &params).await?))
}

fn frame(form: DataForm, (place, event): Told) -> SseFrame {
    let data = match event {
        Ok(event) => write::event(form, &event),
        Err(failure) => failure.to_rest(),
    };
    SseFrame { id: place.map(|place| place.to_string()), data }
}
