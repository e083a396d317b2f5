//! The work outside the log for a task's open calls: permits, probes, deadlines and recovery of the run.

use proto_events::call::recovery::Next;
use proto_events::call::{
    Call, CallCommand, CallEvent, CallFailure, CallKind, CallRequested, CallStatus, CancelStage,
    FailureClass, Recovery, Verdict, VerdictBy,
};
use proto_events::envelope::{Metadata, Timestamp};
use proto_events::task::TaskCommand;

use crate::actors::shared::messages::{AttemptEnd, ProbeOrder};
use crate::actors::shared::parts::Shared;
use crate::actors::shared::permits::CallPermit;
use crate::actors::task::core::TaskCore;
use crate::actors::task::effect::{Effect, PermitWait};
use crate::actors::task::outside_state::OutsideCalls;
use crate::error::Error;
use crate::run::question::{Act, Step};
use crate::run::{self, deadline};
use crate::tools::panics::caught;
use crate::tools::rate::Rate;

impl TaskCore {
    /// Notes the run's deadline and requests a wake-up then, once for each run and for each change of its budget. From then
    /// on the wake-up alone decides: the clock of the machine may step while the run goes on.
    pub(crate) fn note_run(&mut self, shared: &Shared, now: Timestamp) {
        let number = self.task().runs();
        if self.is_idle() {
            return;
        }
        let until = deadline::of_run(self.task(), shared.agent.budget_scope);
        if self.outside.run == Some((number, until)) {
            return;
        }
        let is_new = self.outside.run.is_none_or(|(known, _)| known != number);
        if is_new {
            self.outside.anchor =
                caught(|| shared.ports.clock.monotonic()).ok().map(|elapsed| (now, elapsed));
        }
        // An actor before this one may have kept the start of this run, for its deadline or for that of a call.
        let has_deadline =
            until.is_some() || self.task().calls().open().any(|call| call.deadline().is_some());
        if has_deadline && (is_new || !self.outside.is_start_kept) {
            self.keep_start(shared, number);
        }
        let now = self.steady(shared, now);
        self.outside.run = Some((number, until));
        self.outside.time_up = until.filter(|until| now > *until).map(|_| number);
        let began = self.task().run().map(|run| run.began).unwrap_or_default();
        let wake = |at: Timestamp| Effect::Wake { at, limit: at.since(began), run: number, now };
        self.outbox.extend(until.map(wake));
    }

    /// Keeps the start of the run for actors of the task that follow this one.
    fn keep_start(&mut self, shared: &Shared, run: u32) {
        if let Some(found) = self.outside.anchor {
            self.outside.anchor = Some(shared.run_starts.get_or_insert(self.entity.stream(), run, found));
            self.outside.is_start_kept = true;
        }
    }

    /// Keeps the start of the run if these acts make a call with a deadline of its own.
    pub(crate) fn keep_start_for(&mut self, shared: &Shared, acts: &[Act]) {
        let has_deadline = |act: &Act| match act {
            Act::Task(TaskCommand::Call(CallCommand::Request(request))) => request.deadline.is_some(),
            _ => false,
        };
        if !self.outside.is_start_kept && acts.iter().any(has_deadline) {
            self.keep_start(shared, self.task().runs());
        }
    }

    /// Takes up a step that needs work outside the log, or word to an attempt.
    pub(crate) fn take_up(&mut self, shared: &Shared, step: Step, now: Timestamp) {
        match step {
            Step::Probe { call_id } => self.probe(&call_id),
            Step::Refuse { id, why } => self.outside.refuse(&id, why),
            Step::AwaitRetry { call_id, attempt, wait } => {
                self.outside.calls().known.awaiting_retry.insert(call_id.clone());
                self.outbox.push(Effect::AwaitRetry { call_id, attempt, wait });
            }
            Step::AwaitPermit { call_id } => self.acquire_permit(shared, call_id, now),
            Step::Do(_) | Step::AwaitTurn { .. } | Step::AskApprover { .. } | Step::Wait => {}
        }
    }

    /// Takes a permit for a call and a turn at its target's rate limit, or requests a wait for them. The permit comes
    /// first: a turn is lost if nothing is sent with it.
    pub(crate) fn acquire_permit(&mut self, shared: &Shared, call_id: String, now: Timestamp) {
        let Some(request) = self.task().calls().get(&call_id).map(|call| call.request.clone()) else {
            return;
        };
        let rate = shared.agent.rate_of(&request);
        let mut needs_permit =
            shared.agent.takes_place(&request) && !self.outside.known().permits.contains(&call_id);
        if needs_permit && let Some(permit) = shared.permits.try_acquire(&request.target) {
            self.keep_permit(&call_id, permit);
            needs_permit = false;
        }
        let takes = |(name, rate): &(String, Rate)| shared.permits.rates.try_take(name, rate);
        if !needs_permit && rate.as_ref().is_none_or(takes) {
            return self.hold_permit(shared, &call_id, None);
        }
        self.outside.calls().known.awaiting_permit.insert(call_id.clone());
        let deadline = self.task().calls().get(&call_id).and_then(Call::deadline);
        let longest = deadline.map(|deadline| deadline.since(self.steady(shared, now)));
        let target = request.target;
        self.outbox.push(Effect::AwaitPermit(PermitWait { call_id, target, needs_permit, rate, longest }));
    }

    /// Accepts a permit, if the call had none, and its turn. A permit for a call that is closed by now is given back.
    pub(crate) fn hold_permit(&mut self, shared: &Shared, call_id: &str, permit: Option<CallPermit>) {
        self.permit_is_awaited_no_more(call_id);
        let call = self.task().calls().get(call_id).filter(|call| call.status.is_open());
        let Some(call) = call else { return };
        if shared.agent.rate_of(&call.request).is_some() {
            self.outside.calls().known.turns.insert(call_id.to_owned());
        }
        if let Some(permit) = permit {
            self.keep_permit(call_id, permit);
        }
    }

    /// Notes that a call does not wait for a permit any more.
    pub(crate) fn permit_is_awaited_no_more(&mut self, call_id: &str) {
        if let Some(calls) = self.outside.calls_if_any() {
            calls.known.awaiting_permit.remove(call_id);
        }
    }

    fn probed_no_more(&mut self, call_id: &str) {
        if let Some(calls) = self.outside.calls_if_any() {
            calls.known.probing.remove(call_id);
        }
    }

    /// Notes that the turn of a call at its target's rate limit is used, if this act sends the call.
    pub(crate) fn spend_turn(&mut self, act: &Act) {
        if let Act::Task(TaskCommand::Call(CallCommand::Dispatch { call_id, .. })) = act
            && let Some(calls) = self.outside.calls_if_any()
        {
            calls.known.turns.remove(call_id);
            calls.known.retry_due.remove(call_id);
        }
    }

    fn keep_permit(&mut self, call_id: &str, permit: CallPermit) {
        let calls = self.outside.calls();
        calls.known.permits.insert(call_id.to_owned());
        calls.permits.insert(call_id.to_owned(), permit);
    }

    /// Gives back what calls that are closed on disk held outside the log, and tells attempts what became of their requests.
    pub(super) fn settle_outside(&mut self, shared: &Shared) {
        self.release_permits();
        self.outside.tell_wanted(self.entity.state(), shared.store.fence().epoch);
        if self.is_idle() {
            self.outside.forget_ended();
            // An actor before this one may have kept the start of the run that was found open.
            let was_kept = std::mem::take(&mut self.outside.is_start_kept);
            if was_kept || self.found.is_some() {
                shared.run_starts.forget(self.entity.stream());
            }
        }
    }

    /// Gives back the permits of calls that are closed on disk.
    fn release_permits(&mut self) {
        let Some(OutsideCalls { known, permits, .. }) = self.outside.calls_if_any() else { return };
        if permits.is_empty() && known.turns.is_empty() {
            return;
        }
        let calls = self.entity.state().calls();
        // A call that asked a person holds no permit while it waits.
        let asked = |status: &CallStatus| matches!(status, CallStatus::Asked(_));
        let is_open = |call_id: &str| {
            calls.get(call_id).is_some_and(|call| call.status.is_open() && !asked(&call.status))
        };
        permits.retain(|call_id, _| is_open(call_id));
        known.permits.retain(|call_id| is_open(call_id));
        known.turns.retain(|call_id| is_open(call_id));
    }

    /// Returns the command that follows the loss of an attempt, if there is one now.
    pub(super) fn after_loss(
        &mut self,
        shared: &Shared,
        (call_id, attempt): (String, u32),
        why: String,
        metadata: &Metadata,
    ) -> Option<CallCommand> {
        let call = self.task().calls().get(&call_id);
        let call = call.filter(|call| call.status.is_open() && call.attempts == attempt)?;
        // Left to the next start, as after a crash, unless a call in flight waits for it: the shutdown waits for that one.
        let is_awaited = call.request.origin.parent.is_some() || shared.attended.has(self.entity.stream());
        if shared.is_stopping() && !is_awaited {
            return None;
        }
        // The prompt is part of the session: the turn may have been lost with the attempt, and the history rewritten since.
        let is_of_turn = call.request.prompt.is_some() && shared.agent.conversation;
        match run::after_loss(call, self.moment(shared, metadata), &why) {
            // The next attempt waits for its turn, as any other, and for the call that asked for it.
            Next::Write(CallCommand::Dispatch { .. })
                if is_of_turn
                    || shared.agent.rate_of(&call.request).is_some()
                    || run::waits_for_parent(self.task(), call, shared.store.fence().epoch) =>
            {
                let (class, error_type) = (FailureClass::AfterEffect, "Lost".to_owned());
                let failure = CallFailure { class, error_type, message: why, usage: None };
                Some(CallCommand::ScheduleRetry { call_id, attempt, failure, due: metadata.at })
            }
            Next::Write(command) => Some(command),
            Next::Probe { .. } => {
                self.probe(&call_id);
                None
            }
            Next::Wait { .. } => None,
        }
    }

    /// Requests a probe whether the last attempt took effect, unless one is open.
    pub(crate) fn probe(&mut self, call_id: &str) {
        let order = self.task().calls().get(call_id).map(|call| (call.request.clone(), call.attempts));
        let Some((request, attempt)) = order else { return };
        if self.outside.calls().known.probing.insert(call_id.to_owned()) {
            self.outbox.push(Effect::Probe(Box::new(self.probe_order(request, attempt, false))));
        }
    }

    pub(super) fn probe_order(&self, request: CallRequested, attempt: u32, interrupted: bool) -> ProbeOrder {
        let (stream, task_id) = (self.entity.stream().clone(), self.task().id().to_owned());
        ProbeOrder { stream, task_id, request, attempt, interrupted }
    }

    /// Returns a probe for evidence, if the call was given up in flight and its tool can be asked.
    pub(crate) fn evidence(&self, event: &CallEvent) -> Option<Effect> {
        let CallEvent::Canceled { call_id, stage: CancelStage::InFlight } = event else { return None };
        let call = self.task().calls().get(call_id)?;
        // Another agent's task is canceled instead.
        let asked = call.request.recovery == Recovery::Reconcile && call.request.kind != CallKind::Delegate;
        let order = || self.probe_order(call.request.clone(), call.attempts, true);
        asked.then(|| Effect::Probe(Box::new(order())))
    }

    /// Applies a probe's verdict. It is ignored for a call that has gone on without it.
    pub(crate) fn probed(
        &mut self,
        call_id: String,
        attempt: u32,
        verdict: Verdict,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        self.probed_no_more(&call_id);
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

    /// Notes the task that another agent has of a call. One that was asked after is taken up by the next attempt.
    pub(crate) fn accepted(
        &mut self,
        shared: &Shared,
        call_id: String,
        attempt: u32,
        handle: String,
        is_found: bool,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        let (about, command) = (call_id.clone(), CallCommand::Accept { call_id, attempt, handle });
        if !is_found {
            return self.entity.decide(TaskCommand::Call(command), metadata);
        }
        self.probed_no_more(&about);
        let call = self.task().calls().get(&about).filter(|call| call.attempts == attempt);
        match call.map(|call| &call.status) {
            Some(CallStatus::Dispatched) => self.entity.decide(TaskCommand::Call(command), metadata)?,
            // Its time is up: what follows is decided as for any such call.
            Some(CallStatus::TimedOut) => return self.entity.decide(TaskCommand::Call(command), metadata),
            _ => return Ok(()),
        }
        let end = AttemptEnd::Lost { why: "its answer is lost".to_owned() };
        self.outcome(shared, about, attempt, end, metadata)
    }
}
