//! Sessions that cannot be read for a while: nobody waits for ever, and the session goes on once it can be read.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::histories_support::{assert_verifies, builder, model, of};
use proto_events::id::StreamId;
use taskreel::state::CompactionStrategy;
use taskreel_log::api::{Append, AppendError, AppendFuture, EventStore, ReadError};
use taskreel_log::memory::MemoryStore;
use taskreel_log::testing::{DelegatingStore, Overrides, StoreRead};

/// A disk that fails at the next append to a session once it is told to, and then at each read of a session until it is
/// mended.
#[derive(Default)]
struct Failing {
    fails_next: AtomicBool,
    is_broken: AtomicBool,
}

fn is_session(stream: &StreamId) -> bool {
    stream.as_str().starts_with("session-")
}

impl Overrides for Failing {
    fn before_read(&self, read: StoreRead<'_>) -> Result<(), ReadError> {
        let (StoreRead::Stream(stream) | StoreRead::StreamVersion(stream)) = read else { return Ok(()) };
        if is_session(stream) && self.is_broken.load(Ordering::SeqCst) {
            return Err(ReadError::Io("the disk does not answer".to_owned()));
        }
        Ok(())
    }

    fn append(&self, log: &dyn EventStore, append: Append) -> AppendFuture {
        let is_of_session = append.parts.iter().any(|part| is_session(&part.stream));
        if is_of_session && self.fails_next.swap(false, Ordering::SeqCst) {
            self.is_broken.store(true, Ordering::SeqCst);
            let why = "the disk does not answer".to_owned();
            return Box::pin(std::future::ready(Err(AppendError::NotWritten { why })));
        }
        log.append(append)
    }
}

/// Fails the test if the work hangs.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("it hangs")
}

#[tokio::test]
async fn whoever_asked_for_a_summary_whose_end_cannot_be_noted_is_answered_and_the_next_one_is_made() {
    let (memory, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
    let behind = Arc::clone(&memory) as Arc<dyn EventStore>;
    let store = Arc::new(DelegatingStore::new(behind, Failing::default()));
    let builder = builder(&memory, asked).store(Arc::clone(&store) as Arc<dyn EventStore>);
    let system = builder.passivate_after(Duration::from_millis(20)).start().await.unwrap();
    for question in ["one", "two"] {
        person.turn(&system, "s", question).await;
    }
    let sum_up = || {
        let (caller, request) = (system.once("c"), of(CompactionStrategy::Summary, "s"));
        tokio::spawn(async move { caller.compact_history(&request).await })
    };
    let lost = sum_up();
    person.asked().await;
    // The same command again waits for the same summary.
    let repeated = sum_up();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    // After an append that failed the session is read again, which fails from now on.
    store.overrides().fails_next.store(true, Ordering::SeqCst);
    let refused = soon(system.compact_history(&of(CompactionStrategy::Recent, "s"))).await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(store.overrides().is_broken.load(Ordering::SeqCst), "something was to be appended");
    person.says("They counted.");
    for sent in [lost, repeated] {
        let answered = soon(sent).await.unwrap();
        assert!(answered.is_err(), "{answered:?}");
    }

    store.overrides().is_broken.store(false, Ordering::SeqCst);
    let again = sum_up();
    soon(person.asked()).await;
    person.says("They counted.");
    assert!(soon(again).await.unwrap().unwrap().summary_created);
    let asleep = async {
        while system.live_sessions().await.unwrap() > 0 {
            tokio::task::yield_now().await;
        }
    };
    soon(asleep).await;
    assert_verifies(&memory);
    system.shutdown().await.unwrap();
}
