//! The handler: a request with a call's message, and the response with its answers, each behind its length.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use a2a_pb::proto::a2a_service_server::A2aServiceServer;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderMap, Method, Request as HttpRequest, Response as HttpResponse, StatusCode};
use http_body::Body as _;
use taskreel::{BoxFuture, System};
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;
use tower_service::Service as _;

use crate::a2a::failure::A2aFailure;
use crate::a2a::grpc::call::AgentCalls;
use crate::a2a::grpc::status::status;
use crate::a2a::settings::A2aSettings;
use crate::handler::message::{HttpHandler, Request, Response, ResponseBody};
use crate::handler::respond;
use crate::handler::tower::HandlerBody;
use crate::handler::trailers::{Trailers, is_grpc};
use crate::limits::BODY_MAX;

/// The path of A2A's service, before the name of a call.
const SERVICE: &str = "/lf.a2a.v1.A2AService/";

/// The bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A2A 1.0 over gRPC, for the agents of a system. It is served over HTTP/2 with trailers: by
/// [`Server::start_grpc`](crate::Server::start_grpc), or by a host's own server through [`HandlerService`](crate::HandlerService).
/// [`A2a::grpc`](crate::A2a::grpc) returns it.
#[derive(Debug, Clone)]
pub struct A2aGrpc {
    service: A2aServiceServer<AgentCalls>,
}

impl A2aGrpc {
    pub(crate) fn new(system: System, settings: Arc<A2aSettings>) -> Self {
        let service = A2aServiceServer::new(AgentCalls { system, settings });
        Self { service: service.max_decoding_message_size(BODY_MAX) }
    }
}

impl HttpHandler for A2aGrpc {
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let service = self.service.clone();
        Box::pin(answer(service, request))
    }

    fn serves(&self, path: &str) -> bool {
        path.starts_with(SERVICE)
    }
}

async fn answer(mut service: A2aServiceServer<AgentCalls>, request: Request) -> Response {
    if *request.method() != Method::POST {
        return respond::method_not_allowed("POST");
    }
    if !is_grpc(request.headers()) {
        let mut response = Response::new(ResponseBody::Whole(Bytes::new()));
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return response;
    }
    let ends = timeout(request.headers()).and_then(|time| Instant::now().checked_add(time));
    let called = async {
        let (parts, body) = request.into_parts();
        // Each call has one message, which is in memory anyway once it is read.
        let body = match body.read(BODY_MAX + PREFIX).await {
            Ok(body) => HandlerBody::from_bytes(body),
            Err(error) => return refused(&status(&A2aFailure::from(error))),
        };
        match service.call(HttpRequest::from_parts(parts, body)).await {
            Ok(response) => answered(response, ends).await,
            Err(never) => match never {},
        }
    };
    match ends {
        None => called.await,
        Some(ends) => tokio::time::timeout_at(ends, called).await.unwrap_or_else(|_| refused(&late())),
    }
}

/// Returns the response to a call that was not carried out.
fn refused(status: &Status) -> Response {
    let (parts, ()) = status.clone().into_http::<()>().into_parts();
    HttpResponse::from_parts(parts, ResponseBody::Whole(Bytes::new()))
}

fn late() -> Status {
    Status::deadline_exceeded("the time of the call is over; what it has set off goes on")
}

/// Returns the time that a call gives: at most eight digits and a unit.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

/// Returns an answer as a handler's response: what is ready of it, whole if it is at its end, and else piece by piece, so that a
/// stream begins before its first event. The trailers are behind it.
async fn answered(response: HttpResponse<Body>, ends: Option<Instant>) -> Response {
    let (mut parts, mut body) = response.into_parts();
    let trailers = Trailers::default();
    parts.extensions.insert(trailers.clone());
    let mut ready = Vec::new();
    // An answer that is one message has its end at hand behind it.
    while ready.len() < 2 {
        let next = pin!(piece(&mut body, &trailers));
        match futures_util::poll!(next) {
            Poll::Ready(Some(next)) => ready.push(next),
            Poll::Ready(None) => {
                let whole = match ready.pop() {
                    Some(only) if ready.is_empty() => only,
                    Some(last) => [ready.concat().as_slice(), &last].concat().into(),
                    None => Bytes::new(),
                };
                // A status without an answer stands in the head, and nothing may follow it.
                if whole.is_empty() && !trailers.are_set() {
                    parts.extensions.remove::<Trailers>();
                }
                return HttpResponse::from_parts(parts, ResponseBody::Whole(whole));
            }
            Poll::Pending => break,
        }
    }
    let pieces = stream::iter(ready).chain(remaining_body(body, trailers, ends));
    HttpResponse::from_parts(parts, ResponseBody::Pieces(pieces.boxed()))
}

/// Returns the pieces of a body up to its end, or to that of the call's time.
fn remaining_body(body: Body, trailers: Trailers, ends: Option<Instant>) -> impl Stream<Item = Bytes> {
    stream::unfold((body, trailers), move |(mut body, trailers)| async move {
        let next = piece(&mut body, &trailers);
        let next = match ends {
            None => next.await,
            Some(ends) => tokio::time::timeout_at(ends, next).await.unwrap_or_else(|_| {
                trailers.set(trailers_of(&late()));
                None
            }),
        };
        next.map(|next| (next, (body, trailers)))
    })
}

fn trailers_of(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    // A text of ours is a header's value.
    let _fits = status.add_header(&mut trailers);
    trailers
}

/// Returns the next piece of a body; `None` at its end, where it keeps the trailers.
async fn piece(body: &mut Body, trailers: &Trailers) -> Option<Bytes> {
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
        match frame.map(http_body::Frame::into_data) {
            Ok(Ok(data)) => return Some(data),
            Ok(Err(frame)) => {
                if let Ok(last) = frame.into_trailers() {
                    trailers.set(last);
                }
            }
            Err(error) => {
                trailers.set(trailers_of(&error));
                return None;
            }
        }
    }
}
