//! The agent of the runs: tools and a model, which behave as a run specifies, at any attempt and in any
//! process.

use std::time::Duration;

use proto_events::id::{Digest, Version};
use proto_events::json;
use proto_events::json::{JsonText, JsonValue};
use serde::Deserialize;
use taskreel::Builder;
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy};
use taskreel::infer::{
    Entry, InferBackend, InferError, InferPolicy, InferReply, InferRequest, Scripted, ToolAsk,
};
use taskreel::testing::sleep;
use taskreel::tool::{BoxFuture, DynTool, ToolContext, ToolError, ToolPolicy, Verdict};

use crate::run::{PartPlan, Run, TOOLS};

/// The timeout of a tool's attempt.
const BOUND: Duration = Duration::from_secs(2);

/// The time for which the target of `put_soon` remembers a key.
const WINDOW: Duration = Duration::from_secs(3);

/// The deadline for starting calls of `read_late`.
const DEADLINE: Duration = Duration::from_secs(3);

#[derive(Deserialize)]
pub(crate) struct Args {
    does: Vec<String>,
    probe: String,
}

pub(crate) async fn work(cx: ToolContext, args: JsonText) -> Result<JsonText, ToolError> {
    let args: Args = args.read().map_err(|error| ToolError::arguments(error.to_string()))?;
    let at = usize::try_from(cx.attempt()).unwrap() - 1;
    let does = args.does.get(at).or(args.does.last()).cloned().unwrap_or_default();
    let (what, time) = does.split_once(' ').unwrap_or(("ok", "0"));
    sleep(Duration::from_millis(time.parse().unwrap())).await;
    match what {
        "ok" => Ok(JsonText::string(cx.call_id())),
        "fail" => Err(ToolError::failed("it broke")),
        "reject" => Err(ToolError::arguments("not these")),
        // Without the panic hook, which would print it.
        "panic" => std::panic::resume_unwind(Box::new("as it was told to".to_owned())),
        "heed" => {
            cx.cancellation().canceled().await;
            Ok(JsonText::string("too late"))
        }
        _ => std::future::pending().await,
    }
}

pub(crate) async fn probe(cx: ToolContext, args: Args) -> Result<Verdict, ToolError> {
    sleep(Duration::from_millis(10)).await;
    match args.probe.as_str() {
        "landed" => Ok(Verdict::Landed(JsonText::string(cx.call_id()))),
        "absent" => Ok(Verdict::DidNotHappen),
        "unsure" => Ok(Verdict::Inconclusive("who knows".to_owned())),
        "panics" => std::panic::resume_unwind(Box::new("the probe broke".to_owned())),
        _ => Err(ToolError::failed("the target is away")),
    }
}

fn policy(tool: &str) -> ToolPolicy {
    let policy = match tool {
        "read" => ToolPolicy::read_only().retries(2).parallel(),
        "read_late" => ToolPolicy::read_only().deadline(DEADLINE),
        "read_one" => ToolPolicy::read_only(),
        "put" => ToolPolicy::idempotent().retries(1),
        "put_soon" => ToolPolicy::idempotent_within(WINDOW),
        "put_one" | "keep" => ToolPolicy::idempotent(),
        "put_asked" => ToolPolicy::idempotent().capabilities(["money.lend"]),
        "ask" | "ask_one" => ToolPolicy::reconcile(probe),
        "pay_asked" => ToolPolicy::manual().capabilities(["money.spend"]),
        _ => ToolPolicy::manual(),
    };
    let policy = policy.timeout(BOUND);
    if tool.ends_with("_one") { policy.concurrency(1) } else { policy }
}

/// An approval handler that approves, denies, defers to a person, or takes too long, depending on the
/// request.
async fn approver(asked: ApprovalRequest) -> ApprovalVerdict {
    let mood = Digest::of(asked.args.as_str().as_bytes()).0;
    sleep(Duration::from_millis(u64::from(mood[0]))).await;
    match mood[1] % 6 {
        0 => ApprovalVerdict::Denied { reason: Some("too dear".to_owned()) },
        1 => ApprovalVerdict::AskPerson,
        2 => std::future::pending().await,
        3 if mood[2] < 64 => std::panic::resume_unwind(Box::new("the approver broke".to_owned())),
        _ => ApprovalVerdict::Approved,
    }
}

/// A tool that counts its calls in its state, and then does what it is told.
async fn keep(cx: ToolContext, args: JsonText) -> Result<JsonText, ToolError> {
    let (count, version) = match cx.state().get("count") {
        Some(entry) => (entry.value.read::<u64>().unwrap_or_default(), entry.version),
        None => (0, Version(0)),
    };
    cx.state().put("count", &(count + 1), version)?;
    work(cx, args).await
}

/// Returns a reply that asks for several calls, if the script's text does.
fn several(reply: InferReply) -> InferReply {
    let asked = JsonText::parse(&reply.content).ok().map(|text| text.tree());
    let calls = asked.as_ref().and_then(|asked| asked.get("calls")).and_then(|calls| calls.as_array());
    let Some(calls) = calls else { return reply };
    let ask =
        |call: &JsonValue| ToolAsk::of(call["tool"].as_str().unwrap_or_default(), &call["args"].to_string());
    InferReply { calls: calls.iter().map(ask).collect(), content: String::new(), ..reply }
}

/// A model that replies from a script, with delays, failures, panics and hangs that follow from the seed.
struct Moody {
    script: Scripted,
    seed: u64,
}

impl InferBackend for Moody {
    fn backend(&self) -> &'static str {
        "moody"
    }

    fn model(&self) -> &'static str {
        "moody"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let seen = [self.seed, request.messages.len() as u64, u64::from(request.attempt)];
        let seen = seen.map(u64::to_be_bytes).concat();
        let mood = Digest::of_parts(&[&seen, request.task_id.as_bytes()]).0;
        let answer = self.script.infer(request);
        Box::pin(async move {
            sleep(Duration::from_millis(u64::from(mood[0]) * 4)).await;
            match mood[1] % 16 {
                0 => std::future::pending().await,
                1 | 2 => Err(InferError::classify("RuntimeError", "429: rate limit")),
                3 => Err(InferError::classify("ValueError", "no answer at all")),
                4 if mood[2] < 64 => Err(InferError::classify("RuntimeError", "the model is gone")),
                // Without the panic hook, which would print it.
                5 if mood[2] < 64 => std::panic::resume_unwind(Box::new("the model's code broke".to_owned())),
                _ => answer.await.map(several),
            }
        })
    }
}

/// Returns the agent of a run.
pub(crate) fn describe(run: &Run, mut builder: Builder) -> Builder {
    let mut script = Vec::new();
    for part in run.tasks.iter().flat_map(|task| &task.parts) {
        if let PartPlan::Infer { prompt, replies, .. } = part {
            script.push((prompt.clone(), replies.iter().cloned().map(Entry::Text).collect()));
        }
    }
    script.push((String::new(), vec![Entry::json(&json!({"type": "final", "content": "so be it"}))]));
    for tool in TOOLS {
        let does = "Does what it is told";
        builder = match tool {
            "keep" => builder.tool_with(tool, does, DynTool::new(json!(null), keep), policy(tool)),
            _ => builder.tool_with(tool, does, DynTool::new(json!(null), work), policy(tool)),
        };
    }
    builder = builder
        .infer(Moody { script: Scripted::by_prompt(script), seed: run.seed })
        .infer_policy(InferPolicy::default().timeout(BOUND).retries(2));
    builder = builder.capability_policy(CapabilityPolicy::new().require_approval("money.*"));
    builder = if run.handler { builder.approval_handler(approver) } else { builder.approvals_by_person() };
    builder = crate::delegation::describe(run, builder);
    if let Some(places) = run.places {
        builder = builder.max_concurrency(places);
    }
    if run.conversation { builder } else { builder.stateless() }
}
