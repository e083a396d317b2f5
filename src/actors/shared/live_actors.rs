//! Live actors: the supervisor's book on the actors of one kind, and the idle state that each of them
//! reports.
//!
//! An actor is passivated only when it is idle and has carried out every message sent to it. All messages
//! that may begin work come through the supervisor, which counts them, so nothing is in the mailbox of an
//! actor that is asked to stop, and no message is lost between it and its successor.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::{Actor, Addr, Handler, Message};
use proto_events::id::StreamId;

/// Stops the actor. No message is queued after this one.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Passivate;

/// Notice that an actor is idle while too many actors are live.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct BecameIdle {
    pub(crate) stream: StreamId,
}

/// The idle state that an actor shows its supervisor. Both live on the arbiter's thread.
#[derive(Debug, Default)]
pub(crate) struct IdleState {
    carried_out: Cell<u64>,
    since: Cell<Option<Instant>>,
}

impl IdleState {
    /// Notes that a message which came through the supervisor was carried out.
    pub(crate) fn carried_out(&self) {
        self.carried_out.set(self.carried_out.get() + 1);
    }

    /// Notes whether the actor waits for nothing and no caller waits for it.
    pub(crate) fn note(&self, is_idle: bool) {
        self.since.set(is_idle.then(Instant::now));
    }
}

/// A live actor.
struct Entry<A: Actor> {
    addr: Addr<A>,
    number: u64,
    /// The number of messages sent to the actor.
    sent: u64,
    idle: Rc<IdleState>,
}

impl<A: Actor> Entry<A> {
    /// Returns the time since which the actor can be passivated; `None` while it works or has a message in
    /// its mailbox.
    fn idle_since(&self) -> Option<Instant> {
        self.idle.since.get().filter(|_| self.has_carried_out_all())
    }

    fn has_carried_out_all(&self) -> bool {
        self.idle.carried_out.get() == self.sent
    }
}

/// The actors of one kind.
pub(crate) struct LiveActors<A: Actor>(HashMap<StreamId, Entry<A>>);

impl<A: Actor> LiveActors<A> {
    pub(crate) fn new() -> Self {
        Self(HashMap::new())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the stream's actor, if it is live and has not broken, to send it one message. The message is
    /// counted here.
    pub(crate) fn reach(&mut self, stream: &StreamId) -> Option<&Addr<A>> {
        let entry = self.0.get_mut(stream).filter(|entry| entry.addr.connected())?;
        entry.sent += 1;
        Some(&entry.addr)
    }

    /// Enters an actor that was started for a message. The message is counted here.
    pub(crate) fn enter(&mut self, stream: StreamId, number: u64, addr: Addr<A>, idle: Rc<IdleState>) {
        self.0.insert(stream, Entry { addr, number, sent: 1, idle });
    }

    /// Takes back the count of a message that was not sent.
    pub(crate) fn not_sent(&mut self, stream: &StreamId) {
        if let Some(entry) = self.0.get_mut(stream) {
            entry.sent -= 1;
        }
    }

    /// Removes an actor that has broken, unless another has taken its place.
    pub(crate) fn forget(&mut self, stream: &StreamId, number: u64) {
        if self.0.get(stream).is_some_and(|entry| entry.number == number) {
            self.0.remove(stream);
        }
    }

    /// Removes all actors that have broken without reporting it.
    pub(crate) fn remove_stopped(&mut self) {
        self.0.retain(|_, entry| entry.addr.connected());
    }

    /// Returns all actors that can be passivated, and since when.
    pub(crate) fn idle(&self) -> impl Iterator<Item = (Instant, &StreamId)> {
        self.0.iter().filter_map(|(stream, entry)| Some((entry.idle_since()?, stream)))
    }

    /// Returns the actors that have been idle for at least `idle`.
    pub(crate) fn idle_for(&self, idle: Duration) -> impl Iterator<Item = StreamId> {
        self.idle().filter(move |(since, _)| since.elapsed() >= idle).map(|(_, stream)| stream.clone())
    }

    /// Returns the streams whose actors have messages that they have not carried out.
    pub(crate) fn at_work(&self) -> impl Iterator<Item = &StreamId> {
        self.0.iter().filter(|(_, entry)| !entry.has_carried_out_all()).map(|(stream, _)| stream)
    }
}

impl<A> LiveActors<A>
where
    A: Actor<Context = actix::Context<A>> + Handler<Passivate>,
{
    /// Passivates an actor, if possible. The next message starts a new one, which reads the log.
    pub(crate) fn passivate(&mut self, stream: &StreamId) {
        let Some(entry) = self.0.get(stream) else { return };
        if entry.idle_since().is_some() {
            entry.addr.do_send(Passivate);
            self.0.remove(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use actix::{ActorContext, Context};

    use super::*;

    struct Sleeper;

    impl Actor for Sleeper {
        type Context = Context<Self>;
    }

    impl Handler<Passivate> for Sleeper {
        type Result = ();

        fn handle(&mut self, _: Passivate, ctx: &mut Self::Context) {
            ctx.stop();
        }
    }

    #[test]
    fn an_actor_that_was_sent_something_is_not_put_to_sleep_before_it_has_carried_it_out() {
        actix_rt::System::new().block_on(async {
            let (stream, idle) = (StreamId::task("agent", "t").unwrap(), Rc::new(IdleState::default()));
            let mut live_actors = LiveActors::new();
            live_actors.enter(stream.clone(), 1, Sleeper.start(), Rc::clone(&idle));
            assert_eq!(live_actors.at_work().collect::<Vec<_>>(), [&stream]);
            idle.carried_out();
            assert_eq!(live_actors.at_work().count(), 0, "all was carried out");
            live_actors.passivate(&stream);
            assert_eq!(live_actors.len(), 1, "it has not reported that it is idle");
            idle.note(true);
            assert!(live_actors.reach(&stream).is_some());
            live_actors.passivate(&stream);
            assert_eq!((live_actors.len(), live_actors.idle().count()), (1, 0), "a message is queued for it");
            idle.carried_out();
            assert_eq!(live_actors.idle_for(Duration::MAX).count(), 0);
            live_actors.passivate(&stream);
            assert_eq!(live_actors.len(), 0);
        });
    }
}
