//! The port of gRPC: HTTP/2 with trailers, on hyper. actix-web sends no trailers, in which gRPC has its status.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request as HttpRequest, Response as HttpResponse, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use taskreel::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tower_service::Service as _;

use crate::handler::body::BodyTimes;
use crate::handler::connection::{ClientAddress, StopSignal};
use crate::handler::message::{HttpHandler, Request, Response, ResponseBody};
use crate::handler::tower::{HandlerBody, HandlerService};
use crate::handler::trailers::is_grpc;
use crate::limits::{GRPC_CALLS_MAX, GRPC_IDLE_MAX, GRPC_PING, HEADERS_MAX};

/// The pause before a connection is accepted again where the process has no more descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// A port that is about to answer.
pub(crate) struct Port {
    pub(crate) handler: Arc<dyn HttpHandler>,
    pub(crate) times: BodyTimes,
    pub(crate) head_time: Duration,
    pub(crate) workers: usize,
    pub(crate) connections: usize,
    pub(crate) stopping: StopSignal,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
}

/// The parts of a port that each connection needs.
#[derive(Clone)]
struct PortState {
    service: HandlerService,
    head_time: Duration,
    stopping: StopSignal,
    #[cfg(feature = "tls")]
    tls: Option<tokio_rustls::TlsAcceptor>,
    /// Dropped by the last connection.
    open: mpsc::Sender<()>,
}

impl Port {
    /// Answers until the word to stop has come and the connections have ended.
    pub(crate) fn run(self, listeners: Vec<TcpListener>) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.workers)
            .thread_name("taskreel-grpc")
            .enable_all()
            .build()?;
        runtime.block_on(self.serve(listeners))
    }

    async fn serve(self, listeners: Vec<TcpListener>) -> std::io::Result<()> {
        let (open, mut closed) = mpsc::channel(1);
        let shared = PortState {
            service: HandlerService::new(Arc::new(AsGrpc(self.handler))).body_times(self.times),
            head_time: self.head_time,
            stopping: self.stopping.clone(),
            #[cfg(feature = "tls")]
            tls: self.tls.as_deref().map(acceptor),
            open,
        };
        let places = Arc::new(Semaphore::new(self.connections));
        for listener in listeners {
            listener.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::spawn(accept(listener, Arc::clone(&places), shared.clone()));
        }
        drop(shared);
        self.stopping.begun().await;
        // The last connection that ends, and each listener, drops its end.
        let _none = closed.recv().await;
        Ok(())
    }
}

/// Returns what accepts TLS, with HTTP/2 as the protocol.
#[cfg(feature = "tls")]
fn acceptor(config: &rustls::ServerConfig) -> tokio_rustls::TlsAcceptor {
    let mut config = config.clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    tokio_rustls::TlsAcceptor::from(Arc::new(config))
}

async fn accept(listener: tokio::net::TcpListener, places: Arc<Semaphore>, shared: PortState) {
    loop {
        let stops = shared.stopping.clone().begun();
        let next = async {
            // Nothing closes it.
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            Some((listener.accept().await, place))
        };
        let (accepted, place) = tokio::select! {
            next = next => match next {
                Some(next) => next,
                None => return,
            },
            () = stops => return,
        };
        match accepted {
            Ok((stream, client)) => {
                let shared = shared.clone();
                tokio::spawn(async move {
                    connected(stream, client, shared).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection of gRPC could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn connected(stream: TcpStream, client: SocketAddr, shared: PortState) {
    // An answer is small and awaited.
    let _as_it_is = stream.set_nodelay(true);
    #[cfg(feature = "tls")]
    if let Some(acceptor) = &shared.tls {
        let accepted = tokio::time::timeout(shared.head_time, acceptor.accept(stream)).await;
        if let Ok(Ok(stream)) = accepted {
            carry(stream, client, true, shared.clone()).await;
        }
        return;
    }
    carry(stream, client, false, shared).await;
}

/// The calls of a connection.
#[derive(Default)]
struct OpenCalls {
    open: AtomicUsize,
    /// All that there were so far.
    seen: AtomicUsize,
}

/// A call that is open, up to the end of its answer's body.
struct OpenConnection(Arc<OpenCalls>);

impl OpenConnection {
    fn new(calls: &Arc<OpenCalls>) -> Self {
        calls.open.fetch_add(1, Ordering::Relaxed);
        calls.seen.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(calls))
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers the calls of a connection until it ends, is idle for too long, or the server stops.
async fn carry(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: SocketAddr,
    is_tls: bool,
    shared: PortState,
) {
    let PortState { service, head_time, stopping, open, .. } = shared;
    let calls = Arc::new(OpenCalls::default());
    let answered = {
        let (calls, stopping) = (Arc::clone(&calls), stopping.clone());
        service_fn(move |mut request: HttpRequest<Incoming>| {
            let call = OpenConnection::new(&calls);
            request.extensions_mut().insert(ClientAddress(client));
            request.extensions_mut().insert(stopping.clone());
            if is_tls {
                request.extensions_mut().insert(crate::handler::connection::OverTls);
            }
            let answer = service.clone().call(request);
            async move {
                answer
                    .await
                    .map(|response: HttpResponse<HandlerBody>| response.map(|body| body.holding(call)))
            }
        })
    };
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(GRPC_CALLS_MAX)
        .max_header_list_size(u32::try_from(HEADERS_MAX).unwrap_or(u32::MAX))
        .keep_alive_interval(GRPC_PING)
        .keep_alive_timeout(GRPC_PING)
        .serve_connection(TokioIo::new(stream), answered);
    let mut connection = std::pin::pin!(connection);
    let mut ends = std::pin::pin!(stopping.clone().begun());
    let mut cut = std::pin::pin!(stopping.cut());
    let mut idle = std::pin::pin!(idle(&calls, head_time));
    let mut is_ending = false;
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection of gRPC has ended");
                }
                break;
            }
            () = &mut cut => break,
            () = &mut ends, if !is_ending => {
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
            () = &mut idle, if !is_ending => {
                if calls.seen.load(Ordering::Relaxed) == 0 {
                    break;
                }
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
    drop(open);
}

/// Waits until a connection has had no call for too long; the first one must come as soon as any request's head.
async fn idle(calls: &OpenCalls, head_time: Duration) {
    tokio::time::sleep(head_time).await;
    let mut seen = calls.seen.load(Ordering::Relaxed);
    if seen == 0 {
        return;
    }
    loop {
        tokio::time::sleep(GRPC_IDLE_MAX).await;
        let now = calls.seen.load(Ordering::Relaxed);
        if calls.open.load(Ordering::Relaxed) == 0 && now == seen {
            return;
        }
        seen = now;
    }
}

/// The handlers of the port, with what they refuse as statuses of gRPC.
struct AsGrpc(Arc<dyn HttpHandler>);

impl HttpHandler for AsGrpc {
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let is_call = is_grpc(request.headers());
        let answer = self.0.answer(request);
        Box::pin(async move {
            let response = answer.await;
            let is_answer = !is_call || is_grpc(response.headers());
            if is_answer { response } else { refused(&response) }
        })
    }

    fn serves(&self, path: &str) -> bool {
        self.0.serves(path)
    }

    fn checks_callers(&self) -> bool {
        self.0.checks_callers()
    }
}

/// Returns the status of gRPC for a refusal in HTTP: the numbers stand in gRPC's own table.
fn refused(response: &Response) -> Response {
    let (code, text) = match response.status() {
        StatusCode::BAD_REQUEST => (3, "the request cannot be read"),
        StatusCode::UNAUTHORIZED => (16, "the call needs a valid credential"),
        StatusCode::FORBIDDEN => (7, "the call is not allowed"),
        StatusCode::NOT_FOUND => (12, "there is no such service"),
        StatusCode::REQUEST_TIMEOUT => (4, "the request did not arrive in time"),
        StatusCode::PAYLOAD_TOO_LARGE => (8, "the message is too large"),
        StatusCode::TOO_MANY_REQUESTS => (8, "there are too many calls at once"),
        StatusCode::SERVICE_UNAVAILABLE => {
            (14, "the call was not answered in time; what was submitted goes on")
        }
        _ => (2, "the call was refused"),
    };
    let mut refused = HttpResponse::new(ResponseBody::Whole(Bytes::new()));
    let headers = refused.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from(code));
    headers.insert("grpc-message", HeaderValue::from_static(text));
    if let Some(after) = response.headers().get(http::header::RETRY_AFTER) {
        headers.insert(http::header::RETRY_AFTER, after.clone());
    }
    refused
}
