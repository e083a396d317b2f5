//! Handlers in actix-web: requests and responses are carried over, and nothing is decided here.

use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_web::body::{BodyStream, BoxBody, SizedStream};
use actix_web::dev::{Payload, ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::http as old;
use actix_web::{Error as ActixError, HttpRequest, HttpResponse, Scope, rt, web};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode, Uri, Version};
use taskreel::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::mpsc;

use crate::handler::body::{BodyError, BodyTimes, RequestBody, read_whole};
use crate::handler::connection::{ClientAddress, OverTls, StopSignal, check_head, mount_deeper};
use crate::handler::message::{HttpHandler, Request, Response, ResponseBody};
use crate::handler::mounts::with_path;
use crate::handler::websocket::is_upgrade;
use crate::limits::{ANSWER_UNCOUNTED, BODY_AT_ONCE, BODY_PIECES_WAITING, SOCKET_BUFFER};

/// Returns a scope of a host's own actix-web server in which a handler answers: under this path, or at the root where it is
/// empty.
///
/// ```
/// # use std::sync::Arc;
/// # use taskreel_http::HttpHandler;
/// # fn app(handler: Arc<dyn HttpHandler>) {
/// actix_web::App::new().service(taskreel_http::actix_scope("/agent", handler))
/// # ;}
/// ```
pub fn actix_scope(path: &str, handler: Arc<dyn HttpHandler>) -> Scope {
    let path = path.trim_end_matches('/');
    web::scope(path).default_service(actix_service(Carrier::new(handler, path)))
}

/// The parts with which a service carries requests to a handler.
#[derive(Clone)]
pub(crate) struct Carrier {
    pub(crate) handler: Arc<dyn HttpHandler>,
    /// The path under which the handler is mounted.
    pub(crate) at: Arc<str>,
    pub(crate) times: BodyTimes,
    pub(crate) stopping: Option<StopSignal>,
}

impl Carrier {
    pub(crate) fn new(handler: Arc<dyn HttpHandler>, at: &str) -> Self {
        Self { handler, at: Arc::from(at), times: BodyTimes::default(), stopping: None }
    }
}

/// Returns the service that answers with a handler.
pub(crate) fn actix_service(
    carrier: Carrier,
) -> impl ServiceFactory<
    ServiceRequest,
    Config = (),
    Response = ServiceResponse,
    Error = ActixError,
    InitError = (),
> + 'static {
    actix_web::dev::fn_service(move |request: ServiceRequest| {
        let carrier = carrier.clone();
        async move {
            let (request, payload) = request.into_parts();
            let response = carrier.carry(&request, payload).await;
            Ok(ServiceResponse::new(request, response))
        }
    })
}

impl Carrier {
    async fn carry(self, request: &HttpRequest, payload: Payload) -> HttpResponse {
        let Some(mut carried) = self.head(request) else {
            return HttpResponse::new(old::StatusCode::BAD_REQUEST);
        };
        if let Err(status) = check_head(carried.headers()) {
            let status = old::StatusCode::from_u16(status.as_u16()).unwrap_or(old::StatusCode::BAD_REQUEST);
            let mut refused = HttpResponse::new(status);
            refused.head_mut().set_connection_type(old::ConnectionType::Close);
            return refused;
        }
        let names_socket = matches!(payload, Payload::H1 { .. }) && carried.headers().contains_key(UPGRADE);
        let mut raw = None;
        if is_upgrade(carried.method(), carried.headers()) {
            raw = Some(payload);
        } else {
            let payload = if names_socket { stated_part(carried.headers(), payload) } else { payload };
            *carried.body_mut() = body(carried.headers(), payload, self.times).await.within(self.times);
        }
        let response = self.handler.answer(carried).await;
        let is_socket = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        let mut response = self.respond(response, raw);
        if names_socket && !is_socket {
            // A request behind it would never be seen.
            response.head_mut().set_connection_type(old::ConnectionType::Close);
        }
        response
    }

    /// Returns the request as the handler is given it, without its body.
    fn head(&self, request: &HttpRequest) -> Option<Request> {
        let mut headers = HeaderMap::with_capacity(request.headers().len());
        for (name, value) in request.headers() {
            let name = HeaderName::from_bytes(name.as_str().as_bytes()).ok()?;
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).ok()?);
        }
        let mut carried = Request::new(RequestBody::empty());
        *carried.method_mut() = Method::from_bytes(request.method().as_str().as_bytes()).ok()?;
        *carried.uri_mut() = self.uri(request)?;
        *carried.version_mut() = match request.version() {
            old::Version::HTTP_10 => Version::HTTP_10,
            old::Version::HTTP_2 => Version::HTTP_2,
            _ => Version::HTTP_11,
        };
        *carried.headers_mut() = headers;
        let extensions = carried.extensions_mut();
        mount_deeper(extensions, &self.at);
        if let Some(address) = request.peer_addr() {
            extensions.insert(ClientAddress(address));
        }
        if request.app_config().secure() {
            extensions.insert(OverTls);
        }
        if let Some(stopping) = &self.stopping {
            extensions.insert(stopping.clone());
        }
        Some(carried)
    }

    /// Returns the address as the handler is given it: the path under the place of the handler, and the query.
    fn uri(&self, request: &HttpRequest) -> Option<Uri> {
        // The host of a request that names it in its first line is checked as the one of its header is.
        if self.at.is_empty()
            && request.uri().authority().is_none()
            && let Some(whole) = request.uri().path_and_query().filter(|whole| whole.path().starts_with('/'))
        {
            return Some(PathAndQuery::from_str(whole.as_str()).ok()?.into());
        }
        let uri: Uri = request.uri().to_string().parse().ok()?;
        let path = uri.path().strip_prefix(&*self.at).unwrap_or(uri.path());
        Some(with_path(&uri, if path.is_empty() { "/" } else { path }))
    }

    fn respond(&self, response: Response, raw: Option<Payload>) -> HttpResponse {
        let (parts, body) = response.into_parts();
        let status = old::StatusCode::from_u16(parts.status.as_u16());
        let mut response = HttpResponse::new(status.unwrap_or(old::StatusCode::INTERNAL_SERVER_ERROR));
        for (name, value) in &parts.headers {
            let name = old::header::HeaderName::from_bytes(name.as_str().as_bytes());
            let value = old::header::HeaderValue::from_bytes(value.as_bytes());
            if let (Ok(name), Ok(value)) = (name, value) {
                response.headers_mut().append(name, value);
            }
        }
        let cut = || -> BoxFuture<'static, ()> {
            match self.stopping.clone() {
                Some(stopping) => Box::pin(stopping.cut()),
                None => Box::pin(std::future::pending()),
            }
        };
        match (body, raw) {
            // A long one is given on in slices: actix-web copies what it is given into a buffer of the connection.
            (ResponseBody::Whole(bytes), _) if bytes.len() > ANSWER_UNCOUNTED => {
                let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                let slices = stream::unfold(bytes, |mut rest| async move {
                    let slice = rest.split_to(rest.len().min(ANSWER_UNCOUNTED));
                    (!slice.is_empty()).then_some((Ok::<_, ActixError>(slice), rest))
                });
                response.set_body(BoxBody::new(SizedStream::new(length, Box::pin(slices))))
            }
            (ResponseBody::Whole(bytes), _) => response.set_body(BoxBody::new(bytes)),
            (ResponseBody::Pieces(pieces), _) => {
                let pieces = pieces.take_until(cut()).map(Ok::<_, ActixError>);
                response.set_body(BoxBody::new(BodyStream::new(pieces)))
            }
            (ResponseBody::Upgrade(serve), Some(payload)) => {
                debug_assert_eq!(parts.status, StatusCode::SWITCHING_PROTOCOLS, "an upgrade has this status");
                let (ours, theirs) = tokio::io::duplex(SOCKET_BUFFER);
                let serve = serve(theirs);
                let upgraded = UpgradedConnection {
                    payload: Some(payload),
                    arrived: Bytes::new(),
                    ours,
                    serve: Some(serve),
                };
                response.head_mut().set_connection_type(old::ConnectionType::Upgrade);
                let bytes = upgraded.take_until(cut()).map(Ok::<_, ActixError>);
                response.set_body(BoxBody::new(BodyStream::new(bytes)))
            }
            (ResponseBody::Upgrade(_), None) => HttpResponse::new(old::StatusCode::BAD_REQUEST),
        }
    }
}

/// Returns the length that the head of a request states.
fn stated_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns the part of what arrives that is the body by the head (RFC 9112, 6.3). actix takes all that follows a head which names
/// a WebSocket as the bytes of the socket, without an end, whatever the method and the length.
fn stated_part(headers: &HeaderMap, payload: Payload) -> Payload {
    if headers.contains_key(TRANSFER_ENCODING) {
        return payload;
    }
    let length = stated_length(headers).unwrap_or(0);
    let bytes = stream::unfold((payload, length), async |(mut payload, left)| {
        if left == 0 {
            return None;
        }
        let mut piece = payload.next().await?;
        if let Ok(bytes) = &mut piece {
            bytes.truncate(left);
        }
        let left = piece.as_ref().map_or(0, |bytes| left - bytes.len());
        Some((piece, (payload, left)))
    });
    Payload::Stream { payload: Box::pin(bytes) }
}

/// Returns the body of a request. A short one is read at once; a long one arrives through a channel, since the handler may be
/// carried out on any thread.
async fn body(headers: &HeaderMap, mut payload: Payload, times: BodyTimes) -> RequestBody {
    if matches!(payload, Payload::None) {
        return RequestBody::empty();
    }
    if stated_length(headers).is_some_and(|length| length <= BODY_AT_ONCE) {
        let pieces = payload.map(|piece| piece.map_err(|error| BodyError::Broken(error.to_string())));
        return match read_whole(pieces, times, BODY_AT_ONCE).await {
            Ok(bytes) => RequestBody::from(bytes),
            Err(error) => RequestBody::new(stream::iter([Err(error)])),
        };
    }
    let (send, receive) = mpsc::channel(BODY_PIECES_WAITING);
    rt::spawn(async move {
        while let Some(piece) = payload.next().await {
            let piece = piece.map_err(|error| BodyError::Broken(error.to_string()));
            let is_last = piece.is_err();
            if send.send(piece).await.is_err() || is_last {
                return;
            }
        }
    });
    RequestBody::new(stream::unfold(receive, async |mut receive| Some((receive.recv().await?, receive))))
}

/// The bytes that are sent after an upgrade. Polling it carries what arrives to the handler, and the handler on.
struct UpgradedConnection {
    /// The pieces that the client sends; `None` once it has ended.
    payload: Option<Payload>,
    /// The pieces that have arrived and are not taken yet.
    arrived: Bytes,
    ours: DuplexStream,
    serve: Option<BoxFuture<'static, ()>>,
}

impl UpgradedConnection {
    /// Carries what the client sends to the handler, as far as that takes it.
    fn receive(&mut self, cx: &mut Context<'_>) {
        while let Some(payload) = &mut self.payload {
            if self.arrived.is_empty() {
                match Pin::new(payload).poll_next(cx) {
                    Poll::Ready(Some(Ok(bytes))) => self.arrived = bytes,
                    Poll::Ready(None | Some(Err(_))) => {
                        self.payload = None;
                        // Closing a pipe in memory does not wait.
                        let _closed = Pin::new(&mut self.ours).poll_shutdown(cx);
                    }
                    Poll::Pending => return,
                }
                continue;
            }
            match Pin::new(&mut self.ours).poll_write(cx, &self.arrived) {
                Poll::Ready(Ok(taken)) => drop(self.arrived.split_to(taken)),
                // The handler is gone: the rest is of no use.
                Poll::Ready(Err(_)) => self.payload = None,
                Poll::Pending => return,
            }
        }
    }
}

impl Stream for UpgradedConnection {
    type Item = Bytes;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = self.get_mut();
        this.receive(cx);
        // The end of the handler drops its end of the pipe, which ends the reading below.
        if this.serve.as_mut().is_some_and(|serve| serve.as_mut().poll(cx).is_ready()) {
            this.serve = None;
        }
        let mut bytes = vec![0; 16 * 1024];
        let mut read = ReadBuf::new(&mut bytes);
        match Pin::new(&mut this.ours).poll_read(cx, &mut read) {
            Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                let length = read.filled().len();
                bytes.truncate(length);
                Poll::Ready(Some(Bytes::from(bytes)))
            }
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}
