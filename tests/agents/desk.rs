//! The other agent of these tests, and the tools and handlers that ask it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests only")]
#![allow(dead_code, reason = "no test file uses all of it")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::call::{Call, CallKind};
use proto_events::json;
use proto_events::json::JsonText;
use serde::Deserialize;
use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind};
use taskreel::testing::{TestSystem, sleep};
use taskreel::tool::{BoxFuture, ToolContext, ToolError, ToolPolicy};
use taskreel::{BudgetUsage, JsonSchema, Message, Part, Task, TaskState};
use taskreel_log::audit::verify;

/// Another agent. It does what the first word of a prompt says, after as many milliseconds as the second one says.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) policy: ToolPolicy,
    /// The prompts that it was sent, by task, each with the number of times.
    sent: Arc<Mutex<BTreeMap<String, (String, usize)>>>,
    canceled: Arc<Mutex<Vec<String>>>,
}

impl Desk {
    pub(crate) fn with(policy: ToolPolicy) -> Self {
        Self { policy, sent: Arc::default(), canceled: Arc::default() }
    }

    pub(crate) fn idempotent() -> Self {
        Self::with(ToolPolicy::idempotent().timeout(Duration::from_secs(600)))
    }

    /// Returns the prompts of the tasks that it was sent, in order.
    pub(crate) fn prompts(&self) -> Vec<String> {
        let mut all: Vec<_> = self.sent.lock().unwrap().values().map(|(prompt, _)| prompt.clone()).collect();
        all.sort();
        all
    }

    /// Returns the number of times that it was sent a task.
    pub(crate) fn times(&self) -> usize {
        self.sent.lock().unwrap().values().map(|(_, times)| times).sum()
    }

    pub(crate) fn canceled(&self) -> usize {
        self.canceled.lock().unwrap().len()
    }
}

/// Returns the answer to a prompt that was sent for the n-th time.
fn answer(prompt: &str, times: usize, took: Duration) -> Result<PeerAnswer, PeerError> {
    let result = JsonText::string(&format!("answer to {prompt}"));
    let state = match prompt.split(' ').next().unwrap_or_default() {
        "fail" => return Err(PeerError::new(PeerErrorKind::Failed, "the desk broke")),
        "reject" => return Err(PeerError::new(PeerErrorKind::Refused, "not my work")),
        "again" if times == 1 => return Err(PeerError::new(PeerErrorKind::Lost, "the line broke once")),
        "lose" => return Err(PeerError::new(PeerErrorKind::Lost, "the line broke")),
        "ask" => TaskState::InputRequired,
        _ => TaskState::Completed,
    };
    let runtime_seconds = took.as_secs_f64();
    let used = BudgetUsage { llm_calls: 3, steps: 3, runtime_seconds, ..BudgetUsage::default() };
    Ok(PeerAnswer { state, result, error: None, used: BudgetUsage::default() }.with_usage(used))
}

impl Peer for Desk {
    fn name(&self) -> &'static str {
        "desk"
    }

    fn description(&self) -> &'static str {
        "does what it is told"
    }

    fn skills(&self) -> Vec<String> {
        Vec::new()
    }

    fn policy(&self) -> ToolPolicy {
        self.policy.clone()
    }

    fn send(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        let part = &delegation.task.messages[0].parts[0];
        let prompt = part.as_infer().map_or_else(|_| "tool".to_owned(), |asked| asked.prompt);
        let mut sent = self.sent.lock().unwrap();
        let sent = sent.entry(delegation.task.id).or_insert_with(|| (prompt.clone(), 0));
        sent.1 += 1;
        let times = sent.1;
        Box::pin(async move {
            let time = prompt.split(' ').nth(1).and_then(|time| time.parse().ok()).unwrap_or(1);
            let took = Duration::from_millis(time);
            sleep(took).await;
            answer(&prompt, times, took)
        })
    }

    fn cancel(&self, task_id: &str, _: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        self.canceled.lock().unwrap().push(task_id.to_owned());
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The arguments of the tool that asks the desk.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Asks {
    /// The prompts, one after the other; `{n}` in one is the number of the attempt.
    pub(crate) prompts: Vec<String>,
    /// The end: `ok`, `hang` or `fail`, for each attempt, the last for all others.
    pub(crate) ends: Vec<String>,
}

/// A tool that asks the desk and returns the answers, or the type of the first error.
pub(crate) async fn lead(cx: ToolContext, asks: Asks) -> Result<String, ToolError> {
    let mut said = Vec::new();
    for prompt in &asks.prompts {
        let prompt = prompt.replace("{n}", &cx.attempt().to_string());
        match cx.delegate("desk", prompt).await {
            Ok(answer) => said.push(format!("{}: {}", answer.state, answer.result)),
            Err(error) if error.type_name().starts_with("WaitsFor") => return Err(error),
            Err(error) => said.push(format!("{}: {error}", error.type_name())),
        }
    }
    let at = usize::try_from(cx.attempt()).unwrap() - 1;
    match asks.ends.get(at).or(asks.ends.last()).map_or("ok", String::as_str) {
        "hang" => std::future::pending().await,
        "fail" => Err(ToolError::failed("the lead broke")),
        _ => Ok(said.join("; ")),
    }
}

/// A call of the tool `lead`.
pub(crate) fn leads(prompts: &[&str], ends: &[&str]) -> Part {
    Part::tool_call("lead", json!({"prompts": prompts, "ends": ends})).unwrap()
}

pub(crate) fn message(parts: Vec<Part>) -> Message {
    Message { id: None, role: Some("user".into()), parts, timestamp: None }
}

/// Returns the calls that other calls asked for, oldest first.
pub(crate) fn children(task: &Task) -> Vec<&Call> {
    task.calls().iter().filter(|call| call.request.kind == CallKind::Delegate).collect()
}

/// Returns the numbers of the calls that other calls asked for.
pub(crate) fn ordinals(task: &Task) -> Vec<u32> {
    let ordinal = |call: &Call| call.request.origin.parent.as_ref().unwrap().ordinal;
    children(task).into_iter().map(ordinal).collect()
}

/// Returns the texts of the task's outputs.
pub(crate) fn outputs(task: &Task) -> String {
    let all = task.artifacts().iter().map(|artifact| artifact.parts[0].content().as_str());
    all.collect::<Vec<_>>().join("\n")
}

#[track_caller]
pub(crate) fn assert_sound(system: &TestSystem) {
    let found = verify(system.store().as_ref());
    assert!(found.is_sound(), "{:#?}", found.findings);
}
