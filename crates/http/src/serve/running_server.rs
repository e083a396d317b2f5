//! A server that runs, and its end.

use std::net::SocketAddr;
use std::time::Duration;

use actix_web::dev::{Server as ActixServer, ServerHandle};
use tokio::sync::{oneshot, watch};

use crate::handler::connection::Phase;
use crate::serve::error::ServeError;

/// A server that runs on threads of its own. Dropping it stops the server as [`RunningServer::stop`] does, without waiting.
pub struct RunningServer {
    bound: Vec<SocketAddr>,
    /// The handle of actix-web; `None` where a server of ours hears the word itself.
    handle: Option<ServerHandle>,
    say: watch::Sender<Phase>,
    grace: Duration,
    ended: Option<oneshot::Receiver<std::io::Result<()>>>,
}

impl std::fmt::Debug for RunningServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningServer").field("bound", &self.bound).finish_non_exhaustive()
    }
}

impl RunningServer {
    /// Starts a server on a thread of its own and waits until it accepts.
    pub(crate) async fn start(
        bound: Vec<SocketAddr>,
        say: watch::Sender<Phase>,
        grace: Duration,
        make: impl FnOnce() -> std::io::Result<ActixServer> + Send + 'static,
    ) -> Result<Self, ServeError> {
        let (started, start) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name("taskreel-http".to_owned()).spawn(move || {
            let run = async move {
                let server = make()?;
                // The receiver may have given up; the server then ends with its handle.
                let _heard = started.send(server.handle());
                server.await
            };
            let _heard = end.send(actix_web::rt::System::new().block_on(run));
        })?;
        match start.await {
            Ok(handle) => Ok(Self { bound, handle: Some(handle), say, grace, ended: Some(ended) }),
            Err(_) => Err(match ended.await {
                Ok(Err(error)) => error.into(),
                _ => std::io::Error::other("its thread ended").into(),
            }),
        }
    }

    /// Starts a server that hears the word itself, on a thread of its own. Its listeners accept already.
    #[cfg(feature = "grpc")]
    pub(crate) fn launch(
        bound: Vec<SocketAddr>,
        say: watch::Sender<Phase>,
        grace: Duration,
        run: impl FnOnce() -> std::io::Result<()> + Send + 'static,
    ) -> Result<Self, ServeError> {
        let (end, ended) = oneshot::channel();
        std::thread::Builder::new().name("taskreel-grpc".to_owned()).spawn(move || {
            let _heard = end.send(run());
        })?;
        Ok(Self { bound, handle: None, say, grace, ended: Some(ended) })
    }

    /// Returns the address at which the server listens: the first one, if it has several.
    pub fn address(&self) -> SocketAddr {
        self.bound.first().copied().unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    /// Returns the addresses at which the server listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.bound
    }

    /// Waits until the server has ended by itself. Cancel-safe, so that it stands beside the wait for a signal.
    ///
    /// # Errors
    /// [`ServeError`] if it could not go on.
    pub async fn wait_ended(&mut self) -> Result<(), ServeError> {
        let Some(ended) = &mut self.ended else { return Ok(()) };
        let result = ended.await;
        self.ended = None;
        match result {
            Ok(result) => Ok(result?),
            Err(_) => Err(std::io::Error::other("its thread panicked").into()),
        }
    }

    /// Stops the server: it accepts nothing more, requests in flight have the grace time to end, and what is left then is
    /// cut off. Endless streams end at once. The system goes on: shut it down afterwards.
    ///
    /// # Errors
    /// [`ServeError`] if the server had failed before.
    pub async fn stop(mut self) -> Result<(), ServeError> {
        // Without a request in flight nobody listens.
        self.say.send_replace(Phase::Draining);
        let Some(handle) = &self.handle else {
            if let Ok(ended) = tokio::time::timeout(self.grace, self.wait_ended()).await {
                return ended;
            }
            self.say.send_replace(Phase::Cutting);
            return self.wait_ended().await;
        };
        let stop = handle.stop(true);
        tokio::pin!(stop);
        if tokio::time::timeout(self.grace, &mut stop).await.is_err() {
            self.say.send_replace(Phase::Cutting);
            stop.await;
        }
        self.wait_ended().await
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        if self.ended.is_some() {
            self.say.send_replace(Phase::Cutting);
            // The order is given when the future is made.
            drop(self.handle.as_ref().map(|handle| handle.stop(true)));
        }
    }
}
