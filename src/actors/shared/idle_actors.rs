//! The idle actors of an arbiter, in the order in which they became idle: by them the supervisor finds those to be put to sleep,
//! without a look at all that are live ([`live_actors`](crate::actors::shared::live_actors)).
//!
//! An actor takes its place when it becomes idle, without a message to the supervisor: both are on the arbiter's thread. To
//! move it takes the same time among any number of actors.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use proto_events::id::StreamId;

use crate::actors::shared::idle_state::IdleState;

/// The idle actors.
#[derive(Clone)]
pub(crate) struct IdleActors(Rc<RefCell<IdlePlaces>>);

/// The kind of an idle actor. Each has an order of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Idleness {
    /// A session's actor, or that of a task that has not ended.
    Rests,
    /// The actor of a task that has ended.
    Ended,
}

/// The places of all idle actors. The places of a kind form a ring with a place that no actor has: its neighbours are the one that
/// has been idle longest, and the one that became idle last.
struct IdlePlaces {
    all: Vec<IdlePlace>,
    free: Vec<usize>,
    ended: usize,
}

struct IdlePlace {
    before: usize,
    after: usize,
    idleness: Idleness,
    actor: Option<(StreamId, Rc<IdleState>)>,
}

/// The invariant of [`IdlePlaces`].
const LINKED: &str = "each place is linked to places that exist";

impl Idleness {
    /// Returns the place of the ring that no actor has.
    const fn free_place(self) -> usize {
        match self {
            Self::Rests => 0,
            Self::Ended => 1,
        }
    }
}

impl Default for IdleActors {
    fn default() -> Self {
        let ring = |idleness: Idleness| {
            let ends = idleness.free_place();
            IdlePlace { before: ends, after: ends, idleness, actor: None }
        };
        let all = vec![ring(Idleness::Rests), ring(Idleness::Ended)];
        Self(Rc::new(RefCell::new(IdlePlaces { all, free: Vec::new(), ended: 0 })))
    }
}

impl IdleActors {
    /// Gives an actor that has just become idle the last place.
    pub(crate) fn put_last(&self, stream: &StreamId, idle: &Rc<IdleState>, idleness: Idleness) {
        let mut places = self.0.borrow_mut();
        let at = if let Some(at) = idle.ring_index() {
            places.unlink(at);
            at
        } else {
            let at = places.insert(stream.clone(), Rc::clone(idle));
            idle.set_place(Some(at));
            at
        };
        places.link_last(at, idleness);
    }

    /// Takes the actor that has been idle longest out of its order. It gets a place again when it next becomes idle.
    pub(crate) fn take_first(&self, idleness: Idleness) -> Option<StreamId> {
        let mut places = self.0.borrow_mut();
        let first = places.get_mut(idleness.free_place()).after;
        let (stream, idle) = places.give_up(first)?;
        idle.set_place(None);
        Some(stream)
    }

    /// Returns the time since which the actor of this kind is idle that has been idle longest.
    pub(crate) fn first_since(&self, idleness: Idleness) -> Option<Instant> {
        let mut places = self.0.borrow_mut();
        let first = places.get_mut(idleness.free_place()).after;
        places.get_mut(first).actor.as_ref().and_then(|(_, idle)| idle.since())
    }

    /// Returns the kind of the actor that has been idle longest.
    pub(crate) fn oldest(&self) -> Option<Idleness> {
        let first = |idleness| Some((self.first_since(idleness)?, idleness));
        let both = [first(Idleness::Ended), first(Idleness::Rests)];
        both.into_iter().flatten().min_by_key(|(since, _)| *since).map(|(_, idleness)| idleness)
    }

    /// Removes an actor that works again, or is live no longer.
    pub(crate) fn remove(&self, idle: &IdleState) {
        if let Some(at) = idle.ring_index() {
            self.0.borrow_mut().give_up(at);
            idle.set_place(None);
        }
    }

    /// Returns the number of actors whose tasks have ended.
    pub(crate) fn ended_count(&self) -> usize {
        self.0.borrow().ended
    }
}

impl IdlePlaces {
    fn get_mut(&mut self, at: usize) -> &mut IdlePlace {
        self.all.get_mut(at).expect(LINKED)
    }

    /// Takes a place that is linked to no other.
    fn insert(&mut self, stream: StreamId, idle: Rc<IdleState>) -> usize {
        let at = self.free.pop().unwrap_or(self.all.len());
        let idleness = Idleness::Rests;
        let place = IdlePlace { before: at, after: at, idleness, actor: Some((stream, idle)) };
        match self.all.get_mut(at) {
            Some(free) => *free = place,
            // There are as many places as actors were ever idle at once.
            None => self.all.push(place),
        }
        at
    }

    fn link_last(&mut self, at: usize, idleness: Idleness) {
        let ends = idleness.free_place();
        let last = std::mem::replace(&mut self.get_mut(ends).before, at);
        self.get_mut(last).after = at;
        let place = self.get_mut(at);
        (place.before, place.after, place.idleness) = (last, ends, idleness);
        self.ended += usize::from(idleness == Idleness::Ended);
    }

    fn unlink(&mut self, at: usize) {
        let &mut IdlePlace { before, after, idleness, .. } = self.get_mut(at);
        self.get_mut(before).after = after;
        self.get_mut(after).before = before;
        self.ended -= usize::from(idleness == Idleness::Ended);
    }

    /// Frees a place, and returns whose it was; `None` if no actor has it.
    fn give_up(&mut self, at: usize) -> Option<(StreamId, Rc<IdleState>)> {
        let actor = self.get_mut(at).actor.take()?;
        self.unlink(at);
        self.free.push(at);
        Some(actor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::HashMap;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        BecomesIdle(u8, bool),
        TakeFirst(bool),
        Remove(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0_u8..12, any::<bool>()).prop_map(|(actor, ended)| Step::BecomesIdle(actor, ended)),
            1 => any::<bool>().prop_map(Step::TakeFirst),
            1 => (0_u8..12).prop_map(Step::Remove),
        ]
    }

    fn kind(ended: bool) -> Idleness {
        if ended { Idleness::Ended } else { Idleness::Rests }
    }

    proptest! {
        #[test]
        fn idle_actors_are_taken_in_the_order_in_which_they_last_became_idle(
            steps in proptest::collection::vec(step(), 0..200),
        ) {
            let idle_actors = IdleActors::default();
            let mut states: HashMap<u8, Rc<IdleState>> = HashMap::new();
            // The model: the actors of each kind in a plain list.
            let mut model: [Vec<(u8, Instant)>; 2] = Default::default();
            let stream = |actor: u8| StreamId::task("agent", &format!("t{actor}")).unwrap();
            for step in steps {
                match step {
                    Step::BecomesIdle(actor, ended) => {
                        let idle = states.entry(actor).or_default();
                        idle.set_idle(true);
                        idle_actors.put_last(&stream(actor), idle, kind(ended));
                        for list in &mut model {
                            list.retain(|(known, _)| *known != actor);
                        }
                        model[usize::from(ended)].push((actor, idle.since().unwrap()));
                    }
                    Step::TakeFirst(ended) => {
                        let list = &mut model[usize::from(ended)];
                        let first = (!list.is_empty()).then(|| list.remove(0).0);
                        prop_assert_eq!(idle_actors.take_first(kind(ended)), first.map(stream));
                    }
                    Step::Remove(actor) => {
                        idle_actors.remove(states.entry(actor).or_default());
                        for list in &mut model {
                            list.retain(|(known, _)| *known != actor);
                        }
                    }
                }
                prop_assert_eq!(idle_actors.ended_count(), model[1].len());
                let [rests, ended] = [0, 1].map(|kind: usize| model[kind].first().map(|(_, since)| *since));
                prop_assert_eq!(idle_actors.first_since(Idleness::Rests), rests);
                prop_assert_eq!(idle_actors.first_since(Idleness::Ended), ended);
                let oldest = match (rests, ended) {
                    (Some(rests), Some(ended)) => Some(kind(ended <= rests)),
                    (rests, ended) => rests.or(ended).map(|_| kind(ended.is_some())),
                };
                prop_assert_eq!(idle_actors.oldest(), oldest);
                let places = idle_actors.0.borrow();
                prop_assert_eq!(places.all.len() - places.free.len(), 2 + model[0].len() + model[1].len());
                prop_assert!(places.all.len() <= 2 + 12, "places are used again");
            }
        }
    }
}
