//! Shared by the tests of agents that ask each other: a desk that asks in one of several ways, and a bank whose payments need
//! a person's approval.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto_events::call::{Call, CallKind};
use proto_events::json;
use proto_events::model::RunContext;
use proto_events::task::Task;
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::infer::Scripted;
use taskreel::testing::{TestSystem, system};
use taskreel::tool::{AgentWork, ToolContext, ToolError, ToolPolicy};
use taskreel::{AgentBuilder, Builder, JsonSchema, Message, Part, System, TaskHandle, TaskState};
use taskreel_log::audit::verify;
use taskreel_log::ports::Ports;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

/// A model that asks the agent `bank` to pay, and then answers.
pub(crate) fn asks() -> Scripted {
    const SCRIPT: &str = r#"{"has ended": [{"type": "final", "content": "done"}], "": [
        {"type": "agent_call", "agent": "bank", "action": "tool_call", "tool": "pay", "args": {}},
        {"type": "final", "content": "done"}]}"#;
    Scripted::from_json(SCRIPT).unwrap()
}

/// The agent `bank`, whose tool needs a person's approval, and the number of its payments.
pub(crate) fn bank(paid: &Arc<AtomicUsize>) -> impl FnOnce(AgentBuilder) -> AgentBuilder + use<> {
    let paid = Arc::clone(paid);
    let pay = move |_: Nothing| {
        paid.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok::<_, Infallible>("paid"))
    };
    move |agent| {
        agent
            .description("Keeps the money")
            .tool_with("pay", "Pays", pay, ToolPolicy::idempotent().capabilities(["money"]))
            .capability_policy(CapabilityPolicy::new().require_approval("money"))
            .approvals_by_person()
    }
}

pub(crate) async fn teller(cx: ToolContext, _: Nothing) -> Result<String, ToolError> {
    let answer = cx.delegate("bank", AgentWork::tool_call("pay", json!({}))).await?;
    Ok(format!("{}: {}", answer.state, answer.result))
}

pub(crate) async fn clerk(cx: HandlerContext, _: Message) -> Result<HandlerEnd, ToolError> {
    let answer = cx.delegate("bank", AgentWork::tool_call("pay", json!({}))).await?;
    cx.say(answer.result.as_str()).await?;
    Ok(HandlerEnd::Completed)
}

/// The ways in which an agent asks another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Model,
    StatelessModel,
    Tool,
    ToolOfModel,
    Handler,
}

pub(crate) const WAYS: [Way; 5] =
    [Way::Model, Way::StatelessModel, Way::Tool, Way::ToolOfModel, Way::Handler];

impl Way {
    pub(crate) fn describe(self, builder: Builder) -> Builder {
        const TELLS: &str = r#"{"has ended": [{"type": "final", "content": "done"}],
            "": [{"type": "tool_call", "tool": "tell", "args": {}},
            {"type": "final", "content": "done"}]}"#;
        let policy = ToolPolicy::idempotent();
        let tool = |builder: Builder| builder.tool_with("tell", "Tells", teller, policy.clone());
        match self {
            Self::Model => builder.infer(asks()),
            Self::StatelessModel => builder.infer(asks()).stateless(),
            Self::Tool => tool(builder),
            Self::ToolOfModel => tool(builder).infer(Scripted::from_json(TELLS).unwrap()),
            Self::Handler => builder.handler_with(clerk, policy),
        }
    }

    pub(crate) fn part(self) -> Part {
        match self {
            Self::Model | Self::StatelessModel | Self::ToolOfModel => Part::infer("go"),
            Self::Tool => Part::tool_call("tell", json!({})).unwrap(),
            Self::Handler => Part::text("go"),
        }
    }
}

/// Starts the agent `desk`, which asks in this way, and the agent `bank`.
pub(crate) async fn team(way: Way, paid: &Arc<AtomicUsize>) -> TestSystem {
    let paid = Arc::clone(paid);
    system(move |builder| way.describe(builder.name("desk").delegation(true)).agent("bank", bank(&paid)))
        .await
        .unwrap()
}

pub(crate) fn delegated(task: &Task) -> &Call {
    task.calls().iter().find(|call| call.request.kind == CallKind::Delegate).unwrap()
}

pub(crate) fn context(task: &Task) -> RunContext {
    RunContext::from_json(task.metadata().get("run_context").unwrap(), &mut Ports::default()).unwrap()
}

/// Returns the one task of the bank.
pub(crate) async fn child_of(system: &System) -> TaskHandle {
    let bank = system.agent("bank").unwrap();
    let tasks = bank.tasks().page(10).await.unwrap().tasks;
    assert_eq!(tasks.len(), 1, "one task was sent: {tasks:?}");
    bank.task(&tasks[0].id).unwrap()
}

/// Gives the desk its work, and waits until it waits for the bank, which waits for a person.
pub(crate) async fn waits(system: &TestSystem, way: Way) -> (TaskHandle, TaskHandle) {
    let task = system.session("s").send(way.part()).await.unwrap();
    let rests = system.finish(&task).await.unwrap();
    assert_eq!(rests.state(), TaskState::InputRequired, "{way:?}: {}", rests.to_json());
    let child = child_of(system).await;
    assert_eq!(child.snapshot().await.unwrap().state(), TaskState::InputRequired);
    (task, child)
}

pub(crate) async fn approve(child: &TaskHandle) {
    let approval = child.approvals().await.unwrap()[0].request.approval_id.clone();
    child.approve(&approval, "ada").await.unwrap();
}

pub(crate) fn assert_sound(system: &TestSystem) {
    assert_eq!(verify(system.store().as_ref()).findings, []);
}
