//! The parts of a server: its handlers, its bounds, its address.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Server as ActixServer;
use actix_web::{App, HttpServer};
use socket2::{Domain, Protocol, Socket, Type};
use taskreel::System;

use crate::handler::actix::{Carrier, actix_service};
use crate::handler::body::BodyTimes;
use crate::handler::connection::StopSignal;
use crate::handler::message::HttpHandler;
use crate::handler::mounts::Mounted;
use crate::limits::{CONNECTIONS_MAX, GRACE, HEAD_TIME_MAX, KEEP_ALIVE, READER_STALL_MAX};
use crate::protolink::Protolink;
use crate::serve::error::ServeError;
use crate::serve::running_server::RunningServer;

/// The connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// A server that is being put together. It has workers and threads of its own, so that it is started from any runtime.
///
/// ```
/// # use std::sync::Arc;
/// # use taskreel::System;
/// use taskreel_http::{Protolink, Server};
///
/// # async fn run(system: System) -> Result<(), taskreel_http::ServeError> {
/// let serving = Server::new().mount("/", Arc::new(Protolink::new(system))).start("127.0.0.1:0").await?;
/// println!("listening at {}", serving.address());
/// serving.stop().await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Server {
    handlers: Mounted,
    workers: usize,
    grace: Duration,
    times: BodyTimes,
    head_time: Duration,
    keep_alive: Duration,
    reader_stall: Duration,
    connections: usize,
    is_for_everybody: bool,
    #[cfg(feature = "tls")]
    tls: Option<Arc<rustls::ServerConfig>>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            handlers: Mounted::new(),
            workers: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            grace: GRACE,
            times: BodyTimes::default(),
            head_time: HEAD_TIME_MAX,
            keep_alive: KEEP_ALIVE,
            reader_stall: READER_STALL_MAX,
            connections: CONNECTIONS_MAX,
            is_for_everybody: false,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

impl Server {
    /// Returns a server without a handler.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler at a prefix, as [`Mounted::mount`] does.
    #[must_use]
    pub fn mount(mut self, prefix: &str, handler: Arc<dyn HttpHandler>) -> Self {
        self.handlers = self.handlers.mount(prefix, handler);
        self
    }

    /// Puts the handlers that were added so far behind another one, such as a check of credentials.
    #[must_use]
    pub fn behind(mut self, wrap: impl FnOnce(Arc<dyn HttpHandler>) -> Arc<dyn HttpHandler>) -> Self {
        let handlers = std::mem::take(&mut self.handlers);
        self.handlers = Mounted::new().mount("/", wrap(Arc::new(handlers)));
        self
    }

    /// Sets the number of threads that answer; one for each processor by default.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Sets the time that a server which stops leaves to the requests in flight; [`GRACE`] by default.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets the times in which a request's body must arrive.
    #[must_use]
    pub fn body_times(mut self, times: BodyTimes) -> Self {
        self.times = times;
        self
    }

    /// Sets the time in which a request's head must arrive, and the first request of a connection.
    #[must_use]
    pub fn head_time(mut self, time: Duration) -> Self {
        self.head_time = time;
        self
    }

    /// Sets the time for which a connection without a request is kept.
    #[must_use]
    pub fn keep_alive(mut self, time: Duration) -> Self {
        self.keep_alive = time;
        self
    }

    /// Sets the time after which a client is cut off that takes nothing of what is sent to it. The operating system
    /// enforces it, on Linux.
    #[must_use]
    pub fn reader_stall(mut self, time: Duration) -> Self {
        self.reader_stall = time;
        self
    }

    /// Sets the most connections at one time; further ones wait to be accepted.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.max(1);
        self
    }

    /// Lets the server listen for other machines though no handler asks its callers for a credential: for a host where something
    /// before it does.
    #[must_use]
    pub fn for_everybody(mut self) -> Self {
        self.is_for_everybody = true;
        self
    }

    /// Serves by TLS, with these settings; [`server_config`](crate::server_config) makes them of files.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, config: rustls::ServerConfig) -> Self {
        self.tls = Some(Arc::new(config));
        self
    }

    /// Binds the addresses and begins to answer there. Port 0 is any free one; [`RunningServer::address`] names it.
    ///
    /// # Errors
    /// [`ServeError`] if an address cannot be bound, or one is for other machines and a handler asks its callers for no
    /// credential ([`Server::for_everybody`]).
    pub async fn start(self, addresses: impl ToSocketAddrs) -> Result<RunningServer, ServeError> {
        let listeners = self.listeners(addresses)?;
        let bound: Result<Vec<_>, _> = listeners.iter().map(TcpListener::local_addr).collect();
        let grace = self.grace;
        let (say, stopping) = StopSignal::new();
        RunningServer::start(bound?, say, grace, move || self.actix(listeners, stopping)).await
    }

    /// Binds the addresses and begins to answer there over HTTP/2 with trailers, as gRPC needs: for a port of its own with
    /// [`A2a::grpc`](crate::A2a::grpc). What its handlers refuse, a missing credential for one, is told as a status of gRPC.
    ///
    /// # Errors
    /// As of [`Server::start`].
    #[cfg(feature = "grpc")]
    #[allow(clippy::unused_async, reason = "the same handler as `start`")]
    pub async fn start_grpc(self, addresses: impl ToSocketAddrs) -> Result<RunningServer, ServeError> {
        let listeners = self.listeners(addresses)?;
        let bound: Result<Vec<_>, _> = listeners.iter().map(TcpListener::local_addr).collect();
        let (say, stopping) = StopSignal::new();
        let grace = self.grace;
        let port = crate::serve::grpc::Port {
            handler: Arc::new(self.handlers),
            times: self.times,
            head_time: self.head_time,
            workers: self.workers,
            connections: self.connections,
            stopping,
            #[cfg(feature = "tls")]
            tls: self.tls,
        };
        RunningServer::launch(bound?, say, grace, move || port.run(listeners))
    }

    fn listeners(&self, addresses: impl ToSocketAddrs) -> Result<Vec<TcpListener>, ServeError> {
        let mut listeners = Vec::new();
        let is_open = self.is_for_everybody || self.handlers.checks_callers();
        for address in addresses.to_socket_addrs()? {
            if !is_open && !address.ip().to_canonical().is_loopback() {
                return Err(ServeError::Unguarded { address });
            }
            let listener = self.listener(address).map_err(|source| ServeError::Bind { address, source })?;
            listeners.push(listener);
        }
        if listeners.is_empty() { Err(ServeError::NoAddress) } else { Ok(listeners) }
    }

    /// Returns a listener, whose connections inherit the bound for clients that take nothing, and that nothing waits for an
    /// acknowledgement: the first event of a stream would, behind the head of its response, for some 40 milliseconds.
    fn listener(&self, address: SocketAddr) -> std::io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(self.reader_stall))?;
        socket.set_tcp_nodelay(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    }

    /// Returns the server of actix-web. It must be called on the thread that runs it.
    fn actix(self, listeners: Vec<TcpListener>, stopping: StopSignal) -> std::io::Result<ActixServer> {
        let handler: Arc<dyn HttpHandler> = Arc::new(self.handlers);
        let carrier = Carrier { times: self.times, stopping: Some(stopping), ..Carrier::new(handler, "") };
        let make = move || App::new().default_service(actix_service(carrier.clone()));
        // The connections that are still open when the grace time is over are cut off by then.
        let patience = self.grace.saturating_add(Duration::from_secs(2)).as_secs().max(1);
        let mut server = HttpServer::new(make)
            .workers(self.workers)
            .keep_alive(self.keep_alive)
            .client_request_timeout(self.head_time)
            .client_disconnect_timeout(Duration::from_secs(2))
            .h1_allow_half_closed(false)
            .max_connections(self.connections.div_ceil(self.workers).max(1))
            .shutdown_timeout(patience)
            .disable_signals();
        for listener in listeners {
            #[cfg(feature = "tls")]
            if let Some(config) = &self.tls {
                server = server.listen_rustls_0_23(listener, rustls::ServerConfig::clone(config))?;
                continue;
            }
            server = server.listen(listener)?;
        }
        Ok(server.run())
    }
}

/// Serves a system's agents with Protolink's wire protocol at an address of this machine, on threads of its own. Callers are
/// asked for no credential: a [`Server`] with a [`Guard`](crate::Guard) listens for other machines.
///
/// ```
/// # async fn run(system: taskreel::System) -> Result<(), taskreel_http::ServeError> {
/// let serving = taskreel_http::serve(system, "127.0.0.1:8080").await?;
/// # serving.stop().await
/// # }
/// ```
///
/// # Errors
/// [`ServeError`] if the address cannot be bound, or is one for other machines.
pub async fn serve(system: System, addresses: impl ToSocketAddrs) -> Result<RunningServer, ServeError> {
    Server::new().mount("/", Arc::new(Protolink::new(system))).start(addresses).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_connection_waits_for_no_acknowledgement() {
        let listener = Server::new().listener(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(listener.accept().unwrap().0.nodelay().unwrap());
    }
}
