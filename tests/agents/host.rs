//! An agent whose definition the test changes between two starts, and whose tools and model hang while the test says so.

#![allow(dead_code, reason = "no test file uses all of it")]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use proto_events::json;
use serde::Deserialize;
use taskreel::infer::{BoxFuture, InferBackend, InferError, InferReply, InferRequest};
use taskreel::testing::{Driver, TestSystem, system};
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, ChangedAgent, JsonSchema, Message, Part, TaskHandle, TaskState};
use taskreel_log::audit::verify;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Narrow {
    #[expect(dead_code, reason = "the schema alone counts")]
    to: String,
}

/// The agent's definition and setting, as its next start finds them.
#[derive(Default)]
pub(crate) struct Host {
    /// The number in the system prompt.
    pub(crate) prompt: AtomicU32,
    /// Set where the tool `idempotent` needs an argument.
    pub(crate) is_narrow: AtomicBool,
    /// Set where changed agents are followed.
    pub(crate) follows: AtomicBool,
    /// Set where actors that are idle are put to sleep at once.
    pub(crate) sleeps: AtomicBool,
    /// Set while tools and model hang.
    pub(crate) hangs: AtomicBool,
    /// The number of requests to the model.
    pub(crate) asked: AtomicU32,
}

/// A model that answers `ok`, or hangs.
struct Model(Arc<Host>);

impl InferBackend for Model {
    fn backend(&self) -> &'static str {
        "test"
    }

    fn model(&self) -> &'static str {
        "test"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        if self.0.hangs.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        let content = json!({"type": "final", "content": "ok"}).to_string();
        Box::pin(async move { Ok(InferReply { content, ..InferReply::default() }) })
    }
}

async fn work(host: Arc<Host>) -> Result<&'static str, ToolError> {
    if host.hangs.load(Ordering::SeqCst) {
        std::future::pending::<()>().await;
    }
    Ok("done")
}

impl Host {
    /// Returns a host whose tools hang, and who wants changed agents to wait.
    pub(crate) fn new() -> Arc<Self> {
        let host = Self::default();
        host.hangs.store(true, Ordering::SeqCst);
        Arc::new(host)
    }

    pub(crate) fn describe(self: &Arc<Self>, builder: Builder) -> Builder {
        let tool = || {
            let host = Arc::clone(self);
            move |_: ToolContext, _: Nothing| work(Arc::clone(&host))
        };
        let narrow = {
            let host = Arc::clone(self);
            move |_: Narrow| work(Arc::clone(&host))
        };
        let policy = ToolPolicy::idempotent().timeout(Duration::from_secs(86_400));
        let builder = if self.is_narrow.load(Ordering::SeqCst) {
            builder.tool_with("idempotent", "Works", narrow, policy)
        } else {
            builder.tool_with("idempotent", "Works", tool(), policy)
        };
        let rule = if self.follows.load(Ordering::SeqCst) {
            ChangedAgent::Follow
        } else {
            ChangedAgent::WaitForPerson
        };
        let builder = if self.sleeps.load(Ordering::SeqCst) {
            builder.passivate_after(Duration::from_millis(1))
        } else {
            builder
        };
        builder
            .tool_with("read", "Reads", tool(), ToolPolicy::read_only())
            .tool("manual", "Pays", tool())
            .infer(Model(Arc::clone(self)))
            .system_prompt(format!("Prompt {}", self.prompt.load(Ordering::SeqCst)))
            .on_changed_agent(rule)
    }

    /// Changes the system prompt of the next start.
    pub(crate) fn change(&self) {
        self.prompt.fetch_add(1, Ordering::SeqCst);
    }

    /// Lets tools and model answer from now on.
    pub(crate) fn let_go(&self) {
        self.hangs.store(false, Ordering::SeqCst);
    }

    pub(crate) fn requests(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

pub(crate) fn call(tool: &str) -> Part {
    Part::tool_call(tool, json!({})).unwrap()
}

pub(crate) fn message(parts: Vec<Part>) -> Message {
    Message { id: None, role: Some("user".into()), parts, timestamp: None }
}

/// Starts the host's agent, and a task whose first call or inference hangs.
pub(crate) async fn under_way(host: &Arc<Host>, part: Part) -> (TestSystem, TaskHandle) {
    let own = Arc::clone(host);
    let system = system(move |builder| own.describe(builder)).await.unwrap();
    let task = system.submit(part).await.unwrap();
    system.until_idle().await;
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Working);
    (system, task)
}

/// Crashes the system and starts it again with what the host has changed; tools and model answer from then on.
pub(crate) async fn restarted(host: &Host, system: TestSystem, id: &str) -> (TestSystem, TaskHandle) {
    host.let_go();
    let system = system.crash().await.unwrap();
    let task = system.task(id).unwrap();
    (system, task)
}

/// Returns the id of the one approval that the task waits for.
pub(crate) async fn held_by(driver: &Driver, task: &TaskHandle) -> String {
    let waits = driver.finish(task).await.unwrap();
    assert_eq!(waits.state(), TaskState::Working);
    assert!(waits.task().is_held());
    let open: Vec<_> = waits.task().awaited_approvals().collect();
    let [approval] = open.as_slice() else { panic!("{open:?}") };
    approval.request.approval_id.clone()
}

/// Waits until no task has an actor any more.
pub(crate) async fn until_asleep(driver: &Driver) {
    let since = std::time::Instant::now();
    while driver.live_tasks().await.unwrap() > 0 {
        assert!(since.elapsed() < Duration::from_secs(20), "an actor stays awake");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) fn assert_sound(driver: &Driver) {
    let found = verify(driver.store().as_ref());
    assert!(found.is_sound(), "{:#?}", found.findings);
}
