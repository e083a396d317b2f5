//! Calls that must be approved first. A tool names the capabilities it needs, the policy names those that
//! require approval, and an approval is valid for one call with exactly the arguments that were shown. Here
//! code decides about small payments, a person about large ones: the task then waits on disk, for a minute or
//! a month, across restarts, and its conversation stays free. `cargo run --example approvals`
//!
//! On a log that no process has open, people decide with `taskreel calls`, `taskreel approve` and `taskreel
//! deny`.

use std::convert::Infallible;

use serde::{Deserialize, Serialize};
use serde_json::json;
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy};
use taskreel::tool::ToolPolicy;
use taskreel::{JsonSchema, Part, System, TaskHandle};

type Failure = Box<dyn std::error::Error>;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Payment {
    to: String,
    cents: u64,
}

async fn pay(ask: Payment) -> Result<Payment, Infallible> {
    // Manual by default: after a crash midway it is not repeated, and its outcome is reported as unknown.
    Ok(ask)
}

/// Decides in code. It is called once the request is on disk, and again after a crash, so it only decides:
/// acting on the verdict is the system's job.
async fn controller(asked: ApprovalRequest) -> ApprovalVerdict {
    let payment: Result<Payment, _> = serde_json::from_str(asked.args.as_str());
    match payment {
        Ok(payment) if payment.to == "nobody" => {
            ApprovalVerdict::Denied { reason: Some("nobody is not on the list".to_owned()) }
        }
        Ok(payment) if payment.cents <= 5_000 => ApprovalVerdict::Approved,
        _ => ApprovalVerdict::AskPerson,
    }
}

/// Submits a task that is one call and needs no model.
async fn ask_for(system: &System, to: &str, cents: u64) -> Result<TaskHandle, Failure> {
    Ok(system.submit(Part::tool_call("pay", json!({"to": to, "cents": cents}))?).await?)
}

#[expect(clippy::print_stdout, reason = "an example shows what it did")]
async fn show(what: &str, task: &TaskHandle) -> Result<(), Failure> {
    let end = task.finished().await?;
    let says = end.task().error().or_else(|| end.answer().map(|answer| answer.as_str().to_owned()));
    println!("{what}\n  {}: {}", end.state(), says.unwrap_or_default());
    for approval in end.task().approvals().iter() {
        let verdict = approval.verdict().map_or("waits".to_owned(), |decided| {
            let word = if decided.approved { "approved" } else { "denied" };
            format!("{word} by {}", decided.decided_by)
        });
        println!("  {} of {}: {verdict}", approval.request.tool, approval.request.args.as_str());
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let scratch = tempfile::tempdir()?;
    let system = System::builder(scratch.path().join("log"))
        .tool_with(
            "pay",
            "Pays from the house account",
            pay,
            ToolPolicy::manual().capabilities(["money.send"]),
        )
        // Rules are exact, `ns.*` or `*`; the permissions of a run can only narrow them.
        .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
        .approval_handler(controller)
        .start()
        .await?;

    show("a small payment, which code approves", &ask_for(&system, "the baker", 480).await?).await?;
    show("a payment that code denies", &ask_for(&system, "nobody", 480).await?).await?;

    let large = ask_for(&system, "the landlord", 95_000).await?;
    show("a large payment, which waits for a person", &large).await?;
    for waiting in large.approvals().await? {
        large.approve(&waiting.request.approval_id, "ada").await?;
    }
    show("the same, approved: the call is made with the arguments that were approved", &large).await?;

    let larger = ask_for(&system, "the casino", 9_500_000).await?;
    larger.finished().await?;
    for waiting in larger.approvals().await? {
        larger.deny(&waiting.request.approval_id, Some("not on my watch"), "ada").await?;
    }
    show("a payment that a person denies", &larger).await?;
    system.shutdown().await?;
    Ok(())
}
