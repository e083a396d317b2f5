//! The tokens that a task of another agent has used count for the budget of the task that asked, also where it failed.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "in a test a panic is the answer")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::call_support::{Nothing, memory};
use proto_events::call::{CallKind, CallStatus};
use proto_events::json;
use proto_events::json::JsonText;
use taskreel::infer::Scripted;
use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerError};
use taskreel::tool::{BoxFuture, ToolContext, ToolError};
use taskreel::{BudgetUsage, PostedTask, System, TaskState};
use taskreel_log::ports::Ports;

/// A peer whose first task fails, and all others are done. Each uses as much.
#[derive(Clone)]
struct Desk {
    asked: Arc<AtomicU32>,
    used: BudgetUsage,
}

impl Desk {
    fn using(used: BudgetUsage) -> Self {
        Self { asked: Arc::default(), used }
    }
}

impl Peer for Desk {
    fn name(&self) -> &'static str {
        "desk"
    }

    fn description(&self) -> &'static str {
        "Answers"
    }

    fn skills(&self) -> Vec<String> {
        Vec::new()
    }

    fn send(&self, _: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        let is_first = self.asked.fetch_add(1, Ordering::SeqCst) == 0;
        let state = if is_first { TaskState::Failed } else { TaskState::Completed };
        let answer = PeerAnswer::new(state, Some(&JsonText::string("said")), [], None).with_usage(self.used);
        Box::pin(async move { Ok(answer) })
    }

    fn cancel(&self, _: &str, _: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        Box::pin(async { Ok(()) })
    }
}

async fn asks_three_times(cx: ToolContext, _: Nothing) -> Result<String, ToolError> {
    let mut answered = 0;
    for question in ["one", "two", "three"] {
        answered += u32::from(cx.delegate("desk", question).await.is_ok());
    }
    Ok(format!("{answered} answered"))
}

#[tokio::test]
async fn the_tokens_of_a_child_that_failed_are_taken_from_the_budget() {
    let used = BudgetUsage { llm_calls: 2, input_tokens: 60, output_tokens: 20, ..BudgetUsage::default() };
    let builder = System::builder("-").store(memory()).tool("asks", "Asks", asks_three_times);
    let system = builder.peer(Desk::using(used)).start().await.unwrap();
    let part = json!({"type": "tool_call", "content": {"tool_name": "asks", "args": {}}});
    let posted = json!({
        "id": "t",
        "messages": [{"id": "m", "role": "user", "parts": [part]}],
        "metadata": {"budget": {"max_input_tokens": 150, "max_output_tokens": 100}},
    });
    let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap();
    let end = system.submit(posted).await.unwrap().finished().await.unwrap();
    let children: Vec<_> =
        end.task().calls().iter().filter(|call| call.request.kind == CallKind::Delegate).collect();
    let failed = children.first().unwrap();
    assert!(matches!(failed.status, CallStatus::Failed(_)), "{:?}", failed.status);
    assert_eq!(failed.usage.map(|usage| (usage.input_tokens, usage.output_tokens)), Some((60, 20)));
    let given: Vec<_> = children
        .iter()
        .map(|call| {
            let budget = call.request.args.tree()["task"]["metadata"]["run_context"]["budget"].clone();
            (budget["max_input_tokens"].clone(), budget["max_output_tokens"].clone())
        })
        .collect();
    assert_eq!(given, [(json!(150), json!(100)), (json!(90), json!(80)), (json!(30), json!(60))]);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn whatever_another_agent_says_that_it_has_used_is_counted_without_an_overflow() {
    let most = u64::MAX;
    let used = BudgetUsage { steps: most, llm_calls: most, tool_calls: most, ..BudgetUsage::default() };
    let builder = System::builder("-").store(memory()).tool("asks", "Asks", asks_three_times);
    let model = Scripted::from_json(r#"{"": [{"type": "final", "content": "done"}]}"#).unwrap();
    let system = builder.stateless().infer(model).peer(Desk::using(used)).start().await.unwrap();
    let asks = json!({"type": "tool_call", "content": {"tool_name": "asks", "args": {}}});
    let infer = json!({"type": "infer", "content": {"prompt": "go"}});
    let posted = json!({
        "id": "t",
        "messages": [{"id": "m", "role": "user", "parts": [asks.clone(), asks, infer]}],
        "metadata": {"budget": {"max_input_tokens": 1_000_000}},
    });
    let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap();
    let end = system.submit(posted).await.unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
    let used = end.used();
    assert_eq!((used.steps, used.llm_calls, used.tool_calls), (most, most, most));
    system.shutdown().await.unwrap();
}
