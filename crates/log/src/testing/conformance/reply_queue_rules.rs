//! Rules of appends whose answers are awaited at a reply sink: each is answered once, and as [`EventStore::append`] answers it.

use std::sync::{Arc, Mutex, PoisonError};

use proto_events::id::Version;
use tokio::sync::Notify;

use crate::api::append::{Append, AppendFuture, Appended};
use crate::api::error::AppendError;
use crate::api::record::Fence;
use crate::api::reply_sink::{Answers, AppendToken, ReplySink};
use crate::api::store::EventStore;
use crate::testing::conformance::read_rules::check_log;
use crate::testing::conformance::rule::rule;
use crate::testing::conformance::sketch::{Author, ok, stream};

/// The number of threads that append at once, and of the appends of each: more together than one flush makes durable.
const THREADS: u64 = 4;
const APPENDS: u64 = 600;

type Answer = Result<Appended, AppendError>;

pub(crate) async fn run(make: &impl Fn() -> Arc<dyn EventStore>) {
    rule(
        "an_append_with_a_ticket_is_answered_as_any_other",
        an_append_with_a_token_is_answered_as_any_other(make(), make()),
    )
    .await;
    rule(
        "each_append_with_a_ticket_is_answered_once_and_in_the_order_of_its_stream",
        each_append_with_a_token_is_answered_once(make()),
    )
    .await;
    rule("a_closed_store_answers_tickets_too", a_closed_store_answers_tokens_too(make())).await;
}

/// A reply sink that keeps all that it is told.
#[derive(Default)]
struct CollectedReplies {
    told: Mutex<Answers>,
    arrived: Notify,
}

impl ReplySink for CollectedReplies {
    fn answer(&self, answers: Answers) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).extend(answers);
        self.arrived.notify_waiters();
    }
}

impl CollectedReplies {
    /// Sends an append with a token of this number.
    fn ask(self: &Arc<Self>, store: &dyn EventStore, append: Append, number: u64) -> AwaitedAppend {
        let replies: Arc<dyn ReplySink> = Arc::<Self>::clone(self);
        AwaitedAppend { number, instead: store.append_with(append, AppendToken::new(replies, number)) }
    }

    /// Returns all answers to the token of this number.
    fn answers(&self, number: u64) -> Vec<Answer> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.iter().filter(|(to, _)| *to == number).map(|(_, answer)| answer.clone()).collect()
    }

    /// Waits for the answer to an append, wherever it arrives.
    async fn answer_to(&self, asked: AwaitedAppend) -> (u64, Answer) {
        let AwaitedAppend { number, instead } = asked;
        if let Some(instead) = instead {
            return (number, instead.await);
        }
        loop {
            let arrived = self.arrived.notified();
            if let Some(answer) = self.answers(number).pop() {
                return (number, answer);
            }
            arrived.await;
        }
    }
}

/// An append that was sent with a token.
struct AwaitedAppend {
    number: u64,
    /// The future of the answer, if it does not arrive at the reply sink.
    instead: Option<AppendFuture>,
}

/// Returns appends of every kind: accepted, of several streams, repeated, refused.
fn appends_of_every_kind(fence: Fence) -> Vec<Append> {
    let mut author = Author::new(fence);
    let (a, b) = (stream("a"), stream("b"));
    let first = author.append_one(&a, b"first");
    let stale = author.clone().with_sets_from(100).append_one(&b, b"stale");
    let both = author.many(&[(a.clone(), vec![b"x".to_vec(); 2]), (b.clone(), vec![b"y".to_vec()])]);
    let elsewhere = Fence { epoch: fence.epoch + 1, ..fence };
    let mut empty = author.clone().with_sets_from(200).append_one(&a, b"none");
    empty.parts.clear();
    let fenced = Author::new(elsewhere).with_sets_from(300).append_one(&stream("c"), b"fenced");
    let last = author.append_one(&b, b"last");
    vec![first.clone(), both.clone(), stale, first, fenced, empty, last, both]
}

async fn an_append_with_a_token_is_answered_as_any_other(
    store: Arc<dyn EventStore>,
    other: Arc<dyn EventStore>,
) {
    let replies = Arc::new(CollectedReplies::default());
    for (number, append) in (0..).zip(appends_of_every_kind(store.fence())) {
        let asked = replies.ask(store.as_ref(), append, number);
        let is_by_sink = asked.instead.is_none();
        let (_, answer) = replies.answer_to(asked).await;
        assert_eq!(
            replies.answers(number).len(),
            usize::from(is_by_sink),
            "an answer is given in one place only"
        );
        let expected = appends_of_every_kind(other.fence()).into_iter().nth(ok(usize::try_from(number)));
        let expected = expected.expect("both stores get the same appends");
        assert_eq!(answer, other.append(expected).await, "append {number}");
    }
    assert_eq!(check_log(&*store), check_log(&*other));
}

async fn each_append_with_a_token_is_answered_once(store: Arc<dyn EventStore>) {
    let replies = Arc::new(CollectedReplies::default());
    let asking = (0..THREADS).map(|thread| {
        let (store, replies) = (Arc::clone(&store), Arc::clone(&replies));
        tokio::task::spawn_blocking(move || {
            let mut author = Author::new(store.fence()).with_sets_from(1 + thread * APPENDS);
            let name = stream(&format!("of-{thread}"));
            let asked = (0..APPENDS).map(|n| {
                let append = author.append_one(&name, &n.to_be_bytes());
                replies.ask(store.as_ref(), append, thread * APPENDS + n)
            });
            asked.collect::<Vec<_>>()
        })
    });
    let asking: Vec<_> = asking.collect();
    let mut pending = Vec::new();
    for thread in asking {
        let mut last = None;
        for (version, asked) in (1..).zip(ok(thread.await)) {
            pending.push((asked.number, asked.instead.is_none()));
            let (_, answer) = replies.answer_to(asked).await;
            let parts = ok(answer).parts;
            let end = parts.first().copied().expect("each append has one part");
            assert_eq!((parts.len(), end.version), (1, Version(version)));
            assert!(last < Some(end.position), "a stream's appends get positions in their order");
            last = Some(end.position);
        }
    }
    assert_eq!(check_log(&*store), THREADS * APPENDS);
    ok(tokio::task::spawn_blocking(move || store.close()).await).expect("the store closes");
    for (number, pending) in pending {
        assert_eq!(replies.answers(number).len(), usize::from(pending), "token {number} is answered once");
    }
}

async fn a_closed_store_answers_tokens_too(store: Arc<dyn EventStore>) {
    let append = Author::new(store.fence()).append_one(&stream("a"), b"late");
    let closing = Arc::clone(&store);
    ok(tokio::task::spawn_blocking(move || closing.close()).await).expect("the store closes");
    let replies = Arc::new(CollectedReplies::default());
    let asked = replies.ask(store.as_ref(), append, 1);
    assert_eq!(replies.answer_to(asked).await, (1, Err(AppendError::Closed)));
    assert!(replies.answers(1).len() <= 1);
}
