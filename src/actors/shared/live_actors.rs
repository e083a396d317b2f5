//! Live actors: the supervisor's book on the actors of one kind.
//!
//! An actor is passivated only when it is idle and has carried out every message sent to it. All messages
//! that may begin work come through the supervisor, which counts them, so nothing is in the mailbox of an
//! actor that is asked to stop, and no message is lost between it and its successor.

use std::collections::HashMap;
use std::rc::Rc;

use actix::{Actor, Addr, Handler, Message};
use proto_events::id::StreamId;

use crate::actors::shared::idle_actors::IdleActors;
use crate::actors::shared::idle_state::IdleState;

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

/// A live actor.
struct LiveActor<A: Actor> {
    addr: Addr<A>,
    number: u64,
    /// The number of messages sent to the actor.
    sent: u64,
    idle: Rc<IdleState>,
}

impl<A: Actor> LiveActor<A> {
    /// Whether the actor can be passivated: it does not work, and has no message in its mailbox.
    fn is_idle(&self) -> bool {
        self.idle.since().is_some() && self.has_carried_out_all()
    }

    fn has_carried_out_all(&self) -> bool {
        debug_assert!(self.idle.done() <= self.sent, "a message was carried out that was not counted");
        self.idle.done() == self.sent
    }
}

/// The actors of one kind.
pub(crate) struct LiveActors<A: Actor> {
    actors: HashMap<StreamId, LiveActor<A>>,
    /// The idle ones, and the others.
    idle: IdleActors,
}

impl<A: Actor> LiveActors<A> {
    /// Returns an empty book, of actors that take their places here when they are idle.
    pub(crate) fn with_idle(idle: IdleActors) -> Self {
        Self { actors: HashMap::new(), idle }
    }

    pub(crate) fn len(&self) -> usize {
        self.actors.len()
    }

    /// Returns the stream's actor, if it is live and has not broken, to send it one message. The message is
    /// counted here.
    pub(crate) fn reach(&mut self, stream: &StreamId) -> Option<&Addr<A>> {
        let entry = self.actors.get_mut(stream).filter(|entry| entry.addr.connected())?;
        entry.sent += 1;
        Some(&entry.addr)
    }

    /// Enters an actor that was started for a message. The message is counted here.
    pub(crate) fn enter(&mut self, stream: StreamId, number: u64, addr: Addr<A>, idle: Rc<IdleState>) {
        if let Some(broken) = self.actors.insert(stream, LiveActor { addr, number, sent: 1, idle }) {
            self.idle.remove(&broken.idle);
        }
    }

    /// Takes back the count of a message that was not sent.
    pub(crate) fn not_sent(&mut self, stream: &StreamId) {
        if let Some(entry) = self.actors.get_mut(stream) {
            entry.sent -= 1;
        }
    }

    /// Removes an actor that has broken, unless another has taken its place.
    pub(crate) fn forget(&mut self, stream: &StreamId, number: u64) {
        if self.actors.get(stream).is_some_and(|entry| entry.number == number) {
            self.remove(stream);
        }
    }

    /// Removes all actors that have broken without reporting it.
    pub(crate) fn remove_stopped(&mut self) {
        self.actors.retain(|_, entry| {
            let is_live = entry.addr.connected();
            if !is_live {
                self.idle.remove(&entry.idle);
            }
            is_live
        });
    }

    /// Returns the streams whose actors have messages that they have not carried out.
    pub(crate) fn at_work(&self) -> impl Iterator<Item = &StreamId> {
        self.actors.iter().filter(|(_, entry)| !entry.has_carried_out_all()).map(|(stream, _)| stream)
    }

    fn remove(&mut self, stream: &StreamId) {
        if let Some(entry) = self.actors.remove(stream) {
            self.idle.remove(&entry.idle);
        }
    }
}

impl<A> LiveActors<A>
where
    A: Actor<Context = actix::Context<A>> + Handler<Passivate>,
{
    /// Passivates an actor, if possible. The next message starts a new one, which reads the log.
    pub(crate) fn passivate(&mut self, stream: &StreamId) {
        let Some(entry) = self.actors.get(stream) else { return };
        if entry.is_idle() {
            entry.addr.do_send(Passivate);
            self.remove(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use actix::{ActorContext, Context};

    use super::*;
    use crate::actors::shared::idle_actors::Idleness;

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
    fn an_actor_that_has_gone_has_no_place_among_the_idle_ones_and_its_successor_has_its_own() {
        actix_rt::System::new().block_on(async {
            let idle_actors = IdleActors::default();
            let mut live_actors = LiveActors::with_idle(idle_actors.clone());
            let start = |live_actors: &mut LiveActors<Sleeper>, n: u64| {
                let (stream, idle) = (StreamId::task("agent", "t").unwrap(), Rc::default());
                live_actors.enter(stream.clone(), n, Sleeper.start(), Rc::clone(&idle));
                (stream, idle)
            };
            let rest = |(stream, idle): &(StreamId, Rc<IdleState>)| {
                idle.carried_out();
                idle.set_idle(true);
                idle_actors.put_last(stream, idle, Idleness::Rests);
            };
            let first = start(&mut live_actors, 1);
            rest(&first);
            live_actors.passivate(&first.0);
            assert_eq!((live_actors.len(), idle_actors.take_first(Idleness::Rests)), (0, None));
            let second = start(&mut live_actors, 2);
            rest(&second);
            live_actors.forget(&second.0, 1);
            assert_eq!(live_actors.len(), 1, "that was another one");
            live_actors.forget(&second.0, 2);
            assert_eq!((live_actors.len(), idle_actors.take_first(Idleness::Rests)), (0, None));
            let third = start(&mut live_actors, 3);
            rest(&third);
            let fourth = start(&mut live_actors, 4);
            assert_eq!(idle_actors.take_first(Idleness::Rests), None, "it has taken the place of the third");
            rest(&fourth);
            live_actors.actors[&fourth.0].addr.do_send(Passivate);
            while live_actors.actors[&fourth.0].addr.connected() {
                tokio::task::yield_now().await;
            }
            live_actors.remove_stopped();
            assert_eq!((live_actors.len(), idle_actors.take_first(Idleness::Rests)), (0, None));
        });
    }

    #[test]
    fn an_actor_that_was_sent_something_is_not_put_to_sleep_before_it_has_carried_it_out() {
        actix_rt::System::new().block_on(async {
            let (stream, idle) = (StreamId::task("agent", "t").unwrap(), Rc::new(IdleState::default()));
            let mut live_actors = LiveActors::with_idle(IdleActors::default());
            live_actors.enter(stream.clone(), 1, Sleeper.start(), Rc::clone(&idle));
            assert_eq!(live_actors.at_work().collect::<Vec<_>>(), [&stream]);
            idle.carried_out();
            assert_eq!(live_actors.at_work().count(), 0, "all was carried out");
            live_actors.passivate(&stream);
            assert_eq!(live_actors.len(), 1, "it has not reported that it is idle");
            idle.set_idle(true);
            assert!(live_actors.reach(&stream).is_some());
            live_actors.passivate(&stream);
            assert_eq!(live_actors.len(), 1, "a message is queued for it");
            idle.carried_out();
            live_actors.passivate(&stream);
            assert_eq!(live_actors.len(), 0);
        });
    }
}
