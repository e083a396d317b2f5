//! The log of the bench, written by a system: many small runs of a few kinds, conversations, a long task, and one with a large
//! payload.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use proto_events::model::PostedTask;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::{Entry, Scripted};
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{Builder, JsonSchema, Part, System};
use taskreel_log::api::Durability;

use crate::report::{Failure, number};

/// The agent, the long task and another one, and the one with a large payload.
pub(crate) const AGENT: &str = "agent";
pub(crate) const LONG: &str = "long";
pub(crate) const LONG_TOO: &str = "long-too";
pub(crate) const WIDE: &str = "wide";

/// The most events of the long task.
const LONG_EVENTS: u64 = 100_000;

/// The events of a call in a task, and of a small run.
const CALL_EVENTS: u64 = 4;

/// The bytes of the large payload.
const WIDE_BYTES: usize = 2_000_000;

/// The runs at the same time.
const AT_ONCE: u64 = 128;

/// Of so many runs one is a turn of a conversation, one fails, and one waits for an approval.
const TALKS: u64 = 20;
const FAILS: u64 = 33;
const WAITS: u64 = 5_000;

/// The number of conversations.
const SESSIONS: u64 = 200;

#[derive(serde::Deserialize, JsonSchema)]
struct Text {
    text: String,
}

/// Returns a builder of the system that writes the log.
pub(crate) fn builder(dir: &Path) -> Builder {
    let answer = Entry::Text(r#"{"type": "final", "content": "so it is"}"#.to_owned());
    let pays = ToolPolicy::manual().capabilities(["money.spend"]);
    System::builder(dir)
        .durability(Durability::Os)
        .infer(Scripted::by_prompt([(String::new(), vec![answer])]))
        .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
        .approvals_by_person()
        .tool("echo", "Says a text.", |args: Text| async move { Ok::<_, ToolError>(args.text) })
        .tool("count", "Counts letters.", |args: Text| async move { Ok::<_, ToolError>(args.text.len()) })
        .tool("fail", "Fails.", |_: Text| async { Err::<u8, _>(ToolError::failed("no table tonight")) })
        .tool_with("pay", "Pays.", |_: Text| async { Ok::<_, ToolError>(1) }, pays)
}

/// Makes the log: about so many events.
pub(crate) async fn make(dir: &Path, events: u64) -> Result<(), Failure> {
    let began = Instant::now();
    let system = builder(dir).start().await?;
    post(&system, &task(WIDE, "echo", 1, |_| format!("wide {}", "x".repeat(WIDE_BYTES)))).await?;
    let next = Arc::new(AtomicU64::new(0));
    // The long task stands in the middle of the log, so that reading it is no reading of the log's end.
    run(&system, &next, events / 2).await?;
    let long = LONG_EVENTS.min(events / 4);
    post(&system, &task(LONG, "echo", long / CALL_EVENTS, |at| format!("number {at}"))).await?;
    // Every hundredth call has other arguments.
    let other = |at: u64| format!("number {}", if at.is_multiple_of(100) { at + 1 } else { at });
    post(&system, &task(LONG_TOO, "echo", long / CALL_EVENTS, other)).await?;
    run(&system, &next, events).await?;
    let head = system.log().head()?.0;
    system.shutdown().await?;
    let rate = number(head) / began.elapsed().as_secs_f64();
    println!("a log of {head} events was made in {:.1?}, {rate:.0} events/s", began.elapsed());
    Ok(())
}

/// Runs small tasks until the log has so many events.
async fn run(system: &System, next: &Arc<AtomicU64>, events: u64) -> Result<(), Failure> {
    let one = |_| {
        let (system, next) = (system.clone(), Arc::clone(next));
        tokio::spawn(async move {
            while system.log().head()?.0 < events {
                small_run(&system, next.fetch_add(1, Ordering::Relaxed)).await?;
            }
            Ok::<_, Failure>(())
        })
    };
    for one in (0..AT_ONCE).map(one).collect::<Vec<_>>() {
        one.await??;
    }
    Ok(())
}

async fn small_run(system: &System, number: u64) -> Result<(), Failure> {
    if number % TALKS == 1 {
        let session = system.session(&format!("talk-{}", number / TALKS % SESSIONS));
        let prompt = format!("what is number {number}?");
        session.send(Part::infer(&prompt)).await?.finished().await?;
        return Ok(());
    }
    let id = format!("run-{number:07}");
    if number % WAITS == 2 {
        return post(system, &task(&id, "pay", 1, |_| format!("rent {number}"))).await;
    }
    if number % FAILS == 3 {
        return post(system, &task(&id, "fail", 1, |_| format!("failure {number}"))).await;
    }
    post(system, &small(&id, number)).await
}

/// Returns a small task.
pub(crate) fn small(id: &str, number: u64) -> String {
    let tool = if number.is_multiple_of(7) { "count" } else { "echo" };
    task(id, tool, 1, |_| format!("number {number}"))
}

/// Returns a task of so many calls of a tool.
fn task(id: &str, tool: &str, calls: u64, text: impl Fn(u64) -> String) -> String {
    let time = "2026-11-24T07:03:20.123456+00:00";
    let call = |at: u64| {
        let text = text(at);
        format!(
            r#"{{"type": "tool_call", "content": {{"tool_name": "{tool}", "args": {{"text": "{text}"}}, "call_id": "c{at}"}}}}"#
        )
    };
    let parts = (1..=calls.max(1)).map(call).collect::<Vec<_>>().join(",");
    format!(
        r#"{{"id": "{id}", "created_at": "{time}", "messages": [{{"id": "m-{id}", "role": "user", "parts": [{parts}], "timestamp": "{time}"}}]}}"#
    )
}

/// Runs a task as far as it goes without a person.
pub(crate) async fn post(system: &System, task: &str) -> Result<(), Failure> {
    let posted = PostedTask::parse(task, &mut taskreel::Ports::default())?;
    system.submit(posted).await?.finished().await?;
    Ok(())
}
