//! The state that the threads of a socket share: the store, the operator handler, the connections.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::api::store::EventStore;
use crate::limits::{
    SOCKET_CONNECTIONS, SOCKET_END_WITHIN, SOCKET_FOLLOWERS, SOCKET_INDEX_SURVEYS, SOCKET_SURVEYS,
};
use crate::socket::operator::OperatorHandler;
use crate::socket::wire::Welcome;

/// The state that the threads of a socket share.
pub(crate) struct State {
    /// The store that is read; none once the socket is closed.
    store: RwLock<Option<Arc<dyn EventStore>>>,
    pub(crate) operator: Option<Arc<dyn OperatorHandler>>,
    welcome: Welcome,
    /// The connections, to end them.
    connections: Mutex<Connections>,
    /// Notified when a connection has ended.
    left: Condvar,
    pub(crate) phase: watch::Sender<Phase>,
    /// The places of those who follow.
    pub(crate) followers: Places,
    /// The places of those whose survey of the index is being made.
    pub(crate) index_surveys: Places,
    /// The places of those to whom a survey of the records is sent.
    pub(crate) surveys: Places,
}

/// The life of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Clients are taken.
    Open,
    /// No more clients are taken; those that are connected are served.
    Shut,
    /// The socket is gone: no client is served.
    Gone,
}

#[derive(Default)]
struct Connections {
    next: u64,
    open: HashMap<u64, UnixStream>,
}

impl Connections {
    fn shutdown(&self, how: Shutdown) {
        for stream in self.open.values() {
            // Its client may have ended it.
            let _ = stream.shutdown(how);
        }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("welcome", &self.welcome).finish_non_exhaustive()
    }
}

impl State {
    /// Returns the state of a socket that is open.
    pub(crate) fn new(
        store: Arc<dyn EventStore>,
        operator: Option<Arc<dyn OperatorHandler>>,
        welcome: Welcome,
    ) -> Self {
        let (store, phase) = (RwLock::new(Some(store)), watch::Sender::new(Phase::Open));
        Self {
            store,
            operator,
            welcome,
            connections: Mutex::default(),
            left: Condvar::new(),
            phase,
            followers: Places::new(SOCKET_FOLLOWERS),
            index_surveys: Places::new(SOCKET_INDEX_SURVEYS),
            surveys: Places::new(SOCKET_SURVEYS),
        }
    }

    /// Ends all connections, and lets go of the store. Followers are told of the end, and answers under way are sent, as far as
    /// their clients read them soon.
    pub(crate) fn close_connections(&self) {
        self.phase.send_replace(Phase::Gone);
        self.store.write().unwrap_or_else(PoisonError::into_inner).take();
        self.index_surveys.close();
        self.surveys.close();
        let connections = self.connections();
        connections.shutdown(Shutdown::Read);
        let is_served = |connections: &mut Connections| !connections.open.is_empty();
        let left = self.left.wait_timeout_while(connections, SOCKET_END_WITHIN, is_served);
        let (connections, _) = left.unwrap_or_else(PoisonError::into_inner);
        connections.shutdown(Shutdown::Both);
    }

    /// Whether the socket is gone.
    pub(crate) fn is_gone(&self) -> bool {
        *self.phase.borrow() == Phase::Gone
    }

    /// Returns what a client is told of the program and its log when it connects.
    pub(crate) fn welcome(&self) -> Welcome {
        Welcome { poisoned: self.store().and_then(|store| store.poisoned()), ..self.welcome.clone() }
    }

    /// Returns the number of connections.
    pub(crate) fn clients(&self) -> usize {
        self.connections().open.len()
    }

    /// Returns the store; none once the socket is closed.
    pub(crate) fn store(&self) -> Option<Arc<dyn EventStore>> {
        self.store.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a connection; none if all are taken.
    pub(crate) fn enter(self: &Arc<Self>, stream: &UnixStream) -> io::Result<Option<EnteredClient>> {
        let mut connections = self.connections();
        if connections.open.len() >= SOCKET_CONNECTIONS {
            return Ok(None);
        }
        let number = connections.next;
        connections.next += 1;
        connections.open.insert(number, stream.try_clone()?);
        Ok(Some(EnteredClient { state: Arc::clone(self), number }))
    }
}

/// A number of places, each for one client at a time.
#[derive(Debug)]
pub(crate) struct Places {
    /// The number of free places; none once nobody waits any more.
    free: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Places {
    fn new(number: usize) -> Self {
        Self { free: Mutex::new(Some(number)), changed: Condvar::new() }
    }

    /// Takes a place, after waiting for one for at most this time.
    pub(crate) fn acquire(&self, within: Duration) -> Option<TakenPlace<'_>> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(free, within, |free| *free == Some(0));
        let (mut free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let left = free.as_mut().filter(|left| **left > 0)?;
        *left -= 1;
        Some(TakenPlace(self))
    }

    /// Ends all waiting; no further place is given.
    fn close(&self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.changed.notify_all();
    }
}

/// A place that a client has. It is free again when this value is dropped.
#[derive(Debug)]
pub(crate) struct TakenPlace<'a>(&'a Places);

impl Drop for TakenPlace<'_> {
    fn drop(&mut self) {
        if let Some(free) = self.0.free.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            *free += 1;
        }
        self.0.changed.notify_one();
    }
}

/// The place of one connection. It is free again when this value is dropped.
pub(crate) struct EnteredClient {
    pub(crate) state: Arc<State>,
    number: u64,
}

impl Drop for EnteredClient {
    fn drop(&mut self) {
        self.state.connections().open.remove(&self.number);
        self.state.left.notify_all();
    }
}
