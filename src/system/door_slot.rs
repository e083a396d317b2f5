//! The local doors of this process: one for each log that its systems use, however many they are. The door belongs to the process that
//! holds the log, so it is open as long as one of these systems is, and a decision reaches the system of the task's agent.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use proto_events::id::{Category, StreamId};
use taskreel_log::api::EventStore;
use taskreel_log::door::{
    Door, DoorOff, DoorPlace, OperatorDesk, OperatorRefusal, OperatorReply, OperatorRequest, Peer,
    RefusalKind,
};

/// The open doors of this process. Opening, joining and shutting one is done under this lock.
static DOORS: Mutex<Vec<OpenDoor>> = Mutex::new(Vec::new());

/// A door, and the systems that it is open for.
struct OpenDoor {
    place: DoorPlace,
    door: Door,
    desks: Arc<Desks>,
}

/// The desk of one system: it decides about the tasks of its agents.
pub(crate) trait AgentDesk: Send + Sync {
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

/// The desks of the systems over one log, none of which has an agent of another.
struct Desks(RwLock<Vec<Arc<dyn AgentDesk>>>);

impl Desks {
    fn with<T>(&self, change: impl FnOnce(&mut Vec<Arc<dyn AgentDesk>>) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl OperatorDesk for Desks {
    fn carry_out(&self, peer: &Peer, request: OperatorRequest) -> Result<OperatorReply, OperatorRefusal> {
        let stream = task_stream(&request)?;
        // The lock is not held while the decision is carried out.
        let desks = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let agent = stream.agent();
        match desks.iter().find(|desk| desk.agents().contains(&agent)) {
            Some(desk) => desk.carry_out(peer, &stream, request),
            None => Err(other_agent(&stream, &desks)),
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
fn other_agent(stream: &StreamId, runs: &[Arc<dyn AgentDesk>]) -> OperatorRefusal {
    let runs: Vec<_> = runs.iter().flat_map(|desk| desk.agents()).map(|agent| format!("`{agent}`")).collect();
    let agents = if runs.len() == 1 { "agent" } else { "agents" };
    let (agent, runs) = (stream.agent(), runs.join(", "));
    let why = format!("{stream} is a task of the agent `{agent}`; this program runs the {agents} {runs}");
    refused(RefusalKind::Rejected, why)
}

/// A system's share in the door of its log.
#[derive(Default)]
pub(crate) struct SystemDoor {
    /// The place of the door; none if the store is not in a directory, or the host wants no door.
    pub(crate) place: Option<DoorPlace>,
    state: Mutex<Share>,
}

#[derive(Default)]
struct Share {
    /// The system's desk at the open door.
    desk: Option<Arc<dyn AgentDesk>>,
    /// The reason why the door is shut although it was asked for.
    fault: Option<String>,
}

impl SystemDoor {
    /// Returns a door that is still shut.
    pub(crate) fn closed(place: Option<DoorPlace>) -> Self {
        Self { place, state: Mutex::default() }
    }

    fn share(&self) -> MutexGuard<'_, Share> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the door over this store, or joins that of another system over the same log, and keeps the reason if it cannot
    /// be opened.
    pub(crate) fn join(&self, store: Arc<dyn EventStore>, desk: Arc<dyn AgentDesk>) {
        let Some(place) = &self.place else { return };
        *self.share() = match join(place, store, &desk) {
            Ok(()) => Share { desk: Some(desk), fault: None },
            Err(off) => {
                tracing::warn!(%off, "the system works without its local door");
                Share { desk: None, fault: Some(off.to_string()) }
            }
        };
    }

    /// Gives up the system's share. If it was the last one, the door takes no more clients, and is returned: dropping it ends
    /// its connections. Call it before the log is closed.
    pub(crate) fn leave(&self) -> Option<Door> {
        let desk = self.share().desk.take()?;
        let mut doors = doors();
        let is_own = |door: &OpenDoor| door.desks.with(|desks| desks.iter().any(|at| Arc::ptr_eq(at, &desk)));
        let number = doors.iter().position(is_own)?;
        let is_last = doors.get(number)?.desks.with(|desks| {
            desks.retain(|at| !Arc::ptr_eq(at, &desk));
            desks.is_empty()
        });
        // Shut under the lock: the next system that joins finds no socket there.
        is_last.then(|| doors.swap_remove(number).door.shut())
    }

    /// Notes why the system has no share in a door since it left the last one.
    pub(crate) fn note_shut(&self, why: &dyn std::fmt::Display) {
        let mut share = self.share();
        if self.place.is_some() && share.desk.is_none() {
            share.fault = Some(format!("the log could not be opened again: {why}"));
        }
    }

    /// Returns the reason why the door is shut although it was asked for.
    pub(crate) fn fault(&self) -> Option<String> {
        self.share().fault.clone()
    }
}

fn join(place: &DoorPlace, store: Arc<dyn EventStore>, desk: &Arc<dyn AgentDesk>) -> Result<(), DoorOff> {
    let mut doors = doors();
    if let Some(open) = doors.iter().find(|open| open.place.is_same(place)) {
        open.desks.with(|desks| desks.push(Arc::clone(desk)));
        return Ok(());
    }
    let desks = Arc::new(Desks(RwLock::new(vec![Arc::clone(desk)])));
    let door = Door::open(place, store, Some(Arc::clone(&desks) as Arc<dyn OperatorDesk>))?;
    doors.push(OpenDoor { place: place.clone(), door, desks });
    Ok(())
}

/// Ignores poisoning: the list is consistent between any two steps.
fn doors() -> MutexGuard<'static, Vec<OpenDoor>> {
    DOORS.lock().unwrap_or_else(PoisonError::into_inner)
}
