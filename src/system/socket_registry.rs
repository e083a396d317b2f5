//! The local sockets of this process: one for each log that its systems use, however many they are. The socket belongs to the process that
//! holds the log, so it is open as long as one of these systems is, and a decision reaches the system of the task's agent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use proto_events::id::{Category, StreamId};
use taskreel_log::api::EventStore;
use taskreel_log::socket::{
    LocalSocket, OperatorHandler, OperatorRefusal, OperatorReply, OperatorRequest, Peer, RefusalKind,
    SocketPath, SocketUnavailable,
};

/// The open sockets of this process. Opening, joining and shutting one is done under this lock.
static SOCKETS: Mutex<Vec<OpenSocket>> = Mutex::new(Vec::new());

/// A socket, and the systems that it is open for.
struct OpenSocket {
    place: SocketPath,
    socket: LocalSocket,
    operators: Arc<AgentOperators>,
}

/// The operator handler of one system: it decides about the tasks of its agents.
pub(crate) trait AgentOperator: Send + Sync {
    /// Returns the names of the agents.
    fn agents(&self) -> &[String];

    /// Carries out a decision about a task of one of the agents.
    fn carry_out(
        &self,
        peer: &Peer,
        task: &StreamId,
        request: OperatorRequest,
    ) -> Result<OperatorReply, OperatorRefusal>;
}

/// The operator handlers of the systems over one log, none of which has an agent of another.
struct AgentOperators(RwLock<Vec<Arc<dyn AgentOperator>>>);

impl AgentOperators {
    fn with<T>(&self, change: impl FnOnce(&mut Vec<Arc<dyn AgentOperator>>) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl OperatorHandler for AgentOperators {
    fn carry_out(&self, peer: &Peer, request: OperatorRequest) -> Result<OperatorReply, OperatorRefusal> {
        let stream = task_stream(&request)?;
        // The lock is not held while the decision is carried out.
        let operators = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let agent = stream.agent();
        match operators.iter().find(|operator| operator.agents().contains(&agent)) {
            Some(operator) => operator.carry_out(peer, &stream, request),
            None => Err(other_agent(&stream, &operators)),
        }
    }
}

fn refused(kind: RefusalKind, why: String) -> OperatorRefusal {
    OperatorRefusal { kind, why }
}

/// Returns the stream of the task that a decision is about.
fn task_stream(request: &OperatorRequest) -> Result<StreamId, OperatorRefusal> {
    let wrong = |why| refused(RefusalKind::Input, why);
    let stream = StreamId::parse(request.task()).map_err(|error| wrong(error.to_string()))?;
    if stream.category() == Some(Category::Task) {
        Ok(stream)
    } else {
        Err(wrong(format!("{stream} is no task")))
    }
}

/// Returns the refusal of a decision about a task of an agent that this program does not run.
fn other_agent(stream: &StreamId, runs: &[Arc<dyn AgentOperator>]) -> OperatorRefusal {
    let runs: Vec<_> =
        runs.iter().flat_map(|operator| operator.agents()).map(|agent| format!("`{agent}`")).collect();
    let agents = if runs.len() == 1 { "agent" } else { "agents" };
    let (agent, runs) = (stream.agent(), runs.join(", "));
    let why = format!("{stream} is a task of the agent `{agent}`; this program runs the {agents} {runs}");
    refused(RefusalKind::Rejected, why)
}

/// A system's share in the socket of its log.
#[derive(Default)]
pub(crate) struct SystemSocket {
    /// The place of the socket; none if the store is not in a directory, or the host wants no socket.
    pub(crate) place: Option<SocketPath>,
    state: Mutex<Share>,
}

#[derive(Default)]
struct Share {
    /// The system's operator handler at the open socket.
    operator: Option<Arc<dyn AgentOperator>>,
    /// The reason why the socket is shut although it was asked for.
    fault: Option<String>,
}

impl SystemSocket {
    /// Returns a socket that is still shut.
    pub(crate) fn closed(place: Option<SocketPath>) -> Self {
        Self { place, state: Mutex::default() }
    }

    fn share(&self) -> MutexGuard<'_, Share> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the socket over this store, or joins that of another system over the same log, and keeps the reason if it cannot
    /// be opened.
    pub(crate) fn join(&self, store: Arc<dyn EventStore>, operator: Arc<dyn AgentOperator>) {
        let Some(place) = &self.place else { return };
        *self.share() = match join(place, store, &operator) {
            Ok(()) => Share { operator: Some(operator), fault: None },
            Err(off) => {
                tracing::warn!(%off, "the system works without its local socket");
                Share { operator: None, fault: Some(off.to_string()) }
            }
        };
    }

    /// Gives up the system's share. If it was the last one, the socket takes no more clients, and is returned: dropping it ends
    /// its connections. Call it before the log is closed.
    pub(crate) fn leave(&self) -> Option<LocalSocket> {
        let operator = self.share().operator.take()?;
        let mut sockets = sockets();
        let is_own = |socket: &OpenSocket| {
            socket.operators.with(|operators| operators.iter().any(|at| Arc::ptr_eq(at, &operator)))
        };
        let number = sockets.iter().position(is_own)?;
        let is_last = sockets.get(number)?.operators.with(|operators| {
            operators.retain(|at| !Arc::ptr_eq(at, &operator));
            operators.is_empty()
        });
        // Shut under the lock: the next system that joins finds no socket there.
        is_last.then(|| sockets.swap_remove(number).socket.shut())
    }

    /// Notes why the system has no share in a socket since it left the last one.
    pub(crate) fn note_shut(&self, why: &dyn std::fmt::Display) {
        let mut share = self.share();
        if self.place.is_some() && share.operator.is_none() {
            share.fault = Some(format!("the log could not be opened again: {why}"));
        }
    }

    /// Returns the reason why the socket is shut although it was asked for.
    pub(crate) fn fault(&self) -> Option<String> {
        self.share().fault.clone()
    }
}

fn join(
    place: &SocketPath,
    store: Arc<dyn EventStore>,
    operator: &Arc<dyn AgentOperator>,
) -> Result<(), SocketUnavailable> {
    let mut sockets = sockets();
    if let Some(open) = sockets.iter().find(|open| open.place.is_same(place)) {
        open.operators.with(|operators| operators.push(Arc::clone(operator)));
        return Ok(());
    }
    let operators = Arc::new(AgentOperators(RwLock::new(vec![Arc::clone(operator)])));
    let socket = LocalSocket::open(place, store, Some(Arc::clone(&operators) as Arc<dyn OperatorHandler>))?;
    sockets.push(OpenSocket { place: place.clone(), socket, operators });
    Ok(())
}

/// Ignores poisoning: the list is consistent between any two steps.
fn sockets() -> MutexGuard<'static, Vec<OpenSocket>> {
    SOCKETS.lock().unwrap_or_else(PoisonError::into_inner)
}
