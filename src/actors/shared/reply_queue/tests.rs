//! The reply queue: answers reach their places, and replies their callers, once.

use proto_events::envelope::Committed;
use proto_events::id::{Position, Version};
use taskreel_log::api::AppendError;
use tokio::sync::oneshot::{Receiver, channel};

use super::*;
use crate::actors::shared::messages::TaskReply;

fn answer() -> Answer {
    Err(AppendError::Closed)
}

#[tokio::test]
async fn answers_reach_their_places_in_any_order_and_places_are_used_again() {
    let reply_queue = Arc::new(ReplyQueue::default());
    let giving = tokio::spawn(Arc::clone(&reply_queue).give_on());
    for _ in 0..3 {
        let (first, at_first) = reply_queue.token();
        let (second, at_second) = reply_queue.token();
        let (third, at_third) = reply_queue.token();
        third.withdraw();
        at_third.withdrawn();
        let number = |at: &QueuedReply| at.number.token();
        let done = Ok(Appended { parts: Vec::new() });
        reply_queue.answer(vec![(number(&at_second), answer()), (number(&at_first), done.clone())]);
        assert_eq!(at_first.await, done);
        assert_eq!(at_second.await, answer());
        first.withdraw();
        second.withdraw();
    }
    let places = lock(&reply_queue.places);
    assert_eq!((places.all.len(), places.free.len()), (3, 3));
    giving.abort();
}

fn end() -> Committed {
    Committed { version: Version(3), position: Position(9) }
}

/// Returns a reply, and the place where its caller gets it.
fn reply() -> (DurableReply, Receiver<TaskReply>) {
    let (caller, reply) = channel();
    (DurableReply { caller }, reply)
}

#[tokio::test]
async fn a_reply_is_sent_when_its_append_is_durable_whether_this_thread_goes_on_or_not() {
    let reply_queue = Arc::new(ReplyQueue::default());
    let (token, pending) = reply_queue.token();
    let (durable, mut told) = reply();
    assert!(pending.send_when_durable(durable).is_none());
    let number = pending.number.token();
    let answering = Arc::clone(&reply_queue);
    let store = std::thread::spawn(move || {
        answering.answer(vec![(number, Ok(Appended { parts: vec![end()] }))]);
        token.withdraw();
    });
    store.join().unwrap();
    // Nobody has given the answer on.
    assert!(told.try_recv().is_ok_and(|reply| reply.is_ok_and(|view| view.committed == end())));
    let giving = tokio::spawn(Arc::clone(&reply_queue).give_on());
    let mut pending = pending;
    assert_eq!((&mut pending).await, Ok(Appended { parts: vec![end()] }));
    assert!(pending.take_reply().is_none());
    giving.abort();
}

/// A waker that panics.
struct Panics;

impl std::task::Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("no waker");
    }
}

#[test]
fn a_caller_whose_waker_panics_takes_no_reply_from_another_and_does_not_end_the_stores_thread() {
    let reply_queue = Arc::new(ReplyQueue::default());
    let (first, at_first) = reply_queue.token();
    let (second, at_second) = reply_queue.token();
    let ((broken, mut told_first), (whole, mut told_second)) = (reply(), reply());
    let waker = Waker::from(Arc::new(Panics));
    assert!(Pin::new(&mut told_first).poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(at_first.send_when_durable(broken).is_none() && at_second.send_when_durable(whole).is_none());
    let done = || Ok(Appended { parts: vec![end()] });
    reply_queue.answer(vec![(at_first.number.token(), done()), (at_second.number.token(), done())]);
    assert!(told_second.try_recv().is_ok_and(|reply| reply.is_ok()));
    assert!(told_first.try_recv().is_ok_and(|reply| reply.is_ok()));
    first.withdraw();
    second.withdraw();
}

#[tokio::test]
async fn a_reply_whose_append_failed_or_was_answered_before_is_taken_back() {
    let reply_queue = Arc::new(ReplyQueue::default());
    let giving = tokio::spawn(Arc::clone(&reply_queue).give_on());
    let (token, mut failed) = reply_queue.token();
    let (durable, mut told) = reply();
    assert!(failed.send_when_durable(durable).is_none());
    drop(token);
    assert!(matches!((&mut failed).await, Err(AppendError::Ambiguous { .. })));
    assert!(told.try_recv().is_err() && failed.take_reply().is_some(), "it is the actor's to say so");

    // The answer has arrived before the actor has its reply sent.
    let (token, mut late) = reply_queue.token();
    reply_queue.answer(vec![(late.number.token(), Ok(Appended { parts: vec![end()] }))]);
    token.withdraw();
    let (durable, mut told) = reply();
    let refused = late.send_when_durable(durable);
    assert!((&mut late).await.is_ok());
    assert!(told.try_recv().is_err() && refused.or_else(|| late.take_reply()).is_some());

    // Who gives a place up has its reply, and another append in the same place never sends it.
    let (token, mut left) = reply_queue.token();
    let (durable, mut told) = reply();
    assert!(left.send_when_durable(durable).is_none());
    let number = left.number.token();
    assert!(left.take_reply().is_some());
    drop(left);
    let (other, at_other) = reply_queue.token();
    reply_queue.answer(vec![(number, Ok(Appended { parts: vec![end()] }))]);
    assert!(told.try_recv().is_err());
    token.withdraw();
    other.withdraw();
    at_other.withdrawn();
    giving.abort();
}

#[tokio::test]
async fn a_token_that_is_dropped_says_that_the_outcome_is_unknown() {
    let reply_queue = Arc::new(ReplyQueue::default());
    let giving = tokio::spawn(Arc::clone(&reply_queue).give_on());
    let (token, pending) = reply_queue.token();
    drop(token);
    assert!(matches!(pending.await, Err(AppendError::Ambiguous { .. })));
    giving.abort();
}

#[tokio::test]
async fn a_place_that_nobody_waits_at_is_free_after_its_answer() {
    let reply_queue = Arc::new(ReplyQueue::default());
    let giving = tokio::spawn(Arc::clone(&reply_queue).give_on());
    let (left, at_left) = reply_queue.token();
    let (kept, at_kept) = reply_queue.token();
    drop(at_left);
    drop(left);
    reply_queue.answer(vec![(at_kept.number.token(), answer())]);
    assert_eq!(at_kept.await, answer());
    kept.withdraw();
    assert_eq!(lock(&reply_queue.places).free.len(), 2);
    giving.abort();
}

#[tokio::test]
async fn an_answer_that_comes_twice_or_late_reaches_no_other_append() {
    let reply_queue = Arc::new(ReplyQueue::default());
    let giving = tokio::spawn(Arc::clone(&reply_queue).give_on());
    let done = Ok(Appended { parts: Vec::new() });

    // The store withdrew by its return value, and kept the token.
    let (kept, at_kept) = reply_queue.token();
    at_kept.withdrawn();
    let (own, mut at_next) = reply_queue.token();
    assert_eq!(at_next.number.index, 0, "the place is used again");
    let mut late = taskreel_log::api::AnswersBySink::default();
    late.add(kept, answer());
    late.hand_over();

    // An append that was answered is answered again.
    let (first, at_first) = reply_queue.token();
    let number = at_first.number.token();
    reply_queue.answer(vec![(number, done.clone()), (number, answer())]);
    assert_eq!(at_first.await, done);
    let (second, mut at_second) = reply_queue.token();
    assert_eq!(at_second.number.index, 1, "the place is used again");
    reply_queue.answer(vec![(number, answer())]);
    for at in [&mut at_next, &mut at_second] {
        // The answers above are given on first: they arrived before.
        assert!(futures_util::poll!(&mut *at).is_pending());
        tokio::task::yield_now().await;
        assert!(futures_util::poll!(&mut *at).is_pending());
    }
    reply_queue
        .answer(vec![(at_second.number.token(), done.clone()), (at_next.number.token(), done.clone())]);
    assert_eq!((at_next.await, at_second.await), (done.clone(), done));
    first.withdraw();
    own.withdraw();
    second.withdraw();
    giving.abort();
}
