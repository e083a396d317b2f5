//! JSON-RPC.

use futures_util::stream;
use http::header::ACCEPT;
use http::{Response as HttpResponse, StatusCode};
use proto_events::json::JsonText;
use serde::Serialize;

use crate::a2a::bindings::request::Head;
use crate::a2a::events::Told;
use crate::a2a::failure::{A2aFailure, FailureKind};
use crate::a2a::ops::operation::{A2aOperation, OperationOutcome, carry_out};
use crate::a2a::version::Version;
use crate::a2a::wire::DataForm;
use crate::a2a::wire::fields::WireFields;
use crate::a2a::wire::write::{In, Members};
use crate::handler::body::RequestBody;
use crate::handler::json::read_json;
use crate::handler::message::{Response, ResponseBody};
use crate::handler::respond;
use crate::handler::sse::{SseFrame, event_stream};
use crate::limits::SSE_HEARTBEAT;

/// The most bytes of a request's id, as it stands in JSON.
const ID_MAX: usize = 1_024;

/// A request that was read: its id, and all else if it is one.
struct Read {
    id: JsonText,
    called: Result<RpcCall, A2aFailure>,
}

struct RpcCall {
    operation: A2aOperation,
    form: DataForm,
    params: WireFields,
}

/// Answers a request.
pub(crate) async fn answer(head: Head, body: RequestBody) -> Response {
    let body = match read_json(&head.headers, body).await {
        Ok(Some(body)) => body,
        Ok(None) => {
            return refused(&JsonText::null(), &A2aFailure::new(FailureKind::Parse, "the body is empty"));
        }
        Err(error) => return refused(&JsonText::null(), &error.into()),
    };
    let Read { id, called } = read(&head, &body);
    let wants_event = wants_event(&head, &called);
    match carried_out(head, called).await {
        Ok((_, OperationOutcome::Json(result))) => result_of(&id, &result),
        Ok((form, OperationOutcome::Task(task))) => result_of(&id, &In(form, &*task)),
        Ok((form, OperationOutcome::Sent(answer))) => result_of(&id, &In(form, &answer)),
        Ok((form, OperationOutcome::Events(events))) => {
            let frames = stream::unfold((events, id), move |(mut events, id)| async move {
                let frame = frame(form, &id, events.next().await?);
                Some((frame, (events, id)))
            });
            event_stream(frames, SSE_HEARTBEAT)
        }
        Err(failure) if wants_event => {
            let data = enveloped(&id, "error", failure.to_json_rpc());
            event_stream(stream::iter([SseFrame { id: None, data }]), SSE_HEARTBEAT)
        }
        Err(failure) => refused(&id, &failure),
    }
}

/// Whether a refusal comes as the only event of a stream: to clients of 0.3 that accept a stream and nothing else.
fn wants_event(head: &Head, called: &Result<RpcCall, A2aFailure>) -> bool {
    let is_stream = |called: &RpcCall| {
        called.form == DataForm::V03
            && matches!(called.operation, A2aOperation::SendStream | A2aOperation::Subscribe)
    };
    let accepts = head.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    called.as_ref().is_ok_and(is_stream)
        && accepts.is_some_and(|accepts| accepts.contains("text/event-stream"))
}

async fn carried_out(
    head: Head,
    called: Result<RpcCall, A2aFailure>,
) -> Result<(DataForm, OperationOutcome), A2aFailure> {
    let RpcCall { operation, form, params } = called?;
    let asking = head.asking(form, &params)?;
    Ok((form, carry_out(&asking, operation, &params).await?))
}

fn read(head: &Head, body: &JsonText) -> Read {
    let invalid = |text: &str| A2aFailure::new(FailureKind::InvalidRequest, text);
    let Ok(fields) = WireFields::new(body, "") else {
        let called = Err(invalid("the body must be one request, an object"));
        return Read { id: JsonText::null(), called };
    };
    let id = fields.or_null("id").cloned().unwrap_or_default();
    let is_id = id.is_null() || id.to_str().is_some() || id.read::<i64>().is_ok();
    if !is_id {
        let called = Err(invalid("`id` must be a string, a whole number or null"));
        return Read { id: JsonText::null(), called };
    }
    // It comes back with every event of the answer.
    if id.as_str().len() > ID_MAX {
        let called = Err(invalid("`id` must have at most 1,024 bytes"));
        return Read { id: JsonText::null(), called };
    }
    let called = || {
        if fields.text("jsonrpc").ok().flatten().as_deref() != Some("2.0") {
            return Err(invalid("`jsonrpc` must be \"2.0\""));
        }
        let method =
            fields.text("method").ok().flatten().ok_or_else(|| invalid("`method` must be a string"))?;
        let (operation, form) = operation_of(&method, head.version()?)?;
        head.spoken(if form == DataForm::V1 { Version::V1 } else { Version::V03 })?;
        let empty = JsonText::empty_object();
        let params = fields.get("params").unwrap_or(&empty);
        if !params.is_object() {
            return Err(fields.wrong("params", "must be an object").into());
        }
        Ok(RpcCall { operation, form, params: WireFields::new(params, "")? })
    };
    let called = called();
    Read { id, called }
}

/// Returns the operation of a method, in the version that the request names, or else in that of the method's name.
fn operation_of(method: &str, version: Option<Version>) -> Result<(A2aOperation, DataForm), A2aFailure> {
    let is_1 = match version {
        Some(version) => version == Version::V1,
        None => !method.contains('/'),
    };
    let form = if is_1 { DataForm::V1 } else { DataForm::V03 };
    let found = A2aOperation::of_method(method, is_1).map(|operation| (operation, form));
    found.ok_or_else(|| {
        let shown: String = method.chars().take(100).collect();
        A2aFailure::new(FailureKind::MethodNotFound, format!("there is no method `{shown}`"))
    })
}

/// A response whose result is written into it.
#[derive(Serialize)]
struct RpcAnswer<'a, T> {
    jsonrpc: &'static str,
    id: &'a JsonText,
    result: &'a T,
}

/// Returns the response with a result.
fn result_of<T: Serialize>(id: &JsonText, result: &T) -> Response {
    respond::written(StatusCode::OK, &RpcAnswer { jsonrpc: "2.0", id, result })
}

fn enveloped(id: &JsonText, name: &str, value: JsonText) -> JsonText {
    Members::default().text("jsonrpc", "2.0").json("id", id.clone()).json(name, value).end()
}

fn frame(form: DataForm, id: &JsonText, (place, event): Told) -> SseFrame {
    let data = match event {
        Ok(event) => JsonText::of_model(&RpcAnswer { jsonrpc: "2.0", id, result: &In(form, &event) }),
        Err(failure) => enveloped(id, "error", failure.to_json_rpc()),
    };
    SseFrame { id: place.map(|place| place.to_string()), data }
}

/// Returns the response to a request that was not carried out. What the protocol below has a status for has that status.
pub(crate) fn refused(id: &JsonText, failure: &A2aFailure) -> Response {
    let status = match failure.kind {
        FailureKind::TooLarge
        | FailureKind::Slow
        | FailureKind::Forbidden
        | FailureKind::Overloaded
        | FailureKind::Unavailable => failure.status(),
        _ => StatusCode::OK,
    };
    with_retry(respond::json(status, &enveloped(id, "error", failure.to_json_rpc())))
}

/// Says when a request may be sent again, where there is too much at once.
pub(crate) fn with_retry(mut response: HttpResponse<ResponseBody>) -> Response {
    if response.status() == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(http::header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    response
}
