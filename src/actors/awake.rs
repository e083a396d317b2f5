//! Who is awake: the supervisor's book on the actors of one kind, and what each of them lets it see of itself.
//!
//! An actor is put to sleep only when it is at rest and has carried out every message that it was sent. All
//! messages that may begin something come through the supervisor, which counts them, so that nothing can be in
//! the mailbox of an actor that is told to stop, and nothing is lost between it and the one after it.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::{Actor, Addr, Handler, Message};
use proto_events::id::StreamId;

/// Stop: nothing is queued behind this message.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Passivate;

/// What an actor lets its supervisor see. Both live on the arbiter's thread.
#[derive(Debug, Default)]
pub(super) struct Rest {
    carried_out: Cell<u64>,
    since: Cell<Option<Instant>>,
}

impl Rest {
    /// Notes that a message which came through the supervisor was carried out.
    pub(super) fn carried_out(&self) {
        self.carried_out.set(self.carried_out.get() + 1);
    }

    /// Notes whether the actor waits for nothing and nobody waits for it.
    pub(super) fn note(&self, at_rest: bool) {
        self.since.set(at_rest.then(Instant::now));
    }
}

/// An actor that is awake.
struct Entry<A: Actor> {
    addr: Addr<A>,
    number: u64,
    /// How many messages it was sent.
    sent: u64,
    rest: Rc<Rest>,
}

impl<A: Actor> Entry<A> {
    /// Since when it could be put to sleep; none while it is at work or a message is on its way to it.
    fn resting_since(&self) -> Option<Instant> {
        self.rest.since.get().filter(|_| self.rest.carried_out.get() == self.sent)
    }
}

/// The actors of one kind.
pub(super) struct Awake<A: Actor>(HashMap<StreamId, Entry<A>>);

impl<A: Actor> Awake<A> {
    pub(super) fn new() -> Self {
        Self(HashMap::new())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The address of the stream's actor, if it is awake and has not broken.
    pub(super) fn find(&self, stream: &StreamId) -> Option<Addr<A>> {
        self.0.get(stream).filter(|entry| entry.addr.connected()).map(|entry| entry.addr.clone())
    }

    pub(super) fn insert(&mut self, stream: StreamId, number: u64, addr: Addr<A>, rest: Rc<Rest>) {
        self.0.insert(stream, Entry { addr, number, sent: 0, rest });
    }

    /// Notes that the stream's actor was sent a message.
    pub(super) fn sent(&mut self, stream: &StreamId) {
        if let Some(entry) = self.0.get_mut(stream) {
            entry.sent += 1;
        }
    }

    /// Notes that it was not sent after all.
    pub(super) fn not_sent(&mut self, stream: &StreamId) {
        if let Some(entry) = self.0.get_mut(stream) {
            entry.sent -= 1;
        }
    }

    /// Forgets an actor that has broken; another may have taken its place.
    pub(super) fn forget(&mut self, stream: &StreamId, number: u64) {
        if self.0.get(stream).is_some_and(|entry| entry.number == number) {
            self.0.remove(stream);
        }
    }

    /// Forgets all that have broken without a word.
    pub(super) fn forget_broken(&mut self) {
        self.0.retain(|_, entry| entry.addr.connected());
    }

    /// All that could be put to sleep, and since when.
    pub(super) fn resting(&self) -> impl Iterator<Item = (Instant, StreamId)> {
        self.0.iter().filter_map(|(stream, entry)| Some((entry.resting_since()?, stream.clone())))
    }

    /// Those of them that have been at rest for so long.
    pub(super) fn resting_for(&self, idle: Duration) -> impl Iterator<Item = StreamId> {
        self.resting().filter(move |(since, _)| since.elapsed() >= idle).map(|(_, stream)| stream)
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = &StreamId> {
        self.0.keys()
    }
}

impl<A> Awake<A>
where
    A: Actor<Context = actix::Context<A>> + Handler<Passivate>,
{
    /// Puts an actor to sleep, if it can be. Whoever comes next meets a new one, which reads the log.
    pub(super) fn put_to_sleep(&mut self, stream: &StreamId) {
        let Some(entry) = self.0.get(stream) else { return };
        if entry.resting_since().is_some() {
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
            let (stream, rest) = (StreamId::task("agent", "t").unwrap(), Rc::new(Rest::default()));
            let mut awake = Awake::new();
            awake.insert(stream.clone(), 1, Sleeper.start(), Rc::clone(&rest));
            awake.put_to_sleep(&stream);
            assert_eq!(awake.len(), 1, "it has not said that it is at rest");
            rest.note(true);
            awake.sent(&stream);
            awake.put_to_sleep(&stream);
            assert_eq!((awake.len(), awake.resting().count()), (1, 0), "a message is on its way to it");
            rest.carried_out();
            assert_eq!(awake.resting_for(Duration::MAX).count(), 0);
            awake.put_to_sleep(&stream);
            assert_eq!(awake.len(), 0);
        });
    }
}
