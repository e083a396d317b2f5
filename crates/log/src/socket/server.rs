//! The server end of the local socket, in the program that holds a log: it listens, with a thread for each client.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::api::holder::Holder;
use crate::api::store::EventStore;
use crate::sled::store::Held;
use crate::sled::{LogHeader, SledStore};
use crate::socket::connection;
use crate::socket::error::SocketUnavailable;
use crate::socket::operator::OperatorHandler;
use crate::socket::peer::Peer;
use crate::socket::place::SocketDirectory;
use crate::socket::state::{Phase, State};
use crate::socket::wire::{Answer, PROTOCOL, Welcome};

/// Time after a connection could not be accepted, as when the process has no descriptor left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// The open socket of a log. Dropping it closes it and ends all of its connections.
#[derive(Debug)]
pub struct LocalSocket {
    place: SocketDirectory,
    listener: Arc<UnixListener>,
    state: Arc<State>,
    accepting: Option<JoinHandle<()>>,
}

/// The proof that a program holds the log of a directory, and so may open the socket there. It is of no use once the log is
/// closed, until it is reopened by [`EventStore::reopen`]: the directory may be another program's by then.
#[derive(Debug, Clone)]
pub struct SocketPath {
    dir: PathBuf,
    header: LogHeader,
    holder: Holder,
    held: Held,
}

impl SledStore {
    /// Returns the place of the log's socket. Only who holds the log has it.
    pub fn socket_path(&self) -> SocketPath {
        let (dir, held) = (self.dir().to_owned(), Arc::clone(&self.held));
        SocketPath { dir, header: self.header(), holder: self.holder().clone(), held }
    }
}

impl LocalSocket {
    /// Opens the socket of the log that `store` writes. A socket that a dead process left is replaced. `operator handler` carries out
    /// the decisions that come through it; without one it takes none.
    ///
    /// # Errors
    /// [`SocketUnavailable`] if the system has no such sockets, the directory takes none, or the log of this place is closed. The log
    /// works without a socket.
    pub fn open(
        place: &SocketPath,
        store: Arc<dyn EventStore>,
        operator: Option<Arc<dyn OperatorHandler>>,
    ) -> Result<Self, SocketUnavailable> {
        let off = |source| SocketUnavailable { path: place.dir.clone(), source };
        // A system that does not state peers must not have a socket.
        let (one, _other) = UnixStream::pair().map_err(off)?;
        Peer::from_stream(&one).map_err(off)?;
        let SocketPath { dir, header, holder, held } = place;
        let place = SocketDirectory::from_dir(dir).map_err(off)?;
        let listener = {
            // Closing the log waits for this guard, so that no socket of another program is replaced.
            let is_held = held.read().unwrap_or_else(PoisonError::into_inner);
            if !*is_held {
                let what = "this program has closed the log";
                return Err(off(io::Error::new(io::ErrorKind::NotConnected, what)));
            }
            Arc::new(place.bind().map_err(off)?)
        };
        let welcome = Welcome {
            protocol: PROTOCOL,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            pid: holder.pid,
            program: holder.program.clone(),
            started: holder.started.clone(),
            format: header.format,
            log: header.id.to_string(),
            durability: header.durability.name().to_owned(),
            takes_decisions: operator.is_some(),
            poisoned: None,
        };
        let state = Arc::new(State::new(store, operator, welcome));
        let (entrance, shared) = (Arc::clone(&listener), Arc::clone(&state));
        let accepting = std::thread::Builder::new().name("log-socket".to_owned());
        let accepting = accepting.spawn(move || accept(&entrance, &shared));
        match accepting {
            Ok(accepting) => Ok(Self { place, listener, state, accepting: Some(accepting) }),
            Err(error) => {
                let _ = place.remove();
                Err(off(error))
            }
        }
    }

    /// Takes no more clients, and removes the socket. Those who are connected are served until the socket is dropped. Call
    /// it before the log is closed: after that the directory may be another program's.
    #[must_use = "dropping the socket ends its connections"]
    pub fn shut(mut self) -> Self {
        self.end_entrance();
        self
    }

    fn end_entrance(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.state.phase.send_replace(Phase::Shut);
        if let Err(error) = self.place.remove() {
            tracing::warn!(%error, "the file of the local socket could not be removed");
        }
        wake(&self.listener, &self.place);
        let _ = accepting.join();
    }

    /// Returns the number of connected clients.
    pub fn clients(&self) -> usize {
        self.state.clients()
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        self.end_entrance();
        self.state.close_connections();
    }
}

/// Ends the waiting of the thread that accepts clients.
fn wake(listener: &UnixListener, place: &SocketDirectory) {
    if rustix::net::shutdown(listener, rustix::net::Shutdown::Both).is_err() {
        let _ = place.connect();
    }
}

/// Accepts clients until the socket is closed.
fn accept(listener: &UnixListener, state: &Arc<State>) {
    loop {
        let accepted = listener.accept();
        if *state.phase.borrow() != Phase::Open {
            return;
        }
        let admitted = accepted.and_then(|(stream, _)| admit(state, stream));
        if let Err(error) = admitted {
            tracing::debug!(%error, "a client of the local socket was not served");
            std::thread::sleep(ACCEPT_AGAIN);
        }
    }
}

/// Begins to serve a client, unless it is another user or all places are taken.
fn admit(state: &Arc<State>, stream: UnixStream) -> io::Result<()> {
    let peer = Peer::from_stream(&stream)?;
    if !peer.is_welcome() {
        tracing::warn!(
            uid = peer.uid,
            pid = peer.pid,
            "a client of another user was refused at the local socket"
        );
        let _ = connection::refuse(&stream, &Answer::NotAllowed);
        return Ok(());
    }
    let Some(entered) = state.enter(&stream)? else {
        // Into the empty buffer of a new connection, so that nothing waits.
        let _ = connection::refuse(&stream, &Answer::Busy);
        return Ok(());
    };
    let serve = move || {
        let served = connection::serve(&entered.state, &stream, &peer);
        // The clone that ends connections would keep it open.
        let _ = stream.shutdown(Shutdown::Both);
        if let Err(error) = served {
            tracing::debug!(%error, pid = peer.pid, "a connection of the local socket ended early");
        }
        drop(entered);
    };
    std::thread::Builder::new().name("log-socket-client".to_owned()).spawn(serve).map(drop)
}

impl SocketPath {
    /// Returns the log's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether both are the place of one log that this process has open.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }
}
