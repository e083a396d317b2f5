//! Permits for concurrent calls, of each tool and of the whole agent. A permit is taken before a call is
//! sent, and kept until the call is closed and its work has ended. Work that cannot be stopped keeps its permit
//! beyond the end of its call: a spare takes the permit's place then, as long as there is one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::actors::shared::rates::Rates;
use crate::agent::card::Agent;
use crate::tools::rate::Rate;

/// All permits of an agent.
pub(crate) struct CallPermits {
    agent: Arc<Agent>,
    of_agent: Option<Arc<Limit>>,
    /// The limits of the tools that were called.
    of_tools: Mutex<HashMap<LimitScope, Arc<Limit>>>,
    /// The rate limits of the agent's targets.
    pub(crate) rates: Arc<Rates>,
}

/// The calls that a tool's limit counts.
#[derive(PartialEq, Eq, Hash)]
enum LimitScope {
    /// The calls of one target.
    Target(String),
    /// The calls of several tools together.
    Together(&'static str),
}

/// A limit of concurrent calls.
struct Limit {
    free: Arc<Semaphore>,
    /// The permits that may still take the place of those that are held by work without an end: as many as the
    /// limit allows calls, so that no more than twice as many are at work.
    spares: AtomicUsize,
}

impl Limit {
    fn new(calls: usize) -> Arc<Self> {
        let calls = calls.clamp(1, Semaphore::MAX_PERMITS / 2);
        Arc::new(Self { free: Arc::new(Semaphore::new(calls)), spares: AtomicUsize::new(calls) })
    }

    fn take_spare(&self) -> bool {
        let fewer = |spares: usize| spares.checked_sub(1);
        self.spares.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer).is_ok()
    }
}

/// A permit of one limit.
struct PermitPlace {
    permit: Option<OwnedSemaphorePermit>,
    limit: Arc<Limit>,
    /// Whether a spare has taken its place.
    is_replaced: bool,
}

impl PermitPlace {
    fn replace(&mut self) {
        if !self.is_replaced && self.limit.take_spare() {
            self.limit.free.add_permits(1);
            self.is_replaced = true;
        }
    }
}

impl Drop for PermitPlace {
    fn drop(&mut self) {
        if self.is_replaced {
            if let Some(permit) = self.permit.take() {
                permit.forget();
            }
            self.limit.spares.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// The permits of one call, given back when neither the call nor an attempt holds them.
struct HeldPermits(Mutex<HeldState>);

struct HeldState {
    places: Vec<PermitPlace>,
    /// Whether the call is closed: only its attempts hold the permits.
    is_closed: bool,
    /// Whether an attempt could not be stopped.
    is_stuck: bool,
}

impl HeldPermits {
    /// Changes the state, and lets spares take the place of permits that only work without an end holds. Returns
    /// whether a permit is left without a spare then.
    fn change(&self, change: impl FnOnce(&mut HeldState)) -> bool {
        let mut state: MutexGuard<'_, HeldState> = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let is_lost = state.is_closed && state.is_stuck;
        if is_lost {
            state.places.iter_mut().for_each(PermitPlace::replace);
        }
        is_lost && state.places.iter().any(|place| !place.is_replaced)
    }
}

impl std::fmt::Debug for HeldPermits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldPermits").finish_non_exhaustive()
    }
}

/// A call's hold on its permit; it ends when its last clone is dropped, because the call is closed.
#[derive(Debug, Clone)]
pub(crate) struct CallPermit(Arc<OfCall>);

#[derive(Debug)]
struct OfCall(Arc<HeldPermits>);

impl Drop for OfCall {
    fn drop(&mut self) {
        if self.0.change(|state| state.is_closed = true) {
            tracing::error!(
                "a call that cannot be stopped keeps its permit, and no spare is left: calls of its target wait until \
                 one of them ends"
            );
        }
    }
}

impl CallPermit {
    fn from_places(places: Vec<PermitPlace>) -> Self {
        let state = HeldState { places, is_closed: false, is_stuck: false };
        Self(Arc::new(OfCall(Arc::new(HeldPermits(Mutex::new(state))))))
    }

    /// Returns the hold of an attempt.
    pub(crate) fn for_attempt(&self) -> AttemptPermit {
        AttemptPermit(Arc::clone(&self.0.0))
    }
}

/// An attempt's hold on the permit of its call; it ends with the attempt's work.
#[derive(Debug)]
pub(crate) struct AttemptPermit(Arc<HeldPermits>);

impl AttemptPermit {
    /// Notes that the attempt's work goes on although it was given up.
    pub(crate) fn note_stuck(&self) {
        self.0.change(|state| state.is_stuck = true);
    }
}

impl CallPermits {
    pub(crate) fn new(agent: &Arc<Agent>, rates: Arc<Rates>) -> Self {
        let of_agent = agent.max_concurrency.map(Limit::new);
        Self { agent: Arc::clone(agent), of_agent, of_tools: Mutex::default(), rates }
    }

    /// Returns a permit for a call of this target, if one is free now.
    pub(crate) fn try_acquire(&self, target: &str) -> Option<CallPermit> {
        let take = |limit: Arc<Limit>| {
            let permit = Some(Arc::clone(&limit.free).try_acquire_owned().ok()?);
            Some(PermitPlace { permit, limit, is_replaced: false })
        };
        Some(CallPermit::from_places(self.limits(target).map(take).collect::<Option<_>>()?))
    }

    /// Waits for a permit for a call of this target, first come first served: the tool's first, then the
    /// agent's. A holder of the agent's permit never waits for a tool's, so that they cannot block each other.
    pub(crate) async fn acquire(&self, target: &str) -> CallPermit {
        let mut places = Vec::new();
        for limit in self.limits(target) {
            // Semaphores are never closed.
            let permit = Arc::clone(&limit.free).acquire_owned().await.ok();
            places.push(PermitPlace { permit, limit, is_replaced: false });
        }
        CallPermit::from_places(places)
    }

    /// Waits for a permit, if one is needed, and then for a turn at a rate limit.
    pub(crate) async fn acquire_with_turn(
        &self,
        target: &str,
        needs_permit: bool,
        rate: Option<(String, Rate)>,
    ) -> Option<CallPermit> {
        let permit = if needs_permit { Some(self.acquire(target).await) } else { None };
        if let Some((name, rate)) = rate {
            self.rates.wait_turn(&name, &rate).await;
        }
        permit
    }

    /// Returns the limits of a target: the tool's, then the agent's.
    fn limits(&self, target: &str) -> impl Iterator<Item = Arc<Limit>> + use<> {
        let of_tool = self.agent.concurrency_of(target);
        let of_tool = of_tool.map(|calls| {
            let mut all = self.of_tools.lock().unwrap_or_else(PoisonError::into_inner);
            let together = self.agent.concurrency_counted_as(target).map(LimitScope::Together);
            let limited = together.unwrap_or_else(|| LimitScope::Target(target.to_owned()));
            Arc::clone(all.entry(limited).or_insert_with(|| Limit::new(calls)))
        });
        of_tool.into_iter().chain(self.of_agent.clone())
    }
}

#[cfg(test)]
mod tests {
    use taskreel_log::artifacts::{VIEW_DATA_ARTIFACT, VIEW_TEXT_ARTIFACT};

    use super::*;
    use crate::tools::artifact_tools::ArtifactTools;

    fn permits(calls: usize) -> CallPermits {
        let mut agent = Agent::new("agent");
        agent.max_concurrency = Some(calls);
        CallPermits::new(&Arc::new(agent), Arc::new(Rates::new(Arc::new(taskreel_log::ports::SystemClock))))
    }

    #[test]
    fn a_permit_is_held_by_the_call_and_by_its_attempts() {
        let permits = permits(1);
        let call = permits.try_acquire("t").unwrap();
        let (clone, attempt) = (call.clone(), call.for_attempt());
        drop(call);
        drop(clone);
        assert!(permits.try_acquire("t").is_none(), "the attempt's work goes on");
        drop(attempt);
        assert!(permits.try_acquire("t").is_some());
    }

    #[test]
    fn a_spare_takes_the_place_of_a_stuck_permit_once_its_call_is_closed() {
        let permits = permits(1);
        let call = permits.try_acquire("t").unwrap();
        let stuck = call.for_attempt();
        stuck.note_stuck();
        assert!(permits.try_acquire("t").is_none(), "the call is open, and may be sent again");
        drop(call);
        let next = permits.try_acquire("t").expect("a spare");
        assert!(permits.try_acquire("t").is_none(), "one spare");
        let also_stuck = next.for_attempt();
        also_stuck.note_stuck();
        drop(next);
        assert!(permits.try_acquire("t").is_none(), "no spare is left");
        drop(stuck);
        let next = permits.try_acquire("t");
        assert!(next.is_none(), "the spare is free again, but was not asked for");
        drop(also_stuck);
        let next = permits.try_acquire("t").expect("all work has ended");
        assert!(permits.try_acquire("t").is_none(), "the limit is what it was");
        drop(next);
    }

    #[test]
    fn tools_that_count_together_have_one_limit() {
        let mut agent = Agent::new("agent");
        for tool in ArtifactTools::new().registered().unwrap() {
            agent.tools.register(tool).unwrap();
        }
        let permits = CallPermits::new(
            &Arc::new(agent),
            Arc::new(Rates::new(Arc::new(taskreel_log::ports::SystemClock))),
        );
        let views = [VIEW_TEXT_ARTIFACT, VIEW_DATA_ARTIFACT];
        let mut held: Vec<_> =
            views.into_iter().cycle().take(4).map(|tool| permits.try_acquire(tool).unwrap()).collect();
        assert!(views.iter().all(|tool| permits.try_acquire(tool).is_none()), "four of both");
        held.pop();
        let again = permits.try_acquire(VIEW_TEXT_ARTIFACT);
        assert!(again.is_some() && permits.try_acquire(VIEW_DATA_ARTIFACT).is_none());
    }
}
