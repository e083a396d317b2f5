//! Histories that are cleared and compacted while turns run, while summaries are awaited, a thousand at once, and across a
//! crash. After each the log verifies.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;

use proto_events::codec::kind;
use proto_events::id::Position;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::{
    BoxFuture, InferBackend, InferError, InferErrorKind, InferPolicy, InferReply, InferRequest,
};
use taskreel::state::{
    CompactionStrategy, HistoryCompaction, HistoryCompactionRequest, StateModules, StateOperationRequest,
};
use taskreel::{Builder, ConversationHistory, Error, Part, System, TaskHandle, TaskState};
use taskreel_log::api::{EventReader, EventStore};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use tokio::sync::{Mutex, mpsc};

/// A model that shows each request to the test, and answers what the test says.
#[derive(Clone)]
struct Asked {
    requests: mpsc::UnboundedSender<InferRequest>,
    replies: Arc<Mutex<mpsc::UnboundedReceiver<Result<String, InferError>>>>,
}

/// The test's side of the model.
struct Person {
    requests: mpsc::UnboundedReceiver<InferRequest>,
    replies: mpsc::UnboundedSender<Result<String, InferError>>,
}

fn model() -> (Asked, Person) {
    let (asks, requests) = mpsc::unbounded_channel();
    let (replies, answers) = mpsc::unbounded_channel();
    (Asked { requests: asks, replies: Arc::new(Mutex::new(answers)) }, Person { requests, replies })
}

impl InferBackend for Asked {
    fn backend(&self) -> &'static str {
        "asked"
    }

    fn model(&self) -> &'static str {
        "person"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let model = self.clone();
        Box::pin(async move {
            model.requests.send(request).unwrap();
            let content = model.replies.lock().await.recv().await.unwrap()?;
            Ok(InferReply { content, ..InferReply::default() })
        })
    }
}

impl Person {
    async fn asked(&mut self) -> InferRequest {
        self.requests.recv().await.unwrap()
    }

    fn says(&self, reply: &str) {
        self.replies.send(Ok(reply.to_owned())).unwrap();
    }

    fn fails(&self, kind: InferErrorKind) {
        self.replies.send(Err(InferError::new(kind, "Busy", "too busy"))).unwrap();
    }

    /// Says the last word of a turn.
    fn ends(&self, content: &str) {
        self.says(&format!(r#"{{"type": "final", "content": "{content}"}}"#));
    }

    /// Carries out a whole turn.
    async fn turn(&mut self, system: &System, session: &str, question: &str) -> TaskHandle {
        let task = system.session(session).send(Part::infer(question)).await.unwrap();
        self.asked().await;
        self.ends(&format!("about {question}"));
        assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
        task
    }
}

fn builder(store: &Arc<MemoryStore>, model: Asked) -> Builder {
    let log: Arc<dyn EventStore> = Arc::clone(store) as _;
    System::builder("-").store(log).infer(model)
}

fn texts(history: &ConversationHistory) -> Vec<String> {
    let body = history.as_slice().iter().skip(1);
    body.map(|message| message.content.clone()).collect()
}

fn count(store: &MemoryStore, wanted: u16) -> usize {
    let records = store.read_all(Position(1), 1_000_000).unwrap();
    records.iter().flat_map(|stored| &stored.record.events).filter(|event| event.kind == wanted).count()
}

fn assert_verifies(store: &MemoryStore) {
    let verified = verify(store);
    assert!(verified.is_sound(), "{:#?}", verified.findings);
}

fn of(strategy: CompactionStrategy, session: &str) -> HistoryCompactionRequest {
    let session_id = Some(session.to_owned());
    HistoryCompactionRequest {
        strategy,
        session_id,
        max_messages: 3,
        preserve_recent: 2,
        ..Default::default()
    }
}

fn session(id: &str) -> StateOperationRequest {
    StateOperationRequest { session_id: Some(id.to_owned()), ..Default::default() }
}

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
async fn a_summary_that_returns_after_a_reset_or_another_compaction_is_dropped() {
    for resets in [true, false] {
        let (store, (asked, mut person)) = (Arc::new(MemoryStore::new()), model());
        let system = builder(&store, asked).start().await.unwrap();
        for question in ["one", "two"] {
            person.turn(&system, "s", question).await;
        }
        let (caller, request) = (system.clone(), of(CompactionStrategy::Summary, "s"));
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

/// The number of sessions that a reset clears.
const SESSIONS: usize = 1_000;

#[tokio::test]
async fn a_reset_of_a_thousand_sessions_that_a_crash_cuts_short_is_finished_under_the_same_command() {
    let store = Arc::new(MemoryStore::new());
    let model = taskreel::infer::Scripted::from_json(r#"{"":[{"type":"final","content":"yes"}]}"#).unwrap();
    let log: Arc<dyn EventStore> = Arc::clone(&store) as _;
    let first = System::builder("-")
        .store(log)
        .infer(model.clone())
        .state(StateModules::all())
        .start()
        .await
        .unwrap();
    let mut tasks = Vec::new();
    for at in 0..SESSIONS {
        tasks.push(first.session(&format!("s{at}")).send(Part::infer("hello")).await.unwrap());
    }
    for task in tasks {
        task.finished().await.unwrap();
    }
    let everything = StateOperationRequest::default();
    let (resetting, request) = (first.clone(), everything.clone());
    let cut = tokio::spawn(async move { resetting.once("reset-1").state().reset(&request).await });
    while count(&store, kind::CLEARED) < SESSIONS / 4 {
        tokio::task::yield_now().await;
    }
    let store = Arc::new(store.reopened().unwrap());
    cut.abort();
    let done = count(&store, kind::CLEARED);
    assert!(done < SESSIONS, "the crash came too late: {done}");

    let log: Arc<dyn EventStore> = Arc::clone(&store) as _;
    let second =
        System::builder("-").store(log).infer(model).state(StateModules::all()).start().await.unwrap();
    let conversation = second.state().conversation().unwrap();
    assert_eq!(conversation.sessions().await.unwrap().len(), SESSIONS - done);
    // One that was cleared has begun anew meanwhile: the same command leaves it alone.
    let cleared = (0..SESSIONS).map(|at| format!("s{at}"));
    let mut begun = None;
    for id in cleared {
        if conversation.history(&id).await.unwrap().is_empty() {
            second.session(&id).send(Part::infer("again")).await.unwrap().finished().await.unwrap();
            begun = Some(id);
            break;
        }
    }
    let result = second.once("reset-1").state().reset(&everything).await.unwrap();
    assert_eq!(result.cleared, ["conversation", "tools", "task", "flow"]);
    let items = |store: usize, when: &str| {
        result.stores[store].metadata.get(when).unwrap().tree()["item_count"].as_i64()
    };
    assert_eq!(items(0, "before"), i64::try_from(SESSIONS).ok(), "all are counted");
    assert_eq!(items(0, "after"), Some(1));
    assert_eq!(count(&store, kind::CLEARED), SESSIONS, "each is cleared once");
    assert_eq!(conversation.sessions().await.unwrap()[0].id, begun.unwrap());
    assert!(second.state().tasks().unwrap().query().page(10).await.unwrap().tasks.is_empty());
    assert_eq!(
        second.tasks().page(10_000).await.unwrap().tasks.len(),
        SESSIONS + 1,
        "the log keeps all tasks"
    );
    assert_verifies(&store);
    second.shutdown().await.unwrap();
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
