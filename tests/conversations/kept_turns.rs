//! Turns that fail or are canceled after they had an effect: the conversation goes on to say what was done.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use crate::histories_support::assert_verifies;
use serde::Deserialize;
use taskreel::infer::{
    ChatMessage, InferBackend, InferError, InferErrorKind, InferReply, InferRequest, ToolAsk,
};
use taskreel::tool::{BoxFuture, ToolContext};
use taskreel::{JsonSchema, LoopRules, Part, RunBudget, System, TaskState};
use taskreel_log::memory::MemoryStore;
use tokio::sync::Notify;

#[derive(Deserialize, JsonSchema)]
struct Order {
    order: String,
}

/// A model that refunds unless the conversation says that it has; its server fails as often as it is told.
#[derive(Clone)]
struct Clerk {
    native: bool,
    failures: Arc<Mutex<u32>>,
    prompts: Arc<Mutex<Vec<InferRequest>>>,
}

impl Clerk {
    fn new(native: bool, failures: u32) -> Self {
        Self { native, failures: Arc::new(Mutex::new(failures)), prompts: Arc::default() }
    }

    /// Returns the texts of a request, by its number.
    fn prompt(&self, number: usize) -> Vec<String> {
        let prompts = self.prompts.lock().unwrap();
        prompts.get(number).unwrap().messages.iter().map(ChatMessage::to_text).collect()
    }

    fn reply(&self, request: InferRequest) -> Result<InferReply, InferError> {
        let asked = request
            .messages
            .iter()
            .any(|message| !message.calls.is_empty() || message.to_text().contains("\"tool\":\"refund\""));
        self.prompts.lock().unwrap().push(request);
        let reply = |content: &str| InferReply { content: content.to_owned(), ..InferReply::default() };
        if !asked {
            let calls = vec![ToolAsk::from_provider("refund", r#"{"order":"A1"}"#)];
            let text = r#"{"type":"tool_call","tool":"refund","args":{"order":"A1"}}"#;
            return Ok(if self.native { InferReply { calls, ..reply("") } } else { reply(text) });
        }
        let mut failures = self.failures.lock().unwrap();
        if *failures > 0 {
            *failures -= 1;
            return Err(InferError::new(InferErrorKind::Failed, "ServerError", "the model is gone"));
        }
        Ok(if self.native { reply("done") } else { reply(r#"{"type":"final","content":"done"}"#) })
    }
}

impl InferBackend for Clerk {
    fn backend(&self) -> &'static str {
        "clerk"
    }

    fn model(&self) -> &'static str {
        "clerk"
    }

    fn has_native_tools(&self) -> bool {
        self.native
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        Box::pin(std::future::ready(self.reply(request)))
    }
}

type Ledger = Arc<Mutex<Vec<String>>>;

async fn started(store: &Arc<MemoryStore>, model: &Clerk, ledger: &Ledger, rules: LoopRules) -> System {
    let ledger = Arc::clone(ledger);
    let refund = move |asked: Order| {
        ledger.lock().unwrap().push(asked.order);
        async { Ok::<_, Infallible>("refunded") }
    };
    System::builder("-")
        .store(Arc::clone(store) as _)
        .loop_rules(rules)
        .tool("refund", "Refunds an order", refund)
        .infer(model.clone())
        .start()
        .await
        .unwrap()
}

async fn ask(system: &System) -> TaskState {
    let sent = system.session("s").send(Part::infer("Refund A1, please")).await.unwrap();
    sent.finished().await.unwrap().state()
}

#[tokio::test]
async fn a_refund_whose_turn_failed_is_not_made_again_when_the_user_asks_again() {
    for native in [false, true] {
        for restarts in [false, true] {
            let (mut store, model, ledger) =
                (Arc::new(MemoryStore::new()), Clerk::new(native, 2), Ledger::default());
            let mut states = Vec::new();
            let mut system = started(&store, &model, &ledger, LoopRules::Taskreel).await;
            for _ in 0..3 {
                states.push(ask(&system).await);
                if restarts {
                    store = Arc::new(store.reopened().unwrap());
                    system = started(&store, &model, &ledger, LoopRules::Taskreel).await;
                }
            }
            assert_eq!(states, [TaskState::Failed, TaskState::Failed, TaskState::Completed]);
            assert_eq!(*ledger.lock().unwrap(), ["A1"], "native: {native}, restarts: {restarts}");
            let told = model.prompt(2);
            let of = |text: &str| told.iter().position(|said| said.contains(text)).unwrap();
            assert!(of("refunded") < of("This turn ended here"), "{told:?}");
            assert!(told[of("This turn ended here")].contains("the model is gone"));
            let history = system.session("s").history().await.unwrap();
            assert!(
                history.messages().iter().any(|message| message.content.contains("This turn ended here"))
            );
            assert_verifies(&store);
            system.shutdown().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_turn_without_a_call_leaves_the_conversation_as_protolinks_rules_do_with_any() {
    let model = Clerk::new(true, 9);
    let (store, ledger) = (Arc::new(MemoryStore::new()), Ledger::default());
    let system = started(&store, &model, &ledger, LoopRules::Protolink).await;
    assert_eq!((ask(&system).await, ask(&system).await), (TaskState::Failed, TaskState::Failed));
    assert_eq!(ledger.lock().unwrap().len(), 2, "its failed turn is forgotten");
    assert!(system.session("s").history().await.unwrap().messages().is_empty());
    system.shutdown().await.unwrap();
    // No call was sent: the budget allows none.
    let store = Arc::new(MemoryStore::new());
    let system = started(&store, &Clerk::new(true, 0), &ledger, LoopRules::Taskreel).await;
    let none = RunBudget::new().tool_calls(0);
    let refused = system.session("s").run("Refund A1, please").budget(none).await.unwrap();
    assert!(!refused.settled().await.unwrap().is_completed());
    assert!(system.session("s").history().await.unwrap().messages().is_empty());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_call_that_a_cancel_interrupts_stays_in_the_conversation_with_its_doubt() {
    for native in [false, true] {
        let (store, started) = (Arc::new(MemoryStore::new()), Arc::new(Notify::new()));
        let begun = Arc::clone(&started);
        let refund = move |cx: ToolContext, _: Order| {
            let begun = Arc::clone(&begun);
            async move {
                begun.notify_one();
                cx.cancellation().canceled().await;
                Ok::<_, Infallible>(())
            }
        };
        let model = Clerk::new(native, 0);
        let system = System::builder("-")
            .store(store.clone())
            .tool("refund", "Refunds an order", refund)
            .infer(model.clone())
            .start()
            .await
            .unwrap();
        let task = system.session("s").send(Part::infer("Refund A1, please")).await.unwrap();
        started.notified().await;
        task.cancel(Some("enough")).await.unwrap();
        assert_eq!(ask(&system).await, TaskState::Completed);
        let told = model.prompt(1);
        assert!(told.iter().any(|said| said.contains("outcome unknown")), "{told:?}");
        assert!(told.iter().any(|said| said.contains("the task was canceled")), "{told:?}");
        assert_verifies(&store);
        system.shutdown().await.unwrap();
    }
}
