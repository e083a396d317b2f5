//! The WebSocket of an agent: each frame of a client is a request, and its answers come as they are ready, so that a long
//! run does not hold up the requests after it.

use std::sync::Arc;

use futures_util::future::Either;
use futures_util::stream::{BoxStream, SelectAll};
use futures_util::{FutureExt as _, SinkExt, StreamExt, future, stream};
use http::Method;
use proto_events::json::{JsonObject, JsonText, JsonValue};
use taskreel::{BoxFuture, System};
use tokio::time::{Instant, interval_at};
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Error as SocketError, Message};

use crate::auth::allowance::{Allowance, TakenQuota};
use crate::auth::caller::{Caller, Scope};
use crate::auth::routes::scope_of;
use crate::error::Problem;
use crate::handler::connection::StopSignal;
use crate::handler::websocket::WebSocket;
use crate::limits::{SOCKET_PING, SOCKET_REQUESTS_MAX};
use crate::protolink::carry::{CarryOutcome, carry_out};
use crate::protolink::operation::{AgentOperation, PathMeaning, find};
use crate::protolink::operation_input::OperationInput;
use crate::protolink::stream::error_of;

/// The parts with which the requests of a socket are carried out.
pub(crate) struct Agent {
    pub(crate) system: System,
    pub(crate) caller: Option<Caller>,
    /// The quota of the caller, of which each request of the socket takes a part; `None` where nothing is counted.
    pub(crate) allowance: Option<Allowance>,
    /// The address of the agent, as the client sees it.
    pub(crate) url: String,
    /// The word that the server stops, where it gives one.
    pub(crate) stopping: Option<StopSignal>,
}

/// A request of a socket.
struct SocketRequest {
    /// The client's id of it, as it stands in the frame.
    id: JsonText,
    operation: AgentOperation,
    /// The scope that it needs.
    scope: Option<Scope>,
    data: Option<JsonText>,
    last_event_id: Option<String>,
}

/// A request that is not carried out: its id, whether its answer would be a stream, and the reason.
type Refusal = (JsonText, bool, Problem);

/// Carries out the requests of a socket, until either end closes it.
pub(crate) async fn serve(mut socket: WebSocket, agent: Agent) {
    let agent = Arc::new(agent);
    let mut answers: SelectAll<BoxStream<'static, JsonText>> = SelectAll::new();
    let mut pings = interval_at(Instant::now() + SOCKET_PING, SOCKET_PING);
    let mut silent_pings = 0;
    let stops: BoxFuture<'static, ()> = match &agent.stopping {
        Some(stopping) => Box::pin(stopping.clone().begun()),
        None => Box::pin(future::pending()),
    };
    let mut stops = stops.fuse();
    let mut is_stopping = false;
    loop {
        if is_stopping && answers.is_empty() {
            return close_with(socket, CloseCode::Away).await;
        }
        // Further requests wait in the socket, and none begins while the server stops.
        let has_room = answers.len() < SOCKET_REQUESTS_MAX && !is_stopping;
        let sent = tokio::select! {
            () = &mut stops, if !is_stopping => {
                is_stopping = true;
                continue;
            }
            received = socket.next(), if has_room => {
                silent_pings = 0;
                match received {
                    Some(Ok(Message::Text(text))) => answers.push(answers_to(&agent, text.as_bytes())),
                    Some(Ok(Message::Binary(bytes))) => answers.push(answers_to(&agent, &bytes)),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return refuse(socket, &error).await,
                    None => return,
                }
                Ok(())
            }
            answer = answers.next(), if !answers.is_empty() => match answer {
                Some(answer) => socket.send(Message::text(answer.as_str())).await,
                // The last stream has ended.
                None => continue,
            },
            _ = pings.tick() => {
                silent_pings += i32::from(has_room);
                if silent_pings > 2 {
                    return;
                }
                socket.send(Message::Ping(Bytes::new())).await
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Closes a socket whose client does not follow the protocol, and says why.
async fn refuse(socket: WebSocket, error: &SocketError) {
    let code = match error {
        SocketError::Capacity(CapacityError::MessageTooLong { .. }) => CloseCode::Size,
        SocketError::Protocol(_) => CloseCode::Protocol,
        SocketError::Utf8(_) => CloseCode::Invalid,
        _ => return,
    };
    close_with(socket, code).await;
}

/// Closes a socket, and says why.
async fn close_with(mut socket: WebSocket, code: CloseCode) {
    // The client may be gone.
    let _closed = socket.close(Some(CloseFrame { code, reason: "".into() })).await;
}

/// Returns the answers to a frame.
fn answers_to(agent: &Arc<Agent>, frame: &[u8]) -> BoxStream<'static, JsonText> {
    match admitted(agent, frame) {
        Ok((request, taken)) => {
            let agent = Arc::clone(agent);
            stream::once(async move { carried_out(&agent, request, taken).await }).flatten().boxed()
        }
        Err((id, is_stream, problem)) => single_answer(refused(&id, is_stream, &problem)).boxed(),
    }
}

/// Reads a frame, and returns its request with the places that it has of the caller's quota.
///
/// # Errors
/// [`Refusal`] of a frame that is not a request, or that lacks its scope, or that is beyond the quota.
fn admitted(agent: &Agent, frame: &[u8]) -> Result<(SocketRequest, Option<TakenQuota>), Refusal> {
    let take = |is_stream| {
        let taken = agent.allowance.as_ref().map(|allowance| allowance.take(is_stream)).transpose();
        taken.map_err(|refused| refused.problem)
    };
    let request = match read(frame) {
        Ok(request) => request,
        // It counts as a request that is malformed does over HTTP.
        Err((id, is_stream, problem)) => {
            return Err((id, is_stream, take(false).err().unwrap_or(problem)));
        }
    };
    let is_stream = request.operation == AgentOperation::StreamTask;
    let lacks = |scope: &Scope| agent.caller.as_ref().is_some_and(|caller| !caller.scopes.has(*scope));
    if let Some(scope) = request.scope.filter(lacks) {
        let problem = Problem::forbidden(format!("the credential has not the scope `{}`", scope.as_str()));
        return Err((request.id, is_stream, problem));
    }
    match take(is_stream) {
        Ok(taken) => Ok((request, taken)),
        Err(problem) => Err((request.id, is_stream, problem)),
    }
}

/// Carries out a request and returns its answers: one, or a stream of them. Its places are given back before the last of them
/// is sent, so that a client which then sends the next request finds them free.
async fn carried_out(
    agent: &Agent,
    request: SocketRequest,
    taken: Option<TakenQuota>,
) -> impl futures_util::Stream<Item = JsonText> + Send + use<> {
    let SocketRequest { id, operation, data, last_event_id, .. } = request;
    let asked =
        OperationInput { body: data, caller: agent.caller.clone(), url: agent.url.clone(), last_event_id };
    match carry_out(&agent.system, operation, asked).await {
        Ok(CarryOutcome::Json(value)) => Either::Left(single_answer(answered(&id, value).to_text())),
        Ok(CarryOutcome::Task(task, used)) => {
            let mut fields = answered(&id, task);
            fields.set("used", used.to_json());
            Either::Left(single_answer(fields.to_text()))
        }
        Ok(CarryOutcome::Page(page)) => {
            Either::Left(single_answer(answered(&id, JsonText::string(&page)).to_text()))
        }
        Ok(CarryOutcome::Frames(frames)) => {
            let frames = stream::unfold((frames, id, taken), |(mut frames, id, mut taken)| async move {
                let frame = frames.next().await?;
                if frame.is_last() {
                    taken = None;
                }
                let mut head = JsonObject::new();
                head.set("id", id.clone());
                head.set("stream", yes());
                if let Some(place) = &frame.place {
                    head.set("event_id", JsonText::string(place));
                }
                Some((frame.to_json(head), (frames, id, taken)))
            });
            Either::Right(frames)
        }
        Ok(CarryOutcome::OtherMethod) => {
            let problem = Problem::malformed("the agent has no model to talk with");
            Either::Left(single_answer(refused(&id, false, &problem)))
        }
        Err(problem) => {
            Either::Left(single_answer(refused(&id, operation == AgentOperation::StreamTask, &problem)))
        }
    }
}

/// Reads a frame.
fn read(frame: &[u8]) -> Result<SocketRequest, Refusal> {
    let nobody = |text: &str| (JsonText::null(), false, Problem::malformed(text));
    let text = std::str::from_utf8(frame).map_err(|_| nobody("the frame is not UTF-8"))?;
    let fields: JsonObject = JsonText::parse(text)
        .and_then(|json| json.read())
        .map_err(|error| nobody(&format!("the frame is not a JSON object: {error}")))?;
    let id = fields.get("id").cloned().unwrap_or_else(JsonText::null);
    let text = |key: &str| fields.get(key).and_then(JsonText::to_str).unwrap_or_default();
    let (method, path) = (text("method"), text("path"));
    let refuse = |problem| (id.clone(), path == "/tasks/stream", problem);
    if id.is_null() || method.is_empty() || path.is_empty() {
        return Err(refuse(Problem::malformed("Missing required fields: id/method/path")));
    }
    let PathMeaning::Operation(operation) = find(&method, &path) else {
        return Err(refuse(Problem::malformed(format!("No endpoint registered for {method} {path}"))));
    };
    let given = |key: &str| fields.get(key).filter(|value| !value.is_null()).cloned();
    let data = given("data").or_else(|| given("params"));
    let last_event_id = given("last_event_id").and_then(|place| place.to_str());
    // An unknown method has no operation.
    let scope =
        Method::from_bytes(method.to_uppercase().as_bytes()).ok().and_then(|method| scope_of(&method, &path));
    Ok(SocketRequest { id, operation, scope, data, last_event_id })
}

fn answered(id: &JsonText, result: JsonText) -> JsonObject {
    let mut fields = JsonObject::new();
    fields.set("id", id.clone());
    fields.set("ok", yes());
    fields.set("result", result);
    fields
}

fn refused(id: &JsonText, is_stream: bool, problem: &Problem) -> JsonText {
    let mut fields = JsonObject::new();
    fields.set("id", id.clone());
    fields.set("ok", JsonText::from(JsonValue::from(false)));
    fields.set("error", error_of(problem));
    if is_stream {
        fields.set("final", yes());
    }
    fields.to_text()
}

fn single_answer(answer: JsonText) -> stream::Once<future::Ready<JsonText>> {
    stream::once(future::ready(answer))
}

fn yes() -> JsonText {
    JsonText::from(JsonValue::from(true))
}
