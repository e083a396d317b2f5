//! Rate limits of targets. An attempt takes a turn before it is sent, in the order of asking; a turn can be taken again
//! when the limit's time has passed since, by a timer, so that no step of the machine's clock counts. All turns are free
//! when a system starts: what a restart finds open is sent no faster than new work.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use taskreel_log::ports::Clock;
use tokio::sync::Semaphore;

use crate::actors::shared::sleep::begin_sleep;
use crate::tools::rate::Rate;

/// The rate limits of an agent's targets that were used.
pub(crate) struct Rates {
    clock: Arc<dyn Clock>,
    turns: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Rates {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, turns: Mutex::default() }
    }

    /// Takes a turn of this target, if one is free now and nobody waits for it.
    pub(crate) fn try_take(&self, target: &str, rate: &Rate) -> bool {
        let turns = self.semaphore(target, rate);
        let Ok(turn) = turns.try_acquire() else { return false };
        turn.forget();
        self.give_back_later(&turns, rate);
        true
    }

    /// Waits for a turn of this target, first come first served. Who stops waiting gives up the place.
    pub(crate) async fn wait_turn(&self, target: &str, rate: &Rate) {
        let turns = self.semaphore(target, rate);
        // Semaphores are never closed.
        if let Ok(turn) = turns.acquire().await {
            turn.forget();
            self.give_back_later(&turns, rate);
        }
    }

    fn give_back_later(&self, turns: &Arc<Semaphore>, rate: &Rate) {
        let (turns, wait) = (Arc::clone(turns), begin_sleep(&self.clock, rate.per));
        // A large task takes its turn apart from the actors' thread.
        tokio::spawn(async move {
            wait.await;
            turns.add_permits(1);
        });
    }

    fn semaphore(&self, target: &str, rate: &Rate) -> Arc<Semaphore> {
        let mut all = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = usize::try_from(rate.attempts).unwrap_or(Semaphore::MAX_PERMITS);
        let turns = || Arc::new(Semaphore::new(turns.min(Semaphore::MAX_PERMITS)));
        Arc::clone(all.entry(target.to_owned()).or_insert_with(turns))
    }
}
