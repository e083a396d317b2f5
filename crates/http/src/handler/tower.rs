//! Handlers as services of `tower`, for hosts on axum, hyper or tonic: requests and responses are carried over, and nothing
//! is decided here.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use http::header::{CONNECTION, HeaderValue};
use http::{Request as HttpRequest, Response as HttpResponse, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use taskreel::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tower_service::Service;

use crate::handler::body::{BodyError, BodyTimes, RequestBody};
use crate::handler::connection::{check_head, mount_deeper};
use crate::handler::message::{HttpHandler, Response, ResponseBody, Socket};
use crate::handler::trailers::Trailers;
use crate::handler::websocket::is_upgrade;
use crate::limits::{SOCKET_BUFFER, SOCKET_END_WITHIN};

/// A handler as a service of `tower`, for a host's own server. It is nested like any other service:
///
/// ```
/// # use std::sync::Arc;
/// # use taskreel_http::{HttpHandler, HandlerService};
/// # fn router(handler: Arc<dyn HttpHandler>) -> axum::Router {
/// axum::Router::new().nest_service("/agent", HandlerService::new(handler).mounted_at("/agent"))
/// # }
/// ```
///
/// It must be called within a tokio runtime, and its futures and bodies need no particular thread.
#[derive(Clone)]
pub struct HandlerService {
    handler: Arc<dyn HttpHandler>,
    at: Arc<str>,
    times: BodyTimes,
}

impl std::fmt::Debug for HandlerService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaceService").field("at", &self.at).finish_non_exhaustive()
    }
}

impl HandlerService {
    /// Returns the service of a handler.
    pub fn new(handler: Arc<dyn HttpHandler>) -> Self {
        Self { handler, at: Arc::from(""), times: BodyTimes::default() }
    }

    /// Names the path that the host has removed from the requests, so that redirects lead back to it.
    #[must_use]
    pub fn mounted_at(mut self, path: &str) -> Self {
        self.at = Arc::from(path.trim_end_matches('/'));
        self
    }
}

impl HandlerService {
    /// Sets the times in which a request's body must arrive. The time for the head is the host's own.
    #[must_use]
    pub fn body_times(mut self, times: BodyTimes) -> Self {
        self.times = times;
        self
    }
}

impl<B> Service<HttpRequest<B>> for HandlerService
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: std::fmt::Display,
{
    type Response = HttpResponse<HandlerBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        if let Err(status) = check_head(&parts.headers) {
            let mut refused = HttpResponse::new(HandlerBody::from_bytes(Bytes::new()));
            *refused.status_mut() = status;
            refused.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            return Box::pin(std::future::ready(Ok(refused)));
        }
        let upgrade =
            parts.extensions.remove::<OnUpgrade>().filter(|_| is_upgrade(&parts.method, &parts.headers));
        mount_deeper(&mut parts.extensions, &self.at);
        let request =
            HttpRequest::from_parts(parts, RequestBody::new(BodyPieces(Box::pin(body))).within(self.times));
        let answer = self.handler.answer(request);
        Box::pin(async move { Ok(respond(answer.await, upgrade)) })
    }
}

fn respond(response: Response, upgrade: Option<OnUpgrade>) -> HttpResponse<HandlerBody> {
    let (mut parts, body) = response.into_parts();
    let trailers = parts.extensions.remove::<Trailers>();
    let body = match (body, upgrade) {
        (ResponseBody::Whole(bytes), _) => HandlerBody { trailers, ..HandlerBody::from_bytes(bytes) },
        (ResponseBody::Pieces(pieces), _) => {
            let mut body = HandlerBody { trailers, ..HandlerBody::from_bytes(Bytes::new()) };
            body.sent = SentBody::Pieces(Some(pieces));
            body
        }
        (ResponseBody::Upgrade(serve), Some(upgrade)) => {
            tokio::spawn(carry(upgrade, serve));
            HandlerBody::from_bytes(Bytes::new())
        }
        // A server without upgrades.
        (ResponseBody::Upgrade(_), None) => {
            let mut refused = HttpResponse::new(HandlerBody::from_bytes(Bytes::new()));
            *refused.status_mut() = StatusCode::UPGRADE_REQUIRED;
            return refused;
        }
    };
    HttpResponse::from_parts(parts, body)
}

/// The code of a handler that holds an upgraded connection.
type Serve = Box<dyn FnOnce(Socket) -> BoxFuture<'static, ()> + Send>;

/// Carries the bytes of an upgraded connection, until either end is done.
async fn carry(upgrade: OnUpgrade, serve: Serve) {
    if let Ok(upgraded) = upgrade.await {
        carry_between(TokioIo::new(upgraded), serve).await;
    }
}

/// Carries the bytes of a connection to a handler and back, and drops the connection at the end.
async fn carry_between(mut connection: impl AsyncRead + AsyncWrite + Unpin, serve: Serve) {
    let (mut ours, theirs) = tokio::io::duplex(SOCKET_BUFFER);
    let serve = serve(theirs);
    let copy = tokio::io::copy_bidirectional(&mut connection, &mut ours);
    tokio::pin!(copy);
    tokio::select! {
        // The connection is gone: what the handler still does for it is dropped.
        _ends = &mut copy => {}
        () = serve => {
            // What the handler sent last is still carried. The client may leave its half open for ever.
            let _ends = tokio::time::timeout(SOCKET_END_WITHIN, copy).await;
        }
    }
}

/// The body of a [`HandlerService`]'s response.
pub struct HandlerBody {
    sent: SentBody,
    /// The trailers, in place once the body is at its end.
    trailers: Option<Trailers>,
    /// A value that is held until the body is gone.
    #[cfg(feature = "grpc")]
    held: Option<Box<dyn std::any::Any + Send>>,
}

enum SentBody {
    Whole(Option<Bytes>),
    Pieces(Option<BoxStream<'static, Bytes>>),
}

impl std::fmt::Debug for HandlerBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaceBody").finish_non_exhaustive()
    }
}

impl HandlerBody {
    pub(crate) fn from_bytes(bytes: Bytes) -> Self {
        Self {
            sent: SentBody::Whole((!bytes.is_empty()).then_some(bytes)),
            trailers: None,
            #[cfg(feature = "grpc")]
            held: None,
        }
    }

    /// Holds a value until the body is gone.
    #[cfg(feature = "grpc")]
    pub(crate) fn holding(mut self, held: impl Send + 'static) -> Self {
        self.held = Some(Box::new(held));
        self
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match &mut self.sent {
            SentBody::Whole(bytes) => Poll::Ready(bytes.take()),
            SentBody::Pieces(None) => Poll::Ready(None),
            SentBody::Pieces(Some(pieces)) => {
                let piece = pieces.poll_next_unpin(cx);
                if matches!(piece, Poll::Ready(None)) {
                    self.sent = SentBody::Pieces(None);
                }
                piece
            }
        }
    }
}

impl Body for HandlerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.poll_data(cx).map(|piece| match piece {
            Some(piece) => Some(Ok(Frame::data(piece))),
            None => self.trailers.take()?.take().map(|trailers| Ok(Frame::trailers(trailers))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.trailers.is_none() && matches!(self.sent, SentBody::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.sent {
            // A length beside trailers would end the response before them.
            SentBody::Whole(bytes) if self.trailers.is_none() => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            SentBody::Whole(_) | SentBody::Pieces(_) => SizeHint::default(),
        }
    }
}

/// The pieces of a request's body; trailers are dropped.
struct BodyPieces<B>(Pin<Box<B>>);

impl<B> Stream for BodyPieces<B>
where
    B: Body,
    B::Error: std::fmt::Display,
{
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            return match self.0.as_mut().poll_frame(cx) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(None) => Poll::Ready(None),
                Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(BodyError::Broken(error.to_string())))),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(mut data) => Poll::Ready(Some(Ok(data.copy_to_bytes(data.remaining())))),
                    Err(_) => continue,
                },
            };
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.0.is_end_stream().then_some(0))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_its_client_keeps_open_ends_soon_after_its_handler_is_done() {
        let (mut client, connection) = tokio::io::duplex(64);
        let says = |mut socket: Socket| -> BoxFuture<'static, ()> {
            Box::pin(async move { socket.write_all(b"the last words").await.unwrap() })
        };
        let serve: Serve = Box::new(says);
        let carried = tokio::time::timeout(10 * SOCKET_END_WITHIN, carry_between(connection, serve)).await;
        carried.expect("the connection is dropped");
        let mut heard = String::new();
        client.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "the last words");
    }
}
