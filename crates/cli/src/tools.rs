//! The tools of `demo` and `run`: small, without network, each a typed function.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taskreel::infer::{BoxFuture, InferBackend, InferError, InferReply, InferRequest, Scripted};
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, JsonSchema};

/// The name of the file beside the log in which `pay` records its payments.
pub(crate) const LEDGER_FILE: &str = "effects.ledger";

/// The payee who takes the money and never confirms the payment, alone or before more words.
pub(crate) const SILENT_BANK: &str = "slow-bank";

/// The shortest timeout of a payment without confirmation.
const PAY_TIMEOUT_MIN: Duration = Duration::from_millis(1_500);

#[derive(Deserialize, JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Complaint {
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

#[derive(Serialize)]
struct Weather {
    city: String,
    temp: i64,
}

#[derive(Deserialize, JsonSchema)]
struct EmptyArgs {}

#[derive(Deserialize, JsonSchema)]
struct Delay {
    /// Delay in milliseconds.
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Payment {
    /// Name of the payee.
    to: String,
    /// Amount in cents.
    cents: u64,
}

#[derive(Serialize)]
struct Receipt {
    to: String,
    cents: u64,
    key: String,
}

/// Registers all tools. Each takes `pace`; `pay` records its payments in `dir`.
pub(crate) fn register(builder: Builder, pace: Duration, dir: &Path) -> Builder {
    let read_only = ToolPolicy::read_only;
    let ledger = dir.join(LEDGER_FILE);
    let payment = ToolPolicy::manual().timeout(PAY_TIMEOUT_MIN.max(pace.saturating_mul(8)));
    builder
        .tool_with("add", "Adds two whole numbers.", move |sum: Sum| add(pace, sum), read_only())
        .tool_with("echo", "Returns a text.", move |text: Text| echo(pace, text), read_only())
        .tool_with(
            "upper",
            "Converts a text to upper case.",
            move |text: Text| upper(pace, text),
            read_only(),
        )
        .tool_with(
            "fail",
            "Fails with a ValueError.",
            move |said: Complaint| refuse(pace, ToolError::failed(said.message).with_type("ValueError")),
            read_only(),
        )
        .tool_with(
            "typefail",
            "Fails with a TypeError.",
            move |said: Complaint| refuse(pace, ToolError::arguments(said.message).with_type("TypeError")),
            read_only(),
        )
        .tool_with(
            "lookup",
            "Returns the weather in a city.",
            move |city: City| lookup(pace, city),
            read_only(),
        )
        .tool_with("none", "Returns null.", move |_: EmptyArgs| none(pace), read_only())
        .tool_with("slow", "Waits, then returns how long it waited.", slow, read_only())
        .tool_with(
            "pay",
            "Pays somebody. Not to be repeated when its outcome is unknown.",
            move |context: ToolContext, payment: Payment| pay(pace, ledger.clone(), context, payment),
            payment,
        )
}

async fn add(pace: Duration, sum: Sum) -> Result<i64, String> {
    tokio::time::sleep(pace).await;
    sum.a.checked_add(sum.b).ok_or_else(|| format!("{} + {} exceeds 64 bits", sum.a, sum.b))
}

async fn echo(pace: Duration, text: Text) -> Result<String, String> {
    tokio::time::sleep(pace).await;
    Ok(text.text)
}

async fn upper(pace: Duration, text: Text) -> Result<String, String> {
    tokio::time::sleep(pace).await;
    Ok(text.text.to_uppercase())
}

async fn refuse(pace: Duration, error: ToolError) -> Result<(), ToolError> {
    tokio::time::sleep(pace).await;
    Err(error)
}

async fn lookup(pace: Duration, city: City) -> Result<Weather, String> {
    tokio::time::sleep(pace).await;
    Ok(Weather { city: city.city, temp: 20 })
}

async fn none(pace: Duration) -> Result<(), String> {
    tokio::time::sleep(pace).await;
    Ok(())
}

async fn slow(delay: Delay) -> Result<u64, String> {
    tokio::time::sleep(Duration::from_millis(delay.ms)).await;
    Ok(delay.ms)
}

/// Pays, then confirms: a process killed in between cannot know whether the payment took effect.
async fn pay(
    pace: Duration,
    ledger: PathBuf,
    context: ToolContext,
    payment: Payment,
) -> Result<Receipt, String> {
    let key = context.idempotency_key().to_owned();
    let line = format!(
        "{}\t{}\t{}\t{key}\n",
        context.task_id(),
        payment.to.replace(char::is_control, " "),
        payment.cents
    );
    tokio::task::spawn_blocking(move || note_payment(&ledger, &line))
        .await
        .map_err(|error| error.to_string())?
        .map_err(|error| format!("the ledger cannot be written: {error}"))?;
    if payment.to.starts_with(SILENT_BANK) {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(pace).await;
    Ok(Receipt { to: payment.to, cents: payment.cents, key })
}

fn note_payment(ledger: &Path, line: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(ledger)?;
    file.write_all(line.as_bytes())?;
    file.sync_data()
}

/// A scripted model that replies after a delay.
#[derive(Debug, Clone)]
pub(crate) struct DelayedModel {
    /// The model's replies.
    pub(crate) script: Scripted,
    /// The time that a reply takes.
    pub(crate) pace: Duration,
}

impl InferBackend for DelayedModel {
    fn backend(&self) -> &'static str {
        "scripted"
    }

    fn model(&self) -> &'static str {
        "scripted"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let (script, pace) = (self.script.clone(), self.pace);
        Box::pin(async move {
            tokio::time::sleep(pace).await;
            script.infer(request).await
        })
    }
}
