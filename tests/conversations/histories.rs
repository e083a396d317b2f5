//! Histories that are cleared, compacted and summed up while turns run and while summaries are awaited. After each the log
//! verifies.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;

use crate::histories_support::{assert_verifies, builder, count, model, of, session, texts};
use proto_events::codec::kind;
use proto_events::envelope::Timestamp;
use taskreel::infer::{InferErrorKind, InferPolicy};
use taskreel::state::{CompactionStrategy, HistoryCompactionRequest};
use taskreel::{Error, Part, TaskState};
use taskreel_log::memory::MemoryStore;
use taskreel_log::views::{Filter, StatsGroup, Term, stats, stats_of, unsettled};

#[tokio::test]
async fn a_reset_during_a_turn_is_not_undone_by_the_turn_and_the_turn_is_not_undone_by_it() {
    let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
    let system = builder(&store, asked).start().await.unwrap();
    person.turn(&system, "s", "one").await;
    let running = system.session("s").send(Part::infer("two")).await.unwrap();
    assert_eq!(person.asked().await.messages.len(), 4);
    let result = system.state().reset(&session("s")).await.unwrap();
    assert_eq!(result.cleared, ["conversation"]);
    let before = result.stores[0].metadata.get("before").unwrap().tree();
    assert_eq!(before["message_count"].as_i64(), Some(3));
    person.ends("too late for the history");
    let end = running.finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "the task has its answer");
    assert!(system.session("s").history().await.unwrap().is_empty(), "the turn is not folded");
    person.turn(&system, "s", "three").await;
    let history = system.session("s").history().await.unwrap();
    assert_eq!(texts(&history)[0], "three");
    assert_eq!(history.len(), 3);
    assert_verifies(&store);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_turn_of_several_steps_goes_on_after_its_history_was_cleared() {
    let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
    let system = builder(&store, asked).start().await.unwrap();
    person.turn(&system, "s", "one").await;
    let running = system.session("s").send(Part::infer("two")).await.unwrap();
    person.asked().await;
    assert!(system.state().conversation().unwrap().clear_session("s").await.unwrap());
    // No tool has this name: the model is told so and asked again.
    person.says(r#"{"type": "tool_call", "tool": "none", "args": {}}"#);
    let again = person.asked().await;
    let shown: Vec<&str> = again.messages.iter().skip(1).map(|message| message.content.as_str()).collect();
    assert_eq!((shown[0], shown.len()), ("two", 3), "the cleared messages are not shown any more");
    person.ends("done");
    assert_eq!(running.finished().await.unwrap().state(), TaskState::Completed);
    assert!(system.session("s").history().await.unwrap().is_empty());
    assert_verifies(&store);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_compaction_during_a_turn_replaces_what_it_read_and_the_turn_is_folded_behind_it() {
    let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
    let system = builder(&store, asked).start().await.unwrap();
    for question in ["one", "two", "three"] {
        person.turn(&system, "s", question).await;
    }
    let running = system.session("s").send(Part::infer("four")).await.unwrap();
    person.asked().await;
    let result = system.compact_history(&of(CompactionStrategy::Recent, "s")).await.unwrap();
    assert_eq!((result.before_messages, result.after_messages, result.removed_messages), (7, 3, 4));
    person.ends("about four");
    running.finished().await.unwrap();
    let history = system.session("s").history().await.unwrap();
    assert_eq!(history.len(), 5);
    assert!(texts(&history)[0].contains("three"), "{:?}", texts(&history));
    assert_eq!(texts(&history)[2], "four");
    assert_verifies(&store);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_summary_is_intended_before_it_is_asked_for_and_stands_in_place_of_what_it_sums_up() {
    let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
    let system = builder(&store, asked).start().await.unwrap();
    for question in ["one", "two", "three"] {
        person.turn(&system, "s", question).await;
    }
    let (caller, request) = (system.clone(), of(CompactionStrategy::Summary, "s"));
    let compacting = tokio::spawn(async move { caller.compact_history(&request).await });
    let prompt = person.asked().await;
    assert_eq!(count(&store, kind::SUMMARY_REQUESTED), 1, "the intent is on disk before the call");
    assert!(prompt.messages[0].content.contains("512 tokens"));
    assert!(
        prompt.messages[1].content.contains("about two") && !prompt.messages[1].content.contains("three")
    );
    // A turn goes on while the summary is awaited.
    let running = system.session("s").send(Part::infer("four")).await.unwrap();
    person.asked().await;
    person.says(r#"{"summary": "They counted to two."}"#);
    let result = compacting.await.unwrap().unwrap();
    assert!(result.summary_created && result.changed());
    assert_eq!((result.removed_messages, result.after_messages), (4, 4));
    person.ends("about four");
    running.finished().await.unwrap();
    let history = system.session("s").history().await.unwrap();
    assert_eq!(texts(&history)[0], "Compacted conversation summary:\nThey counted to two.");
    assert_eq!(history.len(), 6);
    assert_verifies(&store);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_session_falls_asleep_after_a_summary_that_failed_and_one_that_was_made_and_goes_on_when_it_wakes()
{
    let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
    let policy = InferPolicy::default().retries(1);
    let brief = std::time::Duration::from_millis(20);
    let builder = builder(&store, asked).infer_policy(policy).passivate_after(brief);
    let system = builder.start().await.unwrap();
    let asleep = || async {
        let since = std::time::Instant::now();
        while system.live_sessions().await.unwrap() > 0 {
            assert!(since.elapsed() < std::time::Duration::from_secs(20), "the session stays awake");
            tokio::task::yield_now().await;
        }
    };
    for round in 0..3 {
        for question in ["one", "two"] {
            person.turn(&system, "s", question).await;
        }
        let (caller, request) = (system.clone(), of(CompactionStrategy::Summary, "s"));
        let compacting = tokio::spawn(async move { caller.compact_history(&request).await });
        person.asked().await;
        person.fails(InferErrorKind::Transient { retry_after: Some(std::time::Duration::from_millis(1)) });
        person.asked().await;
        person.says("They counted.");
        assert!(compacting.await.unwrap().unwrap().summary_created, "round {round}");
        asleep().await;
        assert_eq!(
            texts(&system.session("s").history().await.unwrap())[0].lines().last(),
            Some("They counted.")
        );
        asleep().await;
    }
    assert_verifies(&store);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_summary_that_returns_after_a_reset_or_another_compaction_is_dropped() {
    for resets in [true, false] {
        let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
        let system = builder(&store, asked).start().await.unwrap();
        for question in ["one", "two"] {
            person.turn(&system, "s", question).await;
        }
        let (caller, request) = (system.once("c"), of(CompactionStrategy::Summary, "s"));
        let compacting = tokio::spawn(async move { caller.compact_history(&request).await });
        person.asked().await;
        if resets {
            system.state().reset(&session("s")).await.unwrap();
        } else {
            system.compact_history(&of(CompactionStrategy::Recent, "s")).await.unwrap();
        }
        person.says("They counted.");
        let refused = compacting.await.unwrap().unwrap_err();
        assert!(matches!(&refused, Error::Summary(why) if why.contains("superseded")), "{refused}");
        let again =
            system.once("c").compact_history(&of(CompactionStrategy::Summary, "s")).await.unwrap_err();
        assert_eq!(again.to_string(), refused.to_string(), "the same command gets the first answer");
        let left = system.session("s").history().await.unwrap().len();
        assert_eq!(left, if resets { 0 } else { 3 });
        assert_eq!(count(&store, kind::SUMMARY_RECEIVED), 1, "what was paid for is in the log");
        assert_verifies(&store);
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_summary_that_fails_or_says_nothing_changes_nothing_and_may_be_asked_for_again() {
    let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
    let policy = InferPolicy::default().retries(1);
    let system = builder(&store, asked).infer_policy(policy).start().await.unwrap();
    for question in ["one", "two"] {
        person.turn(&system, "s", question).await;
    }
    let ask = |id: &'static str| {
        let (caller, request) = (system.once(id), of(CompactionStrategy::Summary, "s"));
        tokio::spawn(async move { caller.compact_history(&request).await })
    };
    let failing = ask("c1");
    person.asked().await;
    person.fails(InferErrorKind::Failed);
    assert!(matches!(failing.await.unwrap(), Err(Error::Summary(why)) if why == "too busy"));
    let empty = ask("c1");
    person.asked().await;
    person.says(r#"{"summary": "  "}"#);
    let refused = empty.await.unwrap().unwrap_err();
    assert_eq!(refused.to_string(), "history summarizer returned an empty summary");
    assert_eq!(system.session("s").history().await.unwrap().len(), 5);
    let passing = ask("c1");
    person.asked().await;
    let soon = Some(std::time::Duration::from_millis(1));
    person.fails(InferErrorKind::Transient { retry_after: soon });
    person.asked().await;
    person.says("They counted.");
    let first = passing.await.unwrap().unwrap();
    assert!(first.summary_created);
    let (requested, failed) = (count(&store, kind::SUMMARY_REQUESTED), count(&store, kind::SUMMARY_FAILED));
    assert_eq!((requested, failed), (4, 2), "each call has an intent of its own");
    assert_eq!(ask("c1").await.unwrap().unwrap(), first, "the command has its effect once");
    assert_eq!(count(&store, kind::HISTORY_COMPACTED), 1);
    assert_verifies(&store);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_summary_is_listed_among_the_calls_while_it_is_awaited_and_counts_in_the_sums() {
    let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
    let system = builder(&store, asked).start().await.unwrap();
    for question in ["one", "two"] {
        person.turn(&system, "s", question).await;
    }
    let sums = |group: StatsGroup, name: Option<&str>| {
        let rows = stats(store.as_ref()).unwrap().rows;
        let row = rows.iter().find(|row| row.group == group && row.name.as_deref() == name);
        row.map_or((0, 0, 0, 0), |row| (row.calls, row.succeeded, row.failed, row.open))
    };
    let listed = || unsettled(store.as_ref(), None, Timestamp(i64::MAX)).unwrap().rows;
    let of_session = || {
        let mut filter = Filter::default();
        filter.terms.push(Term::parse("session=s").unwrap());
        filter
    };
    let target = "asked/person";
    for (round, fails) in [(0, true), (1, false)] {
        assert_eq!(listed().len(), 0);
        let (caller, request) = (system.clone(), of(CompactionStrategy::Summary, "s"));
        let compacting = tokio::spawn(async move { caller.compact_history(&request).await });
        person.asked().await;
        let rows = listed();
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((row.stream.as_str(), row.session.as_str()), ("session-agent/s", "s"));
        assert_eq!((row.kind, row.target.as_str(), row.task()), ("infer", target, None));
        assert!(row.waits_for.contains("summary of 2 messages") && row.commands().is_empty(), "{row:?}");
        assert!(row.to_json().as_str().contains(r#""task":null"#), "{}", row.to_json());
        assert!(of_session().takes_call(row));
        assert_eq!(sums(StatsGroup::Model, Some(target)), (3 + round, 2, round, 1));
        if fails {
            person.fails(InferErrorKind::Failed);
            compacting.await.unwrap().unwrap_err();
        } else {
            person.says("They counted.");
            compacting.await.unwrap().unwrap();
        }
    }
    for (group, name) in
        [(StatsGroup::All, None), (StatsGroup::Model, Some(target)), (StatsGroup::Session, Some("s"))]
    {
        assert_eq!(sums(group, name), (4, 3, 1, 0), "{group:?}");
    }
    assert!(stats(store.as_ref()).unwrap().rows[0].durations.count() >= 4, "each is measured");
    assert_eq!(stats_of(store.as_ref(), of_session(), None).unwrap().rows[0].calls, 4);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_summary_whose_process_died_gives_way_to_the_next() {
    let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
    let first = builder(&store, asked).start().await.unwrap();
    for question in ["one", "two"] {
        person.turn(&first, "s", question).await;
    }
    let (caller, request) = (first.clone(), of(CompactionStrategy::Summary, "s"));
    let _lost = tokio::spawn(async move { caller.once("c1").compact_history(&request).await });
    person.asked().await;
    let store = Arc::new(store.reopened().unwrap());
    let (asked, mut person) = model();
    let second = builder(&store, asked).start().await.unwrap();
    let (caller, request) = (second.clone(), of(CompactionStrategy::Summary, "s"));
    let again = tokio::spawn(async move { caller.once("c1").compact_history(&request).await });
    person.asked().await;
    person.says("They counted.");
    assert!(again.await.unwrap().unwrap().summary_created);
    assert_eq!((count(&store, kind::SUMMARY_REQUESTED), count(&store, kind::SUMMARY_FAILED)), (2, 1));
    assert_verifies(&store);
    second.shutdown().await.unwrap();
}

#[tokio::test]
async fn concurrent_compactions_of_one_history_leave_it_whole() {
    let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
    let system = builder(&store, asked).start().await.unwrap();
    for question in ["one", "two", "three", "four"] {
        person.turn(&system, "s", question).await;
    }
    let running = system.session("s").send(Part::infer("five")).await.unwrap();
    person.asked().await;
    let compacting: Vec<_> = (0..20)
        .map(|at| {
            let system = system.clone();
            tokio::spawn(async move {
                let strategy =
                    if at % 2 == 0 { CompactionStrategy::Recent } else { CompactionStrategy::Tokens };
                let request = HistoryCompactionRequest { max_tokens: 1, ..of(strategy, "s") };
                system.compact_history(&request).await.unwrap().removed_messages
            })
        })
        .collect();
    let mut removed = 0;
    for compacting in compacting {
        removed += compacting.await.unwrap();
    }
    assert_eq!(removed, 6, "each message is removed once");
    person.ends("about five");
    running.finished().await.unwrap();
    assert_eq!(system.session("s").history().await.unwrap().len(), 5);
    assert_eq!(count(&store, kind::HISTORY_COMPACTED), 1);
    assert_verifies(&store);
    system.shutdown().await.unwrap();
}
