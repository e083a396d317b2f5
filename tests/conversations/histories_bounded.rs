//! Histories that an agent keeps short by itself, and that a policy guards. After each the log verifies.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::histories_support::{assert_verifies, builder, count, model, of, session, texts};
use proto_events::codec::kind;
use proto_events::id::Position;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::{BoxFuture, InferBackend, InferError, InferErrorKind, InferReply, InferRequest};
use taskreel::state::{CompactionStrategy, HistoryCompaction, HistoryCompactionRequest};
use taskreel::{Error, Part, System, TaskState};
use taskreel_log::api::EventReader;
use taskreel_log::memory::MemoryStore;
use tokio::sync::Notify;

#[tokio::test]
async fn a_compaction_that_is_due_comes_before_a_turn_that_is_free() {
    let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
    let first = builder(&store, asked.clone()).start().await.unwrap();
    for turn in 0..6 {
        person.turn(&first, "s", &format!("question {turn}")).await;
    }
    let reopened = Arc::new(store.reopened().unwrap());
    first.shutdown().await.unwrap();
    let store = reopened;
    // The limit is new, and the session's actor reads its history before the turn is asked for.
    let keeps = HistoryCompaction::recent(5).above(1);
    let second = builder(&store, asked).auto_compact(keeps).start().await.unwrap();
    let request = HistoryCompactionRequest { max_messages: 1_000, ..of(CompactionStrategy::Recent, "s") };
    assert_eq!(second.compact_history(&request).await.unwrap().removed_messages, 0);
    let before = count(&store, kind::TURN_STARTED);
    let task = second.session("s").send(Part::infer("next")).await.unwrap();
    let shown = person.asked().await;
    person.ends("done");
    task.finished().await.unwrap();
    let records = store.read_all(Position(1), 1_000_000).unwrap();
    let kinds: Vec<_> =
        records.iter().flat_map(|stored| &stored.record.events).map(|event| event.kind).collect();
    let turn =
        kinds.iter().enumerate().filter(|(_, found)| **found == kind::TURN_STARTED).nth(before).unwrap().0;
    let compacted = kinds.iter().position(|found| *found == kind::HISTORY_COMPACTED).unwrap();
    assert!(compacted < turn, "the compaction is event {compacted}, the turn began with event {turn}");
    assert!(shown.messages.len() <= 6, "{}", shown.messages.len());
    assert_verifies(&store);
    second.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_conversation_above_the_agents_limit_is_compacted_between_its_turns() {
    let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
    let probe = builder(&store, asked.clone()).start().await.unwrap();
    person.turn(&probe, "probe", "one").await;
    let request = HistoryCompactionRequest { max_messages: 1_000, ..of(CompactionStrategy::Recent, "probe") };
    let system_tokens = u64::try_from(probe.compact_history(&request).await.unwrap().before_tokens).unwrap();
    probe.shutdown().await.unwrap();

    let store = Arc::new(MemoryStore::new());
    let keeps = HistoryCompaction::recent(5).above(system_tokens + 60);
    let system = builder(&store, asked).auto_compact(keeps).start().await.unwrap();
    for turn in 0..12 {
        person.turn(&system, "s", &format!("question {turn}")).await;
    }
    let history = system.session("s").history().await.unwrap();
    let compactions = count(&store, kind::HISTORY_COMPACTED);
    assert!(compactions >= 2, "{compactions}");
    assert!(history.len() < 15 && texts(&history).last().unwrap().contains("question 11"));
    assert_verifies(&store);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_automatic_summary_is_asked_for_once_after_a_turn_whether_it_helps_or_fails() {
    for end in ["helps too little", "fails", "says nothing"] {
        let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
        let keeps = HistoryCompaction::summary(16).keeping(1).above(1);
        let system = builder(&store, asked).auto_compact(keeps).start().await.unwrap();
        person.turn(&system, "s", "question one").await;
        let summary = person.asked().await;
        assert!(format!("{summary:?}").contains("question one"));
        match end {
            "helps too little" => person.says("a summary that is above the limit by itself"),
            "fails" => person.fails(InferErrorKind::Failed),
            _ => person.says(""),
        }
        let ended = || count(&store, kind::SUMMARY_RECEIVED) + count(&store, kind::SUMMARY_FAILED);
        while ended() == 0 {
            tokio::task::yield_now().await;
        }
        // A turn that was given up leaves the history as it was.
        let given_up = system.session("s").send(Part::infer("never mind")).await.unwrap();
        assert!(format!("{:?}", person.asked().await).contains("never mind"), "{end}");
        given_up.cancel(None).await.unwrap();
        // A later turn is asked for behind all that the session does by itself.
        let task = system.session("s").send(Part::infer("question two")).await.unwrap();
        let next = person.asked().await;
        assert!(format!("{next:?}").contains("question two"), "{end}: it is summed up once more: {next:?}");
        assert_eq!(count(&store, kind::SUMMARY_REQUESTED), 1, "{end}");
        person.ends("done");
        assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
        person.asked().await;
        person.says("the summary after the second turn");
        while ended() == 1 {
            tokio::task::yield_now().await;
        }
        // The session answers behind all that it does by itself.
        system.session("s").history().await.unwrap();
        assert_eq!(count(&store, kind::SUMMARY_REQUESTED), 2, "{end}");
        assert_verifies(&store);
        system.shutdown().await.unwrap();
    }
}

/// A model that answers each turn at once, and has the first request for a summary wait and fail.
#[derive(Clone, Default)]
struct FailsOnce {
    asked: Arc<AtomicUsize>,
    waits: Arc<Notify>,
    fails: Arc<Notify>,
}

impl InferBackend for FailsOnce {
    fn backend(&self) -> &'static str {
        "fails"
    }

    fn model(&self) -> &'static str {
        "once"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let model = self.clone();
        Box::pin(async move {
            if model.asked.fetch_add(1, Ordering::SeqCst) == 1 {
                model.waits.notify_one();
                model.fails.notified().await;
                return Err(InferError::new(InferErrorKind::Failed, "Busy", "too busy"));
            }
            let content = r#"{"type": "final", "content": "said"}"#.to_owned();
            Ok(InferReply { content, ..InferReply::default() })
        })
    }
}

#[tokio::test]
async fn a_turn_that_ends_beside_a_summary_that_fails_is_followed_by_another_summary() {
    let (store, model) = (Arc::new(MemoryStore::new()), FailsOnce::default());
    let keeps = HistoryCompaction::summary(16).keeping(1).above(1);
    let builder = System::builder("-").store(store.clone()).infer(model.clone());
    let system = builder.auto_compact(keeps).start().await.unwrap();
    let session = system.session("s");
    session.send(Part::infer("one")).await.unwrap().finished().await.unwrap();
    model.waits.notified().await;
    session.send(Part::infer("two")).await.unwrap().finished().await.unwrap();
    model.fails.notify_one();
    // Nobody asks for another turn.
    let later = async {
        while count(&store, kind::SUMMARY_RECEIVED) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), later).await.expect("the second turn is summed up");
    assert_eq!(count(&store, kind::SUMMARY_FAILED), 1);
    session.history().await.unwrap();
    assert_eq!(count(&store, kind::SUMMARY_REQUESTED), 2);
    assert_verifies(&store);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_policy_denies_each_operation_in_protolinks_words_and_nothing_changes() {
    let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
    let rules = CapabilityPolicy::new().deny("state.*").require_approval("llm.history.compact");
    let system = builder(&store, asked).capability_policy(rules).start().await.unwrap();
    person.turn(&system, "s", "one").await;
    let head = store.head().unwrap();
    let state = system.state();
    for (refused, told) in [
        (
            state.describe(&session("s")).await.unwrap_err(),
            "Action 'describe_state' denied: Denied capabilities: state.describe",
        ),
        (
            state.reset(&session("s")).await.unwrap_err(),
            "Action 'reset_state' denied: Denied capabilities: state.reset",
        ),
        (
            state.compact(&session("s")).await.unwrap_err(),
            "Action 'compact_state' denied: Denied capabilities: state.compact",
        ),
        (
            system.compact_history(&of(CompactionStrategy::Recent, "s")).await.unwrap_err(),
            "Action 'compact_history' requires approval",
        ),
    ] {
        assert_eq!(refused.to_string(), told);
    }
    assert_eq!(store.head().unwrap(), head);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_command_on_a_history_comes_once_and_another_one_under_its_id_is_refused() {
    let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
    let system = builder(&store, asked).start().await.unwrap();
    for question in ["one", "two", "three"] {
        person.turn(&system, "s", question).await;
    }
    let request = of(CompactionStrategy::Recent, "s");
    let first = system.once("c1").compact_history(&request).await.unwrap();
    assert_eq!(system.once("c1").compact_history(&request).await.unwrap(), first, "the first answer again");
    let other = HistoryCompactionRequest { max_messages: 2, ..request.clone() };
    let refused = system.once("c1").compact_history(&other).await.unwrap_err();
    assert!(matches!(refused, Error::CommandIdReused { .. }), "{refused}");
    let reopened = Arc::new(store.reopened().unwrap());
    system.shutdown().await.unwrap();
    let store = reopened;
    let system = builder(&store, model().0).start().await.unwrap();
    assert_eq!(system.once("c1").compact_history(&request).await.unwrap(), first, "after a restart too");
    assert_eq!(count(&store, kind::HISTORY_COMPACTED), 1);
    assert_verifies(&store);
    system.shutdown().await.unwrap();
}
