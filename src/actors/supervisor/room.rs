//! The bound on live actors, of which the supervisor puts those to sleep that have been idle longest.

use std::sync::atomic::Ordering;
use std::time::Instant;

use actix::Handler;
use proto_events::id::StreamId;

use crate::actors::shared::idle_actors::Idleness;
use crate::actors::shared::live_actors::BecameIdle;
use crate::actors::supervisor::Supervisor;
use crate::limits::ENDED_TASKS_TOGETHER;

impl Supervisor {
    fn live_count(&self) -> usize {
        self.tasks.len() + self.sessions.len()
    }

    fn passivate(&mut self, stream: &StreamId) {
        // Tasks and sessions never have the same stream.
        self.tasks.passivate(stream);
        self.sessions.passivate(stream);
    }

    /// Passivates the actors that have been idle longest, if too many are live. Each start passivates about one, so that it takes
    /// the same short time among any number of actors. While all others work none can be found, so actors that become idle
    /// report it.
    pub(super) fn make_room(&mut self) {
        for _ in 0..ENDED_TASKS_TOGETHER {
            if self.idle.ended_count() <= self.ended_kept {
                break;
            }
            self.passivate_first(Idleness::Ended);
        }
        while self.live_count() > self.live_actors {
            let Some(idleness) = self.idle.oldest() else { break };
            self.passivate_first(idleness);
        }
        self.note_crowd();
    }

    /// Passivates the actor that has been idle longest. One that has got a message since then stays, and has a place again when
    /// it is idle again.
    fn passivate_first(&mut self, idleness: Idleness) {
        if let Some(stream) = self.idle.take_first(idleness) {
            self.passivate(&stream);
        }
    }

    /// Notes whether too many actors are live. It must be called whenever an actor has gone.
    pub(super) fn note_crowd(&self) {
        self.shared.crowded.store(self.live_count() > self.live_actors, Ordering::Relaxed);
    }

    /// Passivates the actors that have been idle for long.
    pub(super) fn sweep(&mut self) {
        self.sessions.remove_stopped();
        if let Some(latest) = Instant::now().checked_sub(self.passivate_after) {
            for idleness in [Idleness::Ended, Idleness::Rests] {
                while self.idle.first_since(idleness).is_some_and(|since| since <= latest) {
                    self.passivate_first(idleness);
                }
            }
        }
        self.note_crowd();
    }
}

impl Handler<BecameIdle> for Supervisor {
    type Result = ();

    fn handle(&mut self, message: BecameIdle, _: &mut Self::Context) {
        if self.live_count() > self.live_actors {
            self.passivate(&message.stream);
        }
        self.note_crowd();
    }
}
