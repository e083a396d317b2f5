//! A model whose replies the test gives, one at a time, and what is asked about a log afterwards.
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]
#![allow(dead_code, reason = "each test program uses a part")]

use std::sync::Arc;

use proto_events::id::Position;
use taskreel::infer::{BoxFuture, InferBackend, InferError, InferErrorKind, InferReply, InferRequest};
use taskreel::state::{CompactionStrategy, HistoryCompactionRequest, StateOperationRequest};
use taskreel::{Builder, ConversationHistory, Part, System, TaskHandle, TaskState};
use taskreel_log::api::{EventReader, EventStore};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use tokio::sync::{Mutex, mpsc};

/// A model that shows each request to the test, and answers what the test says.
#[derive(Clone)]
pub(crate) struct Asked {
    requests: mpsc::UnboundedSender<InferRequest>,
    replies: Arc<Mutex<mpsc::UnboundedReceiver<Result<String, InferError>>>>,
}

/// The test's side of the model.
pub(crate) struct Person {
    requests: mpsc::UnboundedReceiver<InferRequest>,
    replies: mpsc::UnboundedSender<Result<String, InferError>>,
}

pub(crate) fn model() -> (Asked, Person) {
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
    pub(crate) async fn asked(&mut self) -> InferRequest {
        self.requests.recv().await.unwrap()
    }

    pub(crate) fn says(&self, reply: &str) {
        self.replies.send(Ok(reply.to_owned())).unwrap();
    }

    pub(crate) fn fails(&self, kind: InferErrorKind) {
        self.replies.send(Err(InferError::new(kind, "Busy", "too busy"))).unwrap();
    }

    /// Says the last word of a turn.
    pub(crate) fn ends(&self, content: &str) {
        self.says(&format!(r#"{{"type": "final", "content": "{content}"}}"#));
    }

    /// Carries out a whole turn.
    pub(crate) async fn turn(&mut self, system: &System, session: &str, question: &str) -> TaskHandle {
        let task = system.session(session).send(Part::infer(question)).await.unwrap();
        self.asked().await;
        self.ends(&format!("about {question}"));
        assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
        task
    }
}

pub(crate) fn builder(store: &Arc<MemoryStore>, model: Asked) -> Builder {
    let log: Arc<dyn EventStore> = Arc::clone(store) as _;
    System::builder("-").store(log).infer(model)
}

pub(crate) fn texts(history: &ConversationHistory) -> Vec<String> {
    let body = history.as_slice().iter().skip(1);
    body.map(|message| message.content.clone()).collect()
}

pub(crate) fn count(store: &MemoryStore, wanted: u16) -> usize {
    let records = store.read_all(Position(1), 1_000_000).unwrap();
    records.iter().flat_map(|stored| &stored.record.events).filter(|event| event.kind == wanted).count()
}

pub(crate) fn assert_verifies(store: &MemoryStore) {
    let verified = verify(store);
    assert!(verified.is_sound(), "{:#?}", verified.findings);
}

pub(crate) fn of(strategy: CompactionStrategy, session: &str) -> HistoryCompactionRequest {
    let session_id = Some(session.to_owned());
    HistoryCompactionRequest {
        strategy,
        session_id,
        max_messages: 3,
        preserve_recent: 2,
        ..Default::default()
    }
}

pub(crate) fn session(id: &str) -> StateOperationRequest {
    StateOperationRequest { session_id: Some(id.to_owned()), ..Default::default() }
}
