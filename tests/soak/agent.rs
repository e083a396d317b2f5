//! The agent of the soak: tools of every recovery mode, with ledgers outside the log, and a model that uses them.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proto_events::id::Version;
use proto_events::json;
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::{Entry, InferBackend, InferError, InferReply, InferRequest, Scripted, ToolAsk};
use taskreel::tool::{BoxFuture, ToolContext, ToolError, ToolPolicy, Verdict};
use taskreel::{Builder, JsonSchema, System};

/// The agent's name.
pub(crate) const AGENT: &str = "shop";
/// The log's directory, below the soak's folder.
pub(crate) const LOG: &str = "log";
/// The ledger with a line for each effect: the tool, the task, the call, the attempt.
pub(crate) const LEDGER: &str = "effects.ledger";

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// Number of the order.
    n: u64,
}

/// A file outside the log. Each line is one write at its end, so that it is complete or absent.
#[derive(Clone)]
struct Ledger(Arc<File>);

impl Ledger {
    fn note(&self, tool: &str, cx: &ToolContext) {
        let line = format!("{tool} {} {} {}\n", cx.task_id(), cx.call_id(), cx.attempt());
        (&*self.0).write_all(line.as_bytes()).unwrap();
    }
}

/// Takes a moment that differs, so that a crash finds a tool before, in and after its effect.
async fn dawdle(n: u64) {
    if n.is_multiple_of(3) {
        tokio::time::sleep(Duration::from_millis(n % 20)).await;
    }
    for _ in 0..n % 40 {
        tokio::task::yield_now().await;
    }
}

/// A model of a script, some of whose replies ask for several tools at once, and that at times is out of order. Each
/// request gets a script of its own, since one keeps the requests that it is asked.
struct Model(Vec<(String, Vec<Entry>)>);

impl InferBackend for Model {
    fn backend(&self) -> &'static str {
        "soak"
    }

    fn model(&self) -> &'static str {
        "soak"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let is_first = request.attempt == 1;
        let shown = request.messages.len();
        let reply = Scripted::by_prompt(self.0.clone()).infer(request);
        Box::pin(async move {
            dawdle(shown as u64).await;
            if is_first && shown.is_multiple_of(17) {
                return Err(InferError::classify("RuntimeError", "503: out of order"));
            }
            let reply = reply.await?;
            if reply.content != "\"several\"" {
                return Ok(reply);
            }
            let ask = |tool: &str, n: u64| ToolAsk::from_provider(tool, &json!({ "n": n }).to_string());
            let calls = vec![ask("look", 3), ask("reserve", 12), ask("count", 5), ask("ship", 21)];
            Ok(InferReply { calls, content: String::new(), ..reply })
        })
    }
}

fn model() -> Model {
    let call =
        |tool: &str, n: u64| Entry::json(&json!({"type": "tool_call", "tool": tool, "args": {"n": n}}));
    let done = Entry::json(&json!({"type": "final", "content": "done"}));
    Model(vec![
        ("buy".to_owned(), vec![call("look", 7), call("pay", 41), call("reserve", 9), done.clone()]),
        ("several".to_owned(), vec![Entry::Text("\"several\"".to_owned()), done.clone()]),
        ("lend".to_owned(), vec![call("lend", 4), done.clone()]),
        ("ask".to_owned(), vec![call("inquire", 2), done.clone()]),
        ("fail".to_owned(), vec![call("break", 2), done.clone()]),
        (String::new(), vec![done]),
    ])
}

async fn look(order: Order) -> Result<u64, String> {
    dawdle(order.n).await;
    Ok(order.n)
}

/// Counts in the tool's own state.
async fn count(cx: ToolContext, order: Order) -> Result<u64, ToolError> {
    let place = format!("place-{}", order.n);
    let state = cx.state();
    let known = state.get(&place);
    let (count, version) =
        known.map_or((0, Version(0)), |entry| (entry.value.read::<u64>().unwrap(), entry.version));
    state.put(&place, &(count + 1), version)?;
    dawdle(order.n).await;
    Ok(count + 1)
}

async fn inquire(cx: ToolContext, order: Order) -> Result<String, ToolError> {
    let place = cx.ask("Where to?").await?;
    Ok(format!("{place} {}", order.n))
}

async fn broken(_: Order) -> Result<u64, String> {
    Err("it broke".to_owned())
}

/// Returns the agent, with its log and its ledger in this folder.
pub(crate) fn agent(base: &Path) -> Builder {
    let file = OpenOptions::new().create(true).append(true).open(base.join(LEDGER));
    let ledger = Ledger(Arc::new(file.unwrap()));
    let effect = |tool: &'static str| {
        let ledger = ledger.clone();
        move |cx: ToolContext, order: Order| {
            let ledger = ledger.clone();
            async move {
                dawdle(order.n).await;
                ledger.note(tool, &cx);
                dawdle(order.n + 1).await;
                Ok::<_, String>(order.n)
            }
        }
    };
    let asked = base.join(LEDGER);
    let probe = move |cx: ToolContext, _: Order| {
        let asked = asked.clone();
        async move {
            let found = std::fs::read_to_string(asked).map_err(|error| error.to_string())?;
            let mine = format!("ship {} {} ", cx.task_id(), cx.call_id());
            let landed = found.lines().any(|line| line.starts_with(&mine));
            Ok::<_, String>(if landed {
                Verdict::Landed(json!("shipped").into())
            } else {
                Verdict::DidNotHappen
            })
        }
    };
    let blocking = |order: Order| {
        std::thread::sleep(Duration::from_millis(order.n % 5));
        Ok::<_, String>(order.n)
    };
    System::builder(base.join(LOG))
        .name(AGENT)
        .passivate_after(Duration::from_millis(200))
        .tool("pay", "Pays: must not happen twice", effect("pay"))
        .tool_with(
            "lend",
            "Lends: after an approval",
            effect("lend"),
            ToolPolicy::manual().capabilities(["money"]),
        )
        .tool_with("reserve", "Reserves: honours its key", effect("reserve"), ToolPolicy::idempotent())
        .tool_with("ship", "Ships: can be asked about", effect("ship"), ToolPolicy::reconcile(probe))
        .tool_with("look", "Looks: changes nothing", look, ToolPolicy::read_only().parallel())
        .tool_with("count", "Counts in its state", count, ToolPolicy::idempotent())
        .tool_with("inquire", "Asks a person", inquire, ToolPolicy::read_only())
        .tool_with("break", "Fails", broken, ToolPolicy::read_only().retries(1))
        .tool_with("grind", "Blocks a thread", blocking, ToolPolicy::read_only())
        .capability_policy(CapabilityPolicy::new().require_approval("money"))
        .approvals_by_person()
        .infer(model())
}
