//! What goes on outside for a task's open calls: places among the calls that may be under way at once, probes that are
//! being asked, and when the run's time is up. All of it is lost with the process, and found again by planning.

use std::collections::HashMap;

use proto_events::call::{CallCommand, CallRequested};
use proto_events::call::{CallEvent, CallStatus, CancelStage, Recovery, Verdict, VerdictBy};
use proto_events::envelope::{Metadata, Timestamp};
use proto_events::task::TaskCommand;

use super::{Effect, TaskCore};
use crate::actors::messages::ProbeOrder;
use crate::actors::places::Place;
use crate::actors::shared::Shared;
use crate::agent::plan::{self, UnderWay};
use crate::error::Error;

/// What one task's actor knows of what goes on outside.
#[derive(Default)]
pub(super) struct Outside {
    pub(super) known: UnderWay,
    places: HashMap<String, Place>,
    /// The run whose time was looked up, by its number, and when that is up.
    run: Option<(u32, Option<Timestamp>)>,
}

impl Outside {
    /// The place of a call.
    pub(super) fn place(&self, call_id: &str) -> Option<Place> {
        self.places.get(call_id).cloned()
    }

    /// When the time of the run is up.
    pub(super) fn run_until(&self) -> Option<Timestamp> {
        self.run.and_then(|(_, until)| until)
    }
}

impl TaskCore {
    /// Notes when the run's time is up, and has the actor woken then: once for each run.
    pub(super) fn note_run(&mut self) {
        let number = self.task().runs();
        if self.is_at_rest() || self.outside.run.is_some_and(|(known, _)| known == number) {
            return;
        }
        let until = plan::run_deadline(self.task());
        self.outside.run = Some((number, until));
        self.outbox.extend(until.map(|at| Effect::Wake { at, run: number }));
    }

    /// Takes a place for a call, or has it waited for.
    pub(super) fn take_place(&mut self, shared: &Shared, call_id: String, target: String) {
        if let Some(place) = shared.places.try_take(&target) {
            return self.has_place(call_id, place);
        }
        self.outside.known.awaited.insert(call_id.clone());
        self.outbox.push(Effect::AwaitPlace { call_id, target });
    }

    /// A place is there. One for a call that is closed by now is given back.
    pub(super) fn has_place(&mut self, call_id: String, place: Place) {
        self.outside.known.awaited.remove(&call_id);
        let call = self.task().calls().get(&call_id);
        if call.is_some_and(|call| call.status.is_open()) {
            self.outside.known.places.insert(call_id.clone());
            self.outside.places.insert(call_id, place);
        }
    }

    /// Gives back the places of calls that are closed on disk.
    pub(super) fn give_places_back(&mut self) {
        let Outside { known, places, .. } = &mut self.outside;
        if places.is_empty() {
            return;
        }
        let calls = self.entity.state().calls();
        let is_open = |call_id: &str| calls.get(call_id).is_some_and(|call| call.status.is_open());
        places.retain(|call_id, _| is_open(call_id));
        known.places.retain(|call_id| is_open(call_id));
    }

    /// Has the tool asked whether the last attempt took effect; once at a time.
    pub(super) fn probe(&mut self, call_id: &str) {
        let order = self.task().calls().get(call_id).map(|call| (call.request.clone(), call.attempts));
        let Some((request, attempt)) = order else { return };
        if self.outside.known.probing.insert(call_id.to_owned()) {
            self.outbox.push(Effect::Probe(Box::new(self.probe_order(request, attempt, false))));
        }
    }

    fn probe_order(&self, request: CallRequested, attempt: u32, interrupted: bool) -> ProbeOrder {
        let (stream, task_id) = (self.entity.stream().clone(), self.task().id().to_owned());
        ProbeOrder { stream, task_id, request, attempt, interrupted }
    }

    /// A probe for evidence: the call was given up while it was in flight, and its tool can be asked.
    pub(super) fn evidence(&self, event: &CallEvent) -> Option<Effect> {
        let CallEvent::Canceled { call_id, stage: CancelStage::InFlight } = event else { return None };
        let call = self.task().calls().get(call_id)?;
        let asked = call.request.recovery == Recovery::Reconcile;
        let order = || self.probe_order(call.request.clone(), call.attempts, true);
        asked.then(|| Effect::Probe(Box::new(order())))
    }

    /// What a probe found out. It says nothing about a call that has gone on without it.
    pub(super) fn probed(
        &mut self,
        call_id: String,
        attempt: u32,
        verdict: Verdict,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        self.outside.known.probing.remove(&call_id);
        let call = self.task().calls().get(&call_id).filter(|call| call.attempts == attempt);
        let waits = |status: &CallStatus| {
            matches!(status, CallStatus::Dispatched | CallStatus::TimedOut | CallStatus::Canceled)
        };
        if !call.is_some_and(|call| waits(&call.status)) {
            return Ok(());
        }
        let command = CallCommand::Reconcile { call_id, verdict, by: VerdictBy::Probe };
        self.entity.decide(TaskCommand::Call(command), metadata)
    }
}
