//! Histories that are rewritten so that their number of messages says nothing: a summary in place of another one, and a summary
//! that stands first.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;
use std::time::Duration;

use proto_events::call::{CallStatus, FailureClass};
use proto_events::codec::kind;
use proto_events::model::LlmRole;
use taskreel::infer::{BoxFuture, InferBackend, InferError, InferErrorKind, InferReply, InferRequest};
use taskreel::state::{CompactionStrategy, HistoryCompactionRequest};
use taskreel::{
    ConversationHistory, Error, JsonObject, KeptItem, KeptStream, Operator, Part, System, TakenIn, TaskState,
};
use taskreel_log::api::EventStore;
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use tokio::sync::{mpsc, oneshot};

use crate::histories_support::{assert_verifies, count, of, texts};

/// A request to the model, and the way back.
type Asking = (InferRequest, oneshot::Sender<Result<String, InferError>>);

/// A model that hands each request to the test, which answers in any order.
struct Handed(mpsc::UnboundedSender<Asking>);

impl InferBackend for Handed {
    fn backend(&self) -> &'static str {
        "handed"
    }

    fn model(&self) -> &'static str {
        "person"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let (reply, answer) = oneshot::channel();
        self.0.send((request, reply)).unwrap();
        Box::pin(async move {
            let content = answer.await.unwrap()?;
            Ok(InferReply { content, ..InferReply::default() })
        })
    }
}

fn ends(content: &str) -> String {
    format!(r#"{{"type": "final", "content": "{content}"}}"#)
}

fn shown(request: &InferRequest) -> Vec<String> {
    request.messages.iter().skip(1).map(|message| message.content.clone()).collect()
}

async fn compacts(system: &System, asked: &mut mpsc::UnboundedReceiver<Asking>, summary: &str) {
    let (caller, request) = (system.clone(), of(CompactionStrategy::Summary, "s"));
    let compacting = tokio::spawn(async move { caller.compact_history(&request).await });
    let (_, reply) = asked.recv().await.unwrap();
    reply.send(Ok(summary.to_owned())).unwrap();
    assert!(compacting.await.unwrap().unwrap().summary_created);
}

#[tokio::test]
async fn an_inference_is_not_sent_again_after_a_summary_took_the_place_of_another_one() {
    let store = Arc::new(MemoryStore::new());
    let (asks, mut asked) = mpsc::unbounded_channel();
    let builder = System::builder("-").store(Arc::<MemoryStore>::clone(&store)).infer(Handed(asks));
    let system = builder.start().await.unwrap();
    for question in ["one", "two"] {
        let task = system.session("s").send(Part::infer(question)).await.unwrap();
        asked.recv().await.unwrap().1.send(Ok(ends("counted"))).unwrap();
        task.finished().await.unwrap();
    }
    compacts(&system, &mut asked, "The first summary.").await;
    let running = system.session("s").send(Part::infer("three")).await.unwrap();
    let (before, reply) = asked.recv().await.unwrap();
    assert!(shown(&before)[0].contains("The first summary."));
    compacts(&system, &mut asked, "The second summary.").await;
    let busy = InferErrorKind::Transient { retry_after: Some(Duration::from_millis(1)) };
    reply.send(Err(InferError::new(busy, "Busy", "too busy"))).unwrap();
    let (after, reply) = asked.recv().await.unwrap();
    assert_eq!(after.messages.len(), before.messages.len(), "the number alone tells nothing");
    assert!(shown(&after)[0].contains("The second summary."));
    assert_ne!(after.call_id, before.call_id, "another intent names what is sent now");
    reply.send(Ok(ends("done"))).unwrap();
    let end = running.finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed);
    let first = end.task().calls().get(&before.call_id).unwrap();
    let CallStatus::Failed(failure) = &first.status else { panic!("{:?}", first.status) };
    assert_eq!(failure.class, FailureClass::Superseded);
    assert_verifies(&store);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_conversation_taken_in_without_a_system_prompt_keeps_the_summary_of_its_beginning() {
    let mut mint = Ports::default();
    let mut history = ConversationHistory::default();
    for number in 0..3 {
        history.add_user(&format!("question {number}"), JsonObject::new(), &mut mint);
        history.add_assistant(&format!("answer {number}"), JsonObject::new(), &mut mint);
    }
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let operator = Operator::new(Arc::clone(&store));
    let what = KeptItem::Session { id: "s".to_owned(), messages: history.as_slice().to_vec() };
    let kept = KeptStream { agent: "agent".to_owned(), what, source: b"{}".to_vec() };
    let taken = operator.take_in(&[kept], "importer").await.unwrap();
    assert!(matches!(taken[..], [Ok(TakenIn::New)]));
    operator.finish().await.unwrap();
    let (asks, mut asked) = mpsc::unbounded_channel();
    let builder = System::builder("-").name("agent").store(Arc::clone(&store)).infer(Handed(asks));
    let system = builder.start().await.unwrap();
    compacts(&system, &mut asked, "They asked twice.").await;
    for round in 0..2 {
        let task = system.session("s").send(Part::infer("more")).await.unwrap();
        let (request, reply) = asked.recv().await.unwrap();
        let said = shown(&request);
        assert!(said[0].contains("They asked twice."), "round {round}: {said:?}");
        assert_eq!((said.len(), said[1].as_str()), (4 + 2 * round, "question 2"));
        assert_eq!(request.messages[0].role, LlmRole::System);
        reply.send(Ok(ends("done"))).unwrap();
        assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
    }
    let history = system.session("s").history().await.unwrap();
    assert!(texts(&history)[0].contains("They asked twice."));
    assert_eq!(history.len(), 8);
    system.shutdown().await.unwrap();
    let found = verify(store.as_ref()).findings;
    assert!(found.is_empty(), "{found:?}");
}

#[tokio::test]
async fn a_compaction_sent_again_while_its_summary_is_awaited_waits_for_the_same_summary() {
    for in_turn in [false, true] {
        let store = Arc::new(MemoryStore::new());
        let (asks, mut asked) = mpsc::unbounded_channel();
        let builder = System::builder("-").store(Arc::<MemoryStore>::clone(&store)).infer(Handed(asks));
        let system = builder.start().await.unwrap();
        for question in ["one", "two"] {
            let task = system.session("s").send(Part::infer(question)).await.unwrap();
            asked.recv().await.unwrap().1.send(Ok(ends("counted"))).unwrap();
            task.finished().await.unwrap();
        }
        let sent = |request: HistoryCompactionRequest| {
            let caller = system.once("c");
            tokio::spawn(async move { caller.compact_history(&request).await })
        };
        let request = of(CompactionStrategy::Summary, "s");
        let first = sent(request.clone());
        let (_, summary) = asked.recv().await.unwrap();
        let mut turn = None;
        if in_turn {
            let task = system.session("s").send(Part::infer("three")).await.unwrap();
            turn = Some((task, asked.recv().await.unwrap().1));
        }
        let again = sent(request.clone());
        let other = HistoryCompactionRequest { preserve_recent: 1, ..request.clone() };
        let refused = sent(other).await.unwrap().unwrap_err();
        assert!(matches!(refused, Error::CommandIdReused { .. }), "{refused}");
        summary.send(Ok("They counted.".to_owned())).unwrap();
        let (first, again) = (first.await.unwrap().unwrap(), again.await.unwrap().unwrap());
        assert!(first.summary_created);
        assert_eq!(first, again, "in a turn: {in_turn}");
        assert_eq!(count(&store, kind::SUMMARY_REQUESTED), 1, "the model is asked once");
        if let Some((task, reply)) = turn {
            reply.send(Ok(ends("done"))).unwrap();
            assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
        }
        assert_verifies(&store);
        system.shutdown().await.unwrap();
    }
}
