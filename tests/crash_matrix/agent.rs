//! The agent of the runs: tools and a model, which behave as a run specifies, at any attempt and in any
//! process.

use std::time::Duration;

use proto_events::id::{Digest, Version};
use proto_events::json;
use proto_events::json::{JsonText, JsonValue};
use schemars::JsonSchema;
use serde::Deserialize;
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy};
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::infer::{
    Entry, InferBackend, InferError, InferPolicy, InferReply, InferRequest, Scripted, ToolAsk,
};
use taskreel::testing::sleep;
use taskreel::tool::{BoxFuture, DynTool, SecretRequest, ToolContext, ToolError, ToolPolicy, Verdict};
use taskreel::{Builder, Message, Part};

use crate::fuse::Fuse;
use crate::peer::Friend;
use crate::run::{PartPlan, Run, SECRET, TOOLS};
use crate::setting::Change;

/// The timeout of a tool's attempt.
const BOUND: Duration = Duration::from_secs(2);

/// The time for which the target of `put_soon` remembers a key.
const WINDOW: Duration = Duration::from_secs(3);

/// The deadline for starting calls of `read_late`.
const DEADLINE: Duration = Duration::from_secs(3);

/// The time for which the circuit of `frail` is open.
const COOLDOWN: Duration = Duration::from_secs(2);

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Args {
    does: Vec<String>,
    probe: String,
    pin: Option<String>,
}

impl Args {
    /// Returns what the attempt does, and the time that it takes.
    fn of_attempt(&self, attempt: u32) -> (String, Duration) {
        let does = self.does.get(attempt as usize - 1).or(self.does.last()).cloned().unwrap_or_default();
        let (what, time) = does.split_once(' ').unwrap_or(("ok", "0"));
        (what.to_owned(), Duration::from_millis(time.parse().unwrap()))
    }
}

/// Ends an attempt that neither hangs nor asks.
fn ended(what: &str, said: &str) -> Result<JsonText, ToolError> {
    match what {
        "fail" => Err(ToolError::failed("it broke")),
        "reject" => Err(ToolError::arguments("not these")),
        // Without the panic hook, which would print it.
        "panic" => std::panic::resume_unwind(Box::new("as it was told to".to_owned())),
        _ => Ok(JsonText::string(said)),
    }
}

pub(crate) async fn work(cx: ToolContext, args: JsonText) -> Result<JsonText, ToolError> {
    let args: Args = args.read().map_err(|error| ToolError::arguments(error.to_string()))?;
    let (what, time) = args.of_attempt(cx.attempt());
    if what.starts_with("asks") {
        cx.ask("Which one?").await?;
    }
    if what == "asks_twice" {
        cx.ask("And when?").await?;
    }
    sleep(time).await;
    match what.as_str() {
        "heed" => {
            cx.cancellation().canceled().await;
            Ok(JsonText::string("too late"))
        }
        "hang" => std::future::pending().await,
        // What the tool says of a secret is masked.
        what => ended(what, &format!("{} {}", cx.call_id(), args.pin.unwrap_or_default())),
    }
}

/// A plain function, which runs on a thread of its own. No virtual time passes meanwhile, so it never hangs.
#[allow(clippy::needless_pass_by_value, reason = "the shape of a tool")]
fn block(cx: ToolContext, args: Args) -> Result<JsonText, ToolError> {
    let (what, _) = args.of_attempt(cx.attempt());
    std::thread::sleep(Duration::from_micros(200));
    ended(&what, cx.call_id())
}

/// An `async fn` that keeps its thread for a moment.
async fn block_async(cx: ToolContext, args: JsonText) -> Result<JsonText, ToolError> {
    std::thread::sleep(Duration::from_micros(200));
    work(cx, args).await
}

/// The handler: it says something, adds an artifact in pieces, and does between them what the message tells it.
async fn handle(cx: HandlerContext, message: Message) -> Result<HandlerEnd, ToolError> {
    cx.say("it begins").await?;
    let told = message.parts.iter().find_map(|part| part.content().read::<Told>().ok());
    let args =
        told.map_or_else(|| Args { does: Vec::new(), probe: String::new(), pin: None }, |told| told.args);
    let (what, time) = args.of_attempt(cx.attempt());
    if what.starts_with("asks") {
        cx.ask("Which one?").await?;
    }
    let piece = format!("piece{}", cx.attempt());
    cx.append_piece(&piece, vec![Part::text("half")], false).await?;
    sleep(time).await;
    cx.append_piece(&piece, vec![Part::text("whole")], true).await?;
    match what.as_str() {
        "heed" => Ok(HandlerEnd::InputRequired("what now?".to_owned())),
        "hang" => std::future::pending().await,
        "reject" => Ok(HandlerEnd::Rejected("not this".to_owned())),
        "fail" => Ok(HandlerEnd::Failed("it broke".to_owned())),
        what => ended(what, "").map(|_| HandlerEnd::Completed),
    }
}

/// The content of a `tool_call` part.
#[derive(Deserialize)]
struct Told {
    args: Args,
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

fn policy(tool: &str, fuse: &Fuse) -> ToolPolicy {
    let lit = fuse.clone();
    let probe = move |cx: ToolContext, args: Args| {
        lit.at("probe");
        probe(cx, args)
    };
    let policy = match tool {
        "read" => ToolPolicy::read_only().retries(2).parallel(),
        "read_late" => ToolPolicy::read_only().deadline(DEADLINE),
        "read_one" => ToolPolicy::read_only(),
        "put" => ToolPolicy::idempotent().retries(1),
        "put_soon" => ToolPolicy::idempotent_within(WINDOW),
        "put_one" | "keep" | "block" | "block_async" => ToolPolicy::idempotent(),
        "put_secret" => ToolPolicy::idempotent().secret_args(["pin"]),
        "frail" => ToolPolicy::read_only().retries(1).breaker(1, COOLDOWN),
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
    let mood = Digest::compute(asked.args.as_str().as_bytes()).0;
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
    let ask = |call: &JsonValue| {
        ToolAsk::from_provider(call["tool"].as_str().unwrap_or_default(), &call["args"].to_string())
    };
    InferReply { calls: calls.iter().map(ask).collect(), content: String::new(), ..reply }
}

/// A model that replies from a script in pieces, with delays, failures, panics and hangs that follow from the seed.
struct Moody {
    fuse: Fuse,
    script: Scripted,
    name: &'static str,
    seed: u64,
}

impl InferBackend for Moody {
    fn backend(&self) -> &'static str {
        "moody"
    }

    fn model(&self) -> &str {
        self.name
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        self.fuse.at("InferBackend::infer");
        let seen = [self.seed, request.messages.len() as u64, u64::from(request.attempt)];
        let seen = seen.map(u64::to_be_bytes).concat();
        let mood = Digest::of_parts(&[&seen, request.task_id.as_bytes()]).0;
        let pieces = request.deltas.clone();
        let answer = self.script.infer(request);
        Box::pin(async move {
            // It may break off between two pieces of its answer.
            for piece in 0..mood[3] % 4 {
                sleep(Duration::from_millis(u64::from(mood[0]))).await;
                pieces.say(&format!("piece {piece} "));
            }
            sleep(Duration::from_millis(u64::from(mood[0]))).await;
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

/// The host's lookup of secrets: it has the value, fails at times, and panics at others.
#[allow(clippy::unused_async, reason = "the shape of a lookup")]
async fn secret(asked: SecretRequest) -> Result<Option<String>, String> {
    match Digest::compute(asked.call_id.as_bytes()).0[0] % 8 {
        0 => Ok(None),
        1 => Err("the vault is locked".to_owned()),
        2 => std::panic::resume_unwind(Box::new("the vault broke".to_owned())),
        _ => Ok(Some(SECRET.to_owned())),
    }
}

/// Returns the agent of a run.
pub(crate) fn describe(run: &Run, builder: Builder) -> Builder {
    with(run, builder, &[])
}

/// Returns the agent that is started after a crash.
pub(crate) fn describe_changed(run: &Run, builder: Builder) -> Builder {
    with(run, builder, &run.setting.changes)
}

fn with(run: &Run, mut builder: Builder, changes: &[Change]) -> Builder {
    let fuse = Fuse::of(run.setting.panics);
    for tool in TOOLS {
        if !changes.contains(&Change::Removed(tool)) {
            builder = with_tool(builder, tool, changes, &fuse);
        }
    }
    let name = if changes.contains(&Change::Model) { "moodier" } else { "moody" };
    let (lit, locked) = (fuse.clone(), fuse.clone());
    builder = builder
        .infer(Moody { fuse: fuse.clone(), script: script(run), name, seed: run.seed })
        .infer_policy(InferPolicy::default().timeout(BOUND).retries(2))
        .peer(Friend { fuse: fuse.clone(), mode: MODES[(run.seed % 3) as usize] })
        .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
        .secrets(move |asked| {
            locked.at("SecretProvider::secret");
            secret(asked)
        });
    if changes.contains(&Change::Prompt) {
        builder = builder.system_prompt("Be brief.");
    }
    let asks = move |asked| {
        lit.at("Approver::ask");
        approver(asked)
    };
    builder = if run.handler { builder.approval_handler(asks) } else { builder.approvals_by_person() };
    builder = crate::delegation::describe(run, builder);
    if let Some(places) = run.places {
        builder = builder.max_concurrency(places);
    }
    if let Some(mode) = run.handled {
        let policy = match mode {
            "manual" => ToolPolicy::manual(),
            "idempotent" => ToolPolicy::idempotent().retries(1),
            _ => ToolPolicy::read_only(),
        };
        let handle = move |cx, message| {
            fuse.at("handler");
            handle(cx, message)
        };
        builder = builder.handler_with(handle, policy.timeout(BOUND));
    }
    if run.conversation { builder } else { builder.stateless() }
}

/// Adds a tool, as it was before the crash or with a narrower schema and another policy.
fn with_tool(builder: Builder, tool: &'static str, changes: &[Change], fuse: &Fuse) -> Builder {
    let does = "Does what it is told";
    let schema = if changes.contains(&Change::Narrowed(tool)) {
        json!({"type": "object", "properties": {"cause": {"type": "string"}}, "required": ["cause"]})
    } else {
        json!(null)
    };
    let policy = if changes.contains(&Change::Mode(tool)) { other(tool, fuse) } else { policy(tool, fuse) };
    let fuse = fuse.clone();
    let work = move |cx, args| {
        fuse.at("Tool::call");
        work(cx, args)
    };
    match tool {
        "keep" => builder.tool_with(tool, does, DynTool::new(schema, keep), policy),
        "block" => builder.tool_with(tool, does, block, policy),
        "block_async" => builder.tool_with(tool, does, DynTool::new(schema, block_async), policy),
        _ => builder.tool_with(tool, does, DynTool::new(schema, work), policy),
    }
}

/// Returns a policy with another recovery mode: what may not be repeated may be, and what may be may not.
fn other(tool: &str, fuse: &Fuse) -> ToolPolicy {
    let before = policy(tool, fuse);
    let other = if before.recovery().may_repeat() { ToolPolicy::manual() } else { ToolPolicy::read_only() };
    other.timeout(BOUND).secret_args(before.get_secret_args().to_vec())
}

/// The recovery modes of the other agent.
const MODES: [&str; 3] = ["manual", "idempotent", "read_only"];

fn script(run: &Run) -> Scripted {
    let mut script = Vec::new();
    for part in run.tasks.iter().flat_map(|task| &task.parts) {
        if let PartPlan::Infer { prompt, replies, .. } = part {
            script.push((prompt.clone(), replies.iter().cloned().map(Entry::Text).collect()));
        }
    }
    script.push((String::new(), vec![Entry::json(&json!({"type": "final", "content": "so be it"}))]));
    Scripted::by_prompt(script)
}
