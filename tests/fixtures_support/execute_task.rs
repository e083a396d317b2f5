//! Area `execute_task`: the whole system, with the tools and the scripted model of the fixtures' README.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::{FinalState, Message, Part, PostedTask, TaskState, final_state};
use serde::{Deserialize, Serialize};
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy};
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{BudgetScope, Builder, Error, JsonSchema, LoopRules, System, TaskSnapshot};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;

use super::{Case, Failure};

/// The tools' calls, in order, each recorded before the tool ran.
pub(super) type ToolLog = Arc<Mutex<Vec<Value>>>;

/// The maximum time of a case: far more than any needs, so that a hang is an error.
const CASE_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    in_time(Run::case(case))
}

/// Runs a case on a runtime of its own and fails it if it hangs.
pub(super) fn in_time(case: impl Future<Output = Result<Value, Failure>>) -> Result<Value, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::Unanswerable(error.to_string()))?;
    runtime.block_on(async {
        let run = tokio::time::timeout(CASE_TIMEOUT, case);
        run.await.map_err(|_| Failure::Unanswerable("the case hangs".to_owned()))?
    })
}

/// Adds the fixtures' capability rules, and an approval handler that always returns the same verdict.
fn permitted(builder: Builder, agent: &Value) -> Result<Builder, Failure> {
    let rules = JsonText::from(agent["policy_rules"].clone()).read().unwrap_or_default();
    let builder = builder.capability_policy(CapabilityPolicy::from_json(&rules).map_err(broken)?);
    let Some(approved) = agent["approve"].as_bool() else { return Ok(builder) };
    Ok(builder.approval_handler(move |_: ApprovalRequest| async move {
        if approved { ApprovalVerdict::Approved } else { ApprovalVerdict::Denied { reason: None } }
    }))
}

struct Run {
    system: System,
    log: ToolLog,
    model: Option<Scripted>,
    conversation: bool,
    sessions: Vec<String>,
}

impl Run {
    async fn case(case: &Case) -> Result<Value, Failure> {
        let agent = &case.input()["agent"];
        let log = ToolLog::default();
        let mut builder = System::builder("in memory")
            .store(Arc::new(MemoryStore::new()))
            .budget_scope(BudgetScope::Part)
            .loop_rules(LoopRules::Protolink);
        for tool in agent["tools"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            builder = with_tool(builder, tool, &log)?;
        }
        builder = builder.delegation(agent["delegation"] == json!(true));
        let conversation = agent.get("state").is_some_and(|stores| !stores.is_null());
        if !conversation {
            builder = builder.stateless();
        }
        let model = model(&agent["llm_script"])?;
        if let Some(model) = &model {
            builder = builder.infer(model.clone());
        }
        let builder = permitted(builder, agent)?;
        let system = builder.start().await.map_err(broken)?;
        let mut run = Self { system, log, model, conversation, sessions: Vec::new() };
        let steps = run.steps(case).await?;
        run.shown(steps).await
    }

    async fn steps(&mut self, case: &Case) -> Result<Vec<Value>, Failure> {
        let mut answers = Vec::new();
        let mut done: Vec<PostedTask> = Vec::new();
        for step in case.input()["steps"].as_array().into_iter().flatten() {
            let mut ports = Ports::default();
            let posted = match step["reuse"].as_u64().and_then(|at| done.get(usize::try_from(at).ok()?)) {
                None => PostedTask::from_json(&JsonText::from(step["task"].clone()), &mut ports)?,
                Some(before) => {
                    let mut posted = before.clone();
                    let message = JsonText::from(step["append"].clone());
                    posted.messages.push(Message::from_json(&message, &mut ports)?);
                    posted
                }
            };
            let (answer, end) = self.step(step, posted).await?;
            done.push(PostedTask::from_json(&end, &mut ports)?);
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Runs one step; returns its result, and the task at its end.
    async fn step(&mut self, step: &Value, posted: PostedTask) -> Result<(Value, JsonText), Failure> {
        let as_posted = posted.to_json();
        if let Some(text) = step["invoke"].as_str() {
            self.sessions.push("invocation_session_id".to_owned());
            let answer = self.system.invoke(Part::infer(text)).await.map_err(broken)?;
            return Ok((json!({"invoke": answer.tree()}), as_posted));
        }
        if let Some(id) = step["cancel_only"].as_str() {
            let refused = self.system.cancel(id, step["reason"].as_str()).await.err();
            let raised = refused.map(|error| cancel_error(&error));
            return Ok((json!({"raised": raised, "task": as_posted.tree()}), as_posted));
        }
        let session = posted.metadata.get("session_id").and_then(JsonText::to_str);
        self.sessions.push(session.unwrap_or_else(|| posted.id.clone()));
        let calls_before = self.calls();
        let task = self.system.submit(posted).await.map_err(broken)?;
        let mut answer = json!({});
        if step.get("cancel_after_ms").is_some() {
            self.until_the_last_tool_runs(calls_before).await;
            task.cancel(step["reason"].as_str()).await.map_err(broken)?;
            let canceled = task.snapshot().await.map_err(broken)?;
            answer["cancel_returned_state"] = json!(canceled.state());
        }
        let end = task.finished().await.map_err(broken)?;
        if let Some(raised) = raised(&end) {
            answer["raised"] = raised;
        }
        answer["task"] = end.to_json().tree();
        Ok((answer, end.to_json()))
    }

    fn calls(&self) -> usize {
        self.log.lock().map_or(0, |log| log.len())
    }

    /// Waits until the last tool runs, so that a cancel is sent while `slow` runs: a tool records its call
    /// before it waits.
    async fn until_the_last_tool_runs(&self, before: usize) {
        loop {
            let slow_runs =
                self.log.lock().is_ok_and(|log| log.iter().skip(before).any(|call| call[0] == json!("slow")));
            if slow_runs {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn shown(self, steps: Vec<Value>) -> Result<Value, Failure> {
        let mut conversations = proto_events::json::JsonMap::new();
        if self.conversation {
            for id in &self.sessions {
                let history = self.system.session(id).history().await.map_err(broken)?;
                if history.is_empty() {
                    continue;
                }
                let shown = history.as_slice().iter().map(|message| {
                    let content = masked(message.role.as_str(), &message.content);
                    json!({"role": message.role, "content": content, "name": message.name})
                });
                conversations.insert(id.clone(), shown.collect::<Vec<_>>().into());
            }
        }
        let session_state = self.conversation.then(|| json!({"conversation": conversations}));
        let requests = self.model.as_ref().map(|model| {
            let request = |request: &taskreel::infer::InferRequest| -> Value {
                let message = |message: &taskreel::infer::ChatMessage| {
                    let content = masked(message.role.as_str(), &message.content);
                    json!({"role": message.role, "content": content})
                };
                request.messages.iter().map(message).collect::<Vec<_>>().into()
            };
            model.requests().iter().map(request).collect::<Vec<_>>()
        });
        let log = self.log.lock().map(|log| log.clone()).unwrap_or_default();
        self.system.shutdown().await.map_err(broken)?;
        Ok(json!({"steps": steps, "tool_log": log, "llm_calls": requests, "session_state": session_state}))
    }
}

pub(super) fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::Unanswerable(error.to_string())
}

/// Masks our own system prompt, as the fixtures leave out Protolink's.
fn masked(role: &str, content: &str) -> String {
    let ours = role == "system" && content.contains("JSON") && content.len() > 400;
    if ours && !content.starts_with("Your previous response") {
        "<system_prompt>".to_owned()
    } else {
        content.to_owned()
    }
}

/// Returns the exception that Protolink raises for the task: it raises what ends a run midway, not what only
/// its outputs report.
fn raised(end: &TaskSnapshot) -> Option<Value> {
    if end.state() != TaskState::Failed || end.task().history().is_empty() {
        return None;
    }
    let outputs: Vec<Part> =
        end.task().artifacts().iter().flat_map(|artifact| artifact.parts.iter().cloned()).collect();
    if matches!(final_state(&outputs), FinalState::Failed { .. }) {
        return None;
    }
    let message = end.task().error().unwrap_or_default();
    let kind = match message.as_str() {
        budget if budget.starts_with("Run budget exceeded") => "BudgetExceededError",
        denied if denied.starts_with("Action '") && denied.contains("' denied: ") => "ActionDeniedError",
        asked if asked.starts_with("Action '") && asked.ends_with("' requires approval") => {
            "ApprovalRequiredError"
        }
        _ => "RuntimeError",
    };
    Some(json!({"type": kind, "message": message}))
}

fn cancel_error(error: &Error) -> Value {
    let kind = match error {
        Error::TaskNotFound(_) => "TaskNotFoundError",
        Error::TaskNotCancelable { .. } => "TaskNotCancelableError",
        _ => "Error",
    };
    json!({"type": kind, "message": error.to_string()})
}

pub(super) fn model(script: &Value) -> Result<Option<Scripted>, Failure> {
    let Some(entries) = script.as_array() else {
        return Ok(None);
    };
    let entries = entries.iter().map(Entry::from_value).collect::<Result<Vec<_>, _>>();
    entries.map(|entries| Some(Scripted::new(entries))).map_err(Failure::Unanswerable)
}

#[derive(Deserialize, JsonSchema)]
struct TwoNumbers {
    a: i64,
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Words {
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

#[derive(Deserialize, JsonSchema)]
struct Ms {
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct X {
    x: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Serialize)]
struct Weather {
    city: String,
    temp: i64,
}

/// Registers one tool of the fixtures' catalog.
pub(super) fn with_tool(builder: Builder, name: &str, log: &ToolLog) -> Result<Builder, Failure> {
    let log = Arc::clone(log);
    let note = move |call: Value| {
        if let Ok(mut log) = log.lock() {
            log.push(call);
        }
    };
    Ok(match name {
        "add" => builder.tool(name, "a + b", move |args: TwoNumbers| {
            note(json!(["add", args.a, args.b]));
            async move { Ok::<_, ToolError>(args.a + args.b) }
        }),
        "echo" => builder.tool(name, "the text", move |args: Text| {
            note(json!(["echo", args.text]));
            async move { Ok::<_, ToolError>(args.text) }
        }),
        "upper" => builder.tool(name, "the text in capitals", move |args: Text| {
            note(json!(["upper", args.text]));
            async move { Ok::<_, ToolError>(args.text.to_uppercase()) }
        }),
        "fail" => builder.tool(name, "fails", move |args: Words| {
            note(json!(["fail", args.message]));
            async move { Err::<(), _>(ToolError::failed(args.message).with_type("ValueError")) }
        }),
        "typefail" => builder.tool(name, "fails by its arguments", move |args: Words| {
            note(json!(["typefail", args.message]));
            async move { Err::<(), _>(ToolError::arguments(args.message).with_type("TypeError")) }
        }),
        "lookup" => builder.tool(name, "weather", move |args: City| {
            note(json!(["lookup", args.city]));
            async move { Ok::<_, ToolError>(Weather { city: args.city, temp: 20 }) }
        }),
        "none" => builder.tool(name, "null", move |_: Nothing| {
            note(json!(["none"]));
            async move { Ok::<_, ToolError>(()) }
        }),
        "slow" => builder.tool(name, "waits", move |args: Ms| {
            note(json!(["slow", args.ms]));
            async move {
                tokio::time::sleep(Duration::from_millis(args.ms)).await;
                Ok::<_, ToolError>(args.ms)
            }
        }),
        "guarded" => {
            let guarded = move |args: X| {
                note(json!(["guarded", args.x]));
                async move { Ok::<_, ToolError>(args.x) }
            };
            builder.tool_with(name, "x", guarded, ToolPolicy::manual().capabilities(["danger.zone"]))
        }
        other => {
            return Err(Failure::Unanswerable(format!("the catalog has no tool `{other}`")));
        }
    })
}
