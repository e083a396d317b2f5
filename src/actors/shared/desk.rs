//! The desk of an actors' thread: the answers to a group of appends arrive here in one message from the writer's thread,
//! and are given on to the actors on this thread. Each actor alone would be woken across threads.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::task::AtomicWaker;
use taskreel_log::api::{Answers, AppendError, Appended, Ticket, TicketDesk};

type Answer = Result<Appended, AppendError>;

/// The desk of one actors' thread.
#[derive(Default)]
pub(crate) struct Desk {
    /// The answers that have arrived.
    inbox: Mutex<Answers>,
    /// Wakes the task that gives them on.
    arrived: AtomicWaker,
    places: Mutex<Places>,
}

/// The places of the appends under way, by the numbers of their tickets.
#[derive(Default)]
struct Places {
    all: Vec<Slot>,
    /// The indices of the places that are not used.
    free: Vec<u32>,
}

/// A place that is used again and again, each time under another number: a store that answers a ticket after its place was
/// given to another append must not answer that one.
struct Slot {
    /// The number of uses that have ended.
    generation: u32,
    place: Place,
}

/// The place of one append.
enum Place {
    Free,
    Waiting(Option<Waker>),
    Answered(Answer),
    /// A place at which nobody waits any more; the answer is still to come.
    Left,
}

/// The number of a ticket: a place, and which use of it this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number {
    index: u32,
    generation: u32,
}

impl Number {
    fn of_ticket(number: u64) -> Self {
        let half = |half: u64| u32::try_from(half & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        Self { generation: half(number >> 32), index: half(number) }
    }

    fn ticket(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.index)
    }
}

/// An append whose answer arrives at the desk.
pub(crate) struct AtDesk {
    desk: Arc<Desk>,
    number: Number,
    is_over: bool,
}

/// Ignores poisoning: what a lock holds is consistent between any two steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    /// Returns a ticket, and the place at which its answer is awaited.
    pub(crate) fn ticket(self: &Arc<Self>) -> (Ticket, AtDesk) {
        let number = lock(&self.places).take();
        let desk: Arc<dyn TicketDesk> = Arc::<Self>::clone(self);
        let ticket = Ticket::new(desk, number.ticket());
        (ticket, AtDesk { desk: Arc::clone(self), number, is_over: false })
    }

    /// Gives answers on as they arrive, for as long as the thread lives.
    pub(crate) async fn give_on(self: Arc<Self>) {
        let mut answers = Answers::new();
        loop {
            poll_fn(|cx| {
                self.arrived.register(cx.waker());
                std::mem::swap(&mut *lock(&self.inbox), &mut answers);
                if answers.is_empty() { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            let mut places = lock(&self.places);
            for (number, answer) in answers.drain(..) {
                if let Some(waker) = places.answer(Number::of_ticket(number), answer) {
                    waker.wake();
                }
            }
        }
    }
}

impl Places {
    /// Takes a place for an append.
    fn take(&mut self) -> Number {
        let place = Place::Waiting(None);
        let free = self.free.pop().and_then(|index| Some((index, self.all.get_mut(usize_of(index))?)));
        if let Some((index, slot)) = free {
            slot.place = place;
            return Number { index, generation: slot.generation };
        }
        // There are as many places as appends were ever under way at once.
        let index = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(Slot { generation: 0, place });
        Number { index, generation: 0 }
    }

    /// Returns the place of a ticket, unless another has it by now.
    fn of(&mut self, number: Number) -> Option<&mut Place> {
        let slot = self.all.get_mut(usize_of(number.index))?;
        (slot.generation == number.generation).then_some(&mut slot.place)
    }

    /// Puts an answer in its place, and returns who is to be woken.
    fn answer(&mut self, number: Number, answer: Answer) -> Option<Waker> {
        let place = self.of(number)?;
        match place {
            Place::Waiting(waker) => {
                let waker = waker.take();
                *place = Place::Answered(answer);
                waker
            }
            Place::Left => {
                self.free(number);
                None
            }
            // A store that keeps to the rules answers no ticket that it has withdrawn, and none twice.
            Place::Free | Place::Answered(_) => None,
        }
    }

    fn free(&mut self, number: Number) {
        if let Some(slot) = self.all.get_mut(usize_of(number.index)) {
            slot.place = Place::Free;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(number.index);
        }
    }
}

fn usize_of(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

impl TicketDesk for Desk {
    fn answer(&self, answers: Answers) {
        let mut inbox = lock(&self.inbox);
        if inbox.is_empty() {
            *inbox = answers;
        } else {
            inbox.extend(answers);
        }
        drop(inbox);
        self.arrived.wake();
    }
}

impl AtDesk {
    /// Gives the place up, because its ticket was withdrawn.
    pub(crate) fn withdrawn(mut self) {
        self.is_over = true;
        lock(&self.desk.places).free(self.number);
    }
}

impl Future for AtDesk {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let this = &mut *self;
        let mut places = lock(&this.desk.places);
        match places.of(this.number) {
            Some(Place::Waiting(waker)) => {
                match waker {
                    Some(known) if known.will_wake(cx.waker()) => {}
                    _ => *waker = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
            Some(place @ Place::Answered(_)) => {
                let Place::Answered(answer) = std::mem::replace(place, Place::Free) else {
                    return Poll::Pending;
                };
                places.free(this.number);
                this.is_over = true;
                Poll::Ready(answer)
            }
            _ => Poll::Pending,
        }
    }
}

impl Drop for AtDesk {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut places = lock(&self.desk.places);
        match places.of(self.number) {
            Some(place @ Place::Waiting(_)) => *place = Place::Left,
            Some(Place::Answered(_)) => places.free(self.number),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use taskreel_log::api::AppendError;

    use super::*;

    fn answer() -> Answer {
        Err(AppendError::Closed)
    }

    #[tokio::test]
    async fn answers_reach_their_places_in_any_order_and_places_are_used_again() {
        let desk = Arc::new(Desk::default());
        let giving = tokio::spawn(Arc::clone(&desk).give_on());
        for _ in 0..3 {
            let (first, at_first) = desk.ticket();
            let (second, at_second) = desk.ticket();
            let (third, at_third) = desk.ticket();
            third.withdraw();
            at_third.withdrawn();
            let number = |at: &AtDesk| at.number.ticket();
            let done = Ok(Appended { parts: Vec::new() });
            desk.answer(vec![(number(&at_second), answer()), (number(&at_first), done.clone())]);
            assert_eq!(at_first.await, done);
            assert_eq!(at_second.await, answer());
            first.withdraw();
            second.withdraw();
        }
        let places = lock(&desk.places);
        assert_eq!((places.all.len(), places.free.len()), (3, 3));
        giving.abort();
    }

    #[tokio::test]
    async fn a_ticket_that_is_dropped_says_that_the_outcome_is_unknown() {
        let desk = Arc::new(Desk::default());
        let giving = tokio::spawn(Arc::clone(&desk).give_on());
        let (ticket, at_desk) = desk.ticket();
        drop(ticket);
        assert!(matches!(at_desk.await, Err(AppendError::Ambiguous { .. })));
        giving.abort();
    }

    #[tokio::test]
    async fn a_place_that_nobody_waits_at_is_free_after_its_answer() {
        let desk = Arc::new(Desk::default());
        let giving = tokio::spawn(Arc::clone(&desk).give_on());
        let (left, at_left) = desk.ticket();
        let (kept, at_kept) = desk.ticket();
        drop(at_left);
        drop(left);
        desk.answer(vec![(at_kept.number.ticket(), answer())]);
        assert_eq!(at_kept.await, answer());
        kept.withdraw();
        assert_eq!(lock(&desk.places).free.len(), 2);
        giving.abort();
    }

    #[tokio::test]
    async fn an_answer_that_comes_twice_or_late_reaches_no_other_append() {
        let desk = Arc::new(Desk::default());
        let giving = tokio::spawn(Arc::clone(&desk).give_on());
        let done = Ok(Appended { parts: Vec::new() });

        // The store withdrew by its return value, and kept the ticket.
        let (kept, at_kept) = desk.ticket();
        at_kept.withdrawn();
        let (own, mut at_next) = desk.ticket();
        assert_eq!(at_next.number.index, 0, "the place is used again");
        let mut late = taskreel_log::api::AnswersByDesk::default();
        late.add(kept, answer());
        late.hand_over();

        // An append that was answered is answered again.
        let (first, at_first) = desk.ticket();
        let number = at_first.number.ticket();
        desk.answer(vec![(number, done.clone()), (number, answer())]);
        assert_eq!(at_first.await, done);
        let (second, mut at_second) = desk.ticket();
        assert_eq!(at_second.number.index, 1, "the place is used again");
        desk.answer(vec![(number, answer())]);
        for at in [&mut at_next, &mut at_second] {
            // The answers above are given on first: they arrived before.
            assert!(futures_util::poll!(&mut *at).is_pending());
            tokio::task::yield_now().await;
            assert!(futures_util::poll!(&mut *at).is_pending());
        }
        desk.answer(vec![(at_second.number.ticket(), done.clone()), (at_next.number.ticket(), done.clone())]);
        assert_eq!((at_next.await, at_second.await), (done.clone(), done));
        first.withdraw();
        own.withdraw();
        second.withdraw();
        giving.abort();
    }
}
