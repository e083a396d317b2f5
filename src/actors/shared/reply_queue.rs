//! The reply queue of an actors' thread: the answers to a group of appends arrive here in one message from the writer's thread,
//! and are given on to the actors on this thread. Each actor alone would be woken across threads. Replies that depend on
//! nothing but an append are sent by the writer's thread itself.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::task::AtomicWaker;
use taskreel_log::api::{Answers, AppendError, AppendToken, Appended, ReplySink};

use crate::actors::shared::durable_reply::DurableReply;

type Answer = Result<Appended, AppendError>;

/// The reply queue of one actors' thread.
#[derive(Default)]
pub(crate) struct ReplyQueue {
    /// The answers that have arrived.
    inbox: Mutex<Answers>,
    /// Wakes the task that gives them on.
    arrived: AtomicWaker,
    places: Mutex<AppendSlots>,
}

/// The places of the appends under way, by the numbers of their tokens.
#[derive(Default)]
struct AppendSlots {
    all: Vec<Slot>,
    /// The indices of the places that are not used.
    free: Vec<u32>,
}

/// A place that is used again and again, each time under another number: a store that answers a token after its place was
/// given to another append must not answer that one.
struct Slot {
    /// The number of uses that have ended.
    generation: u32,
    place: AppendSlot,
}

/// The place of one append.
enum AppendSlot {
    Free,
    Waiting {
        waker: Option<Waker>,
        /// The reply that is sent when the append is durable.
        reply: Option<DurableReply>,
    },
    /// With the reply, if it was not sent.
    Answered(Answer, Option<DurableReply>),
    /// A place at which nobody waits any more; the answer is still to come.
    Left,
}

/// The number of a token: a place, and which use of it this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Number {
    index: u32,
    generation: u32,
}

impl Number {
    fn from_token(number: u64) -> Self {
        let half = |half: u64| u32::try_from(half & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        Self { generation: half(number >> 32), index: half(number) }
    }

    fn token(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.index)
    }
}

/// An append whose answer arrives at the reply queue.
pub(crate) struct QueuedReply {
    reply_queue: Arc<ReplyQueue>,
    number: Number,
    is_over: bool,
    /// The reply that was not sent although the answer is there.
    unsent: Option<DurableReply>,
}

/// Ignores poisoning: what a lock holds is consistent between any two steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ReplyQueue {
    /// Returns a token, and the place at which its answer is awaited.
    pub(crate) fn token(self: &Arc<Self>) -> (AppendToken, QueuedReply) {
        let number = lock(&self.places).claim();
        let reply_queue: Arc<dyn ReplySink> = Arc::<Self>::clone(self);
        let token = AppendToken::new(reply_queue, number.token());
        (token, QueuedReply { reply_queue: Arc::clone(self), number, is_over: false, unsent: None })
    }

    /// Gives answers on as they arrive, for as long as the thread lives.
    pub(crate) async fn give_on(self: Arc<Self>) {
        let (mut answers, mut wakers) = (Answers::new(), Vec::new());
        loop {
            poll_fn(|cx| {
                self.arrived.register(cx.waker());
                std::mem::swap(&mut *lock(&self.inbox), &mut answers);
                if answers.is_empty() { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            let mut places = lock(&self.places);
            for (number, answer) in answers.drain(..) {
                wakers.extend(places.answer(Number::from_token(number), answer));
            }
            drop(places);
            wakers.drain(..).for_each(Waker::wake);
        }
    }
}

impl AppendSlots {
    /// Takes a place for an append.
    fn claim(&mut self) -> Number {
        let place = AppendSlot::Waiting { waker: None, reply: None };
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

    /// Returns the place of a token, unless another has it by now.
    fn get_mut(&mut self, number: Number) -> Option<&mut AppendSlot> {
        let slot = self.all.get_mut(usize_of(number.index))?;
        (slot.generation == number.generation).then_some(&mut slot.place)
    }

    /// Puts an answer in its place, and returns who is to be woken.
    fn answer(&mut self, number: Number, answer: Answer) -> Option<Waker> {
        let place = self.get_mut(number)?;
        match place {
            AppendSlot::Waiting { waker, reply } => {
                let (waker, reply) = (waker.take(), reply.take());
                *place = AppendSlot::Answered(answer, reply);
                waker
            }
            AppendSlot::Left => {
                self.free(number);
                None
            }
            // A store that keeps to the rules answers no token that it has withdrawn, and none twice.
            AppendSlot::Free | AppendSlot::Answered(..) => None,
        }
    }

    /// Takes the reply that waits for an append whose answer was not given on yet.
    fn take_waiting(&mut self, number: Number) -> Option<DurableReply> {
        match self.get_mut(number)? {
            AppendSlot::Waiting { reply, .. } => reply.take(),
            _ => None,
        }
    }

    fn free(&mut self, number: Number) {
        if let Some(slot) = self.all.get_mut(usize_of(number.index)) {
            slot.place = AppendSlot::Free;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(number.index);
        }
    }
}

fn usize_of(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

impl ReplySink for ReplyQueue {
    fn answer(&self, answers: Answers) {
        let end = |answer: &Answer| answer.as_ref().ok()?.parts.last().copied();
        let replies: Vec<_> = {
            let mut places = lock(&self.places);
            let durable = answers.iter().filter_map(|(number, answer)| Some((*number, end(answer)?)));
            durable
                .filter_map(|(number, end)| Some((places.take_waiting(Number::from_token(number))?, end)))
                .collect()
        };
        let mut inbox = lock(&self.inbox);
        if inbox.is_empty() {
            *inbox = answers;
        } else {
            inbox.extend(answers);
        }
        drop(inbox);
        // The actors first: they have more to do.
        self.arrived.wake();
        for (reply, end) in replies {
            reply.send(end);
        }
    }
}

impl QueuedReply {
    /// Has a reply sent once the append is durable. Returns it if the answer was given on already. Where the answer has arrived
    /// and was not given on, the reply stays here until it is taken back.
    pub(crate) fn send_when_durable(&self, reply: DurableReply) -> Option<DurableReply> {
        match lock(&self.reply_queue.places).get_mut(self.number) {
            Some(AppendSlot::Waiting { reply: place, .. }) => {
                *place = Some(reply);
                None
            }
            _ => Some(reply),
        }
    }

    /// Takes the reply back, if it was not sent.
    pub(crate) fn take_reply(&mut self) -> Option<DurableReply> {
        self.unsent.take().or_else(|| match lock(&self.reply_queue.places).get_mut(self.number)? {
            AppendSlot::Waiting { reply, .. } | AppendSlot::Answered(_, reply) => reply.take(),
            _ => None,
        })
    }

    /// Gives the place up, because its token was withdrawn.
    pub(crate) fn withdrawn(mut self) {
        self.is_over = true;
        lock(&self.reply_queue.places).free(self.number);
    }
}

impl Future for QueuedReply {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let this = &mut *self;
        let mut places = lock(&this.reply_queue.places);
        match places.get_mut(this.number) {
            Some(AppendSlot::Waiting { waker, .. }) => {
                match waker {
                    Some(known) if known.will_wake(cx.waker()) => {}
                    _ => *waker = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
            Some(place @ AppendSlot::Answered(..)) => {
                let AppendSlot::Answered(answer, reply) = std::mem::replace(place, AppendSlot::Free) else {
                    return Poll::Pending;
                };
                this.unsent = reply;
                places.free(this.number);
                this.is_over = true;
                Poll::Ready(answer)
            }
            _ => Poll::Pending,
        }
    }
}

impl Drop for QueuedReply {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut places = lock(&self.reply_queue.places);
        let left = match places.get_mut(self.number) {
            Some(place @ AppendSlot::Waiting { .. }) => std::mem::replace(place, AppendSlot::Left),
            Some(place @ AppendSlot::Answered(..)) => {
                let left = std::mem::replace(place, AppendSlot::Free);
                places.free(self.number);
                left
            }
            _ => return,
        };
        // To drop a reply wakes its caller, which the store's thread must not wait for.
        drop(places);
        drop(left);
    }
}

#[cfg(test)]
mod tests;
