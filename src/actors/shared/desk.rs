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
    all: Vec<Place>,
    /// The numbers of the places that are not used.
    free: Vec<usize>,
}

/// The place of one append.
enum Place {
    Free,
    Waiting(Option<Waker>),
    Answered(Answer),
    /// A place at which nobody waits any more; the answer is still to come.
    Left,
}

/// An append whose answer arrives at the desk.
pub(crate) struct AtDesk {
    desk: Arc<Desk>,
    number: usize,
    is_over: bool,
}

/// Ignores poisoning: what a lock holds is consistent between any two steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    /// Returns a ticket, and the place at which its answer is awaited.
    pub(crate) fn ticket(self: &Arc<Self>) -> (Ticket, AtDesk) {
        let mut places = lock(&self.places);
        let number = places.free.pop().unwrap_or(places.all.len());
        match places.all.get_mut(number) {
            Some(place) => *place = Place::Waiting(None),
            None => places.all.push(Place::Waiting(None)),
        }
        drop(places);
        let desk: Arc<dyn TicketDesk> = Arc::<Self>::clone(self);
        let ticket = Ticket::new(desk, u64::try_from(number).unwrap_or(u64::MAX));
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
                if let Some(waker) = places.answer(number, answer) {
                    waker.wake();
                }
            }
        }
    }
}

impl Places {
    /// Puts an answer in its place, and returns who is to be woken.
    fn answer(&mut self, number: u64, answer: Answer) -> Option<Waker> {
        let number = usize::try_from(number).ok()?;
        let place = self.all.get_mut(number)?;
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

    fn free(&mut self, number: usize) {
        if let Some(place) = self.all.get_mut(number) {
            *place = Place::Free;
            self.free.push(number);
        }
    }
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
        let desk = Arc::clone(&self.desk);
        let mut places = lock(&desk.places);
        let Some(place) = places.all.get_mut(self.number) else { return Poll::Pending };
        match place {
            Place::Waiting(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => match std::mem::replace(place, Place::Free) {
                Place::Answered(answer) => {
                    places.free.push(self.number);
                    self.is_over = true;
                    Poll::Ready(answer)
                }
                other => {
                    *place = other;
                    Poll::Pending
                }
            },
        }
    }
}

impl Drop for AtDesk {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut places = lock(&self.desk.places);
        match places.all.get_mut(self.number) {
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
            let number = |at: &AtDesk| u64::try_from(at.number).unwrap();
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
        desk.answer(vec![(u64::try_from(at_kept.number).unwrap(), answer())]);
        assert_eq!(at_kept.await, answer());
        kept.withdraw();
        assert_eq!(lock(&desk.places).free.len(), 2);
        giving.abort();
    }
}
