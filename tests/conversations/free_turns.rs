//! The turn of a conversation that is free when a message comes: it begins in the append of the message.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;
use std::time::Duration;

use proto_events::codec::kind;
use proto_events::id::Position;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest, Scripted};
use taskreel::tool::BoxFuture;
use taskreel::{Part, System, TaskState};
use taskreel_log::api::EventReader as _;
use taskreel_log::memory::MemoryStore;
use taskreel_log::testing::{AppendFault, Faults, FaultyStore};
use tokio::sync::Notify;

/// A model that never answers, and signals when it is asked.
#[derive(Clone, Default)]
struct Silent(Arc<Notify>);

impl InferBackend for Silent {
    fn backend(&self) -> &'static str {
        "silent"
    }

    fn model(&self) -> &'static str {
        "silent"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

fn yes() -> Scripted {
    Scripted::from_json(r#"{"":[{"type":"final","content":"yes"}]}"#).unwrap()
}

/// Returns the kinds of the events of each append, in order; those of its streams follow one another.
fn appends(log: &MemoryStore) -> Vec<Vec<u16>> {
    let mut appends: Vec<([u8; 16], Vec<u16>)> = Vec::new();
    for stored in log.read_all(Position(1), usize::MAX).unwrap() {
        let kinds = stored.record.events.iter().map(|event| event.kind);
        match appends.last_mut().filter(|(set_id, _)| *set_id == stored.record.set_id) {
            Some((_, all)) => all.extend(kinds),
            None => appends.push((stored.record.set_id, kinds.collect())),
        }
    }
    appends.into_iter().map(|(_, kinds)| kinds).collect()
}

#[tokio::test]
async fn a_turn_that_is_free_begins_in_the_append_of_its_message_and_one_that_is_not_is_waited_for() {
    let (store, silent) = (Arc::new(MemoryStore::new()), Silent::default());
    let system = System::builder("-").store(store.clone()).infer(silent.clone()).start().await.unwrap();
    let free = system.session("demo").send(Part::infer("a")).await.unwrap();
    silent.0.notified().await;
    free.cancel(Some("enough")).await.unwrap();
    let has = |append: &Vec<u16>, kinds: &[u16]| kinds.iter().all(|kind| append.contains(kind));
    let begun = [kind::TURN_STARTED, kind::CALL_REQUESTED, kind::CALL_DISPATCHED];
    let before = appends(&store).len();
    // The session is read by now: its first turn had to wait for that.
    let free = system.session("demo").send(Part::infer("b")).await.unwrap();
    silent.0.notified().await;
    let waits = system.session("demo").send(Part::infer("c")).await.unwrap();
    let of_both: Vec<_> = appends(&store).split_off(before);
    assert!(has(&of_both[0], &begun) && has(&of_both[0], &[kind::SUBMITTED]), "{of_both:?}");
    assert!(has(&of_both[1], &[kind::SUBMITTED]) && !has(&of_both[1], &begun[..1]), "{of_both:?}");
    assert_eq!(of_both.len(), 2, "the second one waits");
    let in_all = appends(&store).len();
    free.cancel(Some("enough")).await.unwrap();
    silent.0.notified().await;
    let after: Vec<_> = appends(&store).split_off(in_all);
    assert!(after.iter().any(|append| has(append, &begun) && !has(append, &[kind::SUBMITTED])), "{after:?}");
    waits.cancel(Some("enough")).await.unwrap();
    system.shutdown().await.unwrap();
}

/// The append that began with a free turn fails: nothing of it is there, and the turn is free for others.
#[tokio::test]
async fn the_turn_of_a_message_that_was_not_written_is_free_for_the_next() {
    for fault in [AppendFault::BeforeWrite, AppendFault::AfterWrite, AppendFault::LoseAnswer] {
        let faults = Faults::none();
        let store = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new()), faults.clone()));
        let system = System::builder("-").store(store).infer(yes()).start().await.unwrap();
        let first = system.session("demo").send(Part::infer("a")).await.unwrap().finished().await.unwrap();
        assert_eq!(first.state(), TaskState::Completed);
        faults.at_next_append(fault);
        system.session("demo").send(Part::infer("b")).await.unwrap_err();
        if system.health().await.unwrap().poisoned.is_some() {
            system.reopen().await.unwrap();
        }
        let next = system.session("demo").send(Part::infer("c")).await.unwrap();
        let end = tokio::time::timeout(Duration::from_secs(20), next.finished()).await.unwrap().unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{fault:?}");
        system.shutdown().await.unwrap();
    }
}
