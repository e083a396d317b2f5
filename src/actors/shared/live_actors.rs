//! Live actors: the supervisor's book on the actors of one kind.
//!
//! An actor is passivated only when it is idle and has carried out every message sent to it. All messages
//! that may begin work come through the supervisor, which counts them, so nothing is in the mailbox of an
//! actor that is asked to stop, and no message is lost between it and its successor.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::{Actor, Addr, Handler, Message};
use proto_events::id::StreamId;

use crate::actors::shared::ended_tasks::EndedTasks;
use crate::actors::shared::idle_state::IdleState;
use crate::limits::ENDED_TASKS_LOOKED_AT;

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
        self.idle.since().filter(|_| self.has_carried_out_all())
    }

    fn has_carried_out_all(&self) -> bool {
        self.idle.done() == self.sent
    }
}

/// The actors of one kind.
pub(crate) struct LiveActors<A: Actor> {
    actors: HashMap<StreamId, Entry<A>>,
    ended: EndedTasks,
    /// The number of ended tasks whose actors stay live.
    ended_kept: usize,
}

impl<A: Actor> LiveActors<A> {
    /// Returns an empty book, for actors of which so many stay live when their tasks have ended.
    pub(crate) fn keeping(ended_kept: usize) -> Self {
        Self { actors: HashMap::new(), ended: EndedTasks::default(), ended_kept }
    }

    /// Returns the list to which the actors of ended tasks add themselves.
    pub(crate) fn ended(&self) -> EndedTasks {
        self.ended.clone()
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
        self.actors.insert(stream, Entry { addr, number, sent: 1, idle });
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
            self.actors.remove(stream);
        }
    }

    /// Removes all actors that have broken without reporting it.
    pub(crate) fn remove_stopped(&mut self) {
        self.actors.retain(|_, entry| entry.addr.connected());
    }

    /// Returns all actors that can be passivated, and since when.
    pub(crate) fn idle(&self) -> impl Iterator<Item = (Instant, &StreamId)> {
        self.actors.iter().filter_map(|(stream, entry)| Some((entry.idle_since()?, stream)))
    }

    /// Returns the actors that have been idle for at least `idle`.
    pub(crate) fn idle_for(&self, idle: Duration) -> impl Iterator<Item = StreamId> {
        self.idle().filter(move |(since, _)| since.elapsed() >= idle).map(|(_, stream)| stream.clone())
    }

    /// Returns the streams whose actors have messages that they have not carried out.
    pub(crate) fn at_work(&self) -> impl Iterator<Item = &StreamId> {
        self.actors.iter().filter(|(_, entry)| !entry.has_carried_out_all()).map(|(stream, _)| stream)
    }
}

impl<A> LiveActors<A>
where
    A: Actor<Context = actix::Context<A>> + Handler<Passivate>,
{
    /// Passivates actors of tasks that have ended if more are listed than may stay live, those first that have been idle longest.
    /// It looks at few of them, so that it takes the same short time among any number of actors. One that was used since it
    /// was listed stays, and is listed anew.
    pub(crate) fn passivate_ended(&mut self) {
        for _ in 0..ENDED_TASKS_LOOKED_AT {
            let Some(task) = self.ended.take_first_beyond(self.ended_kept) else { return };
            let known = self.actors.get(&task.stream).filter(|entry| Rc::ptr_eq(&entry.idle, &task.idle));
            match known.and_then(Entry::idle_since) {
                Some(_) if task.was_used() => self.ended.add_again(task),
                // It is gone, or at work and adds itself again.
                None => drop(task.idle.set_listed(false)),
                Some(_) => self.passivate(&task.stream),
            }
        }
    }

    /// Passivates an actor, if possible. The next message starts a new one, which reads the log.
    pub(crate) fn passivate(&mut self, stream: &StreamId) {
        let Some(entry) = self.actors.get(stream) else { return };
        if entry.idle_since().is_some() {
            entry.addr.do_send(Passivate);
            self.actors.remove(stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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
    fn of_ended_tasks_those_go_first_that_were_used_longest_ago_and_none_that_has_something_to_do() {
        actix_rt::System::new().block_on(async {
            let mut live_actors = LiveActors::keeping(2);
            let ended = live_actors.ended();
            let start = |live_actors: &mut LiveActors<Sleeper>, n: u64| {
                let (stream, idle) = (StreamId::task("agent", &format!("t{n}")).unwrap(), Rc::default());
                live_actors.enter(stream.clone(), n, Sleeper.start(), Rc::clone(&idle));
                (stream, idle)
            };
            let end = |(stream, idle): &(StreamId, Rc<IdleState>)| {
                idle.carried_out();
                idle.note(true);
                ended.add(stream, idle);
            };
            let all: Vec<_> = (0..5).map(|n| start(&mut live_actors, n)).collect();
            all.iter().for_each(end);
            // The first is used once more, the second has something in its mailbox, the third has gone and come again.
            let [first, second, third, fourth, fifth] = &all[..] else { unreachable!() };
            assert!(live_actors.reach(&first.0).is_some());
            end(first);
            assert!(live_actors.reach(&second.0).is_some());
            live_actors.passivate(&third.0);
            let third = start(&mut live_actors, 6);
            assert_eq!(ended.len(), 5, "each is listed once");
            let live = |of: &LiveActors<Sleeper>| of.actors.keys().cloned().collect::<HashSet<_>>();
            let of =
                |all: &[&(StreamId, Rc<IdleState>)]| all.iter().map(|(stream, _)| stream.clone()).collect();
            assert_eq!(live(&live_actors), of(&[first, second, &third, fourth, fifth]));
            live_actors.passivate_ended();
            assert_eq!(
                live(&live_actors),
                of(&[first, second, &third, fifth]),
                "the fourth is the one used longest ago"
            );
            assert_eq!(ended.len(), 2);
            end(second);
            end(&third);
            live_actors.passivate_ended();
            assert_eq!(live(&live_actors), of(&[second, &third]), "they are listed anew, behind the others");
        });
    }

    #[test]
    fn an_actor_that_was_sent_something_is_not_put_to_sleep_before_it_has_carried_it_out() {
        actix_rt::System::new().block_on(async {
            let (stream, idle) = (StreamId::task("agent", "t").unwrap(), Rc::new(IdleState::default()));
            let mut live_actors = LiveActors::keeping(0);
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
