//! The tools that `demo` and `run` have: small, without network, each a typed function.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taskreel::agent::tool::BoxFuture;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest, Scripted};
use taskreel::system::Builder;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};

/// Name of the file in which `pay` notes what it did, beside the log.
pub(crate) const LEDGER_FILE: &str = "effects.ledger";

/// The payee who takes the money and never confirms it.
pub(crate) const SILENT_BANK: &str = "slow-bank";

/// Shortest time after which a payment without confirmation is given up.
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
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Delay {
    /// How long, in milliseconds.
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Payment {
    /// Who gets it.
    to: String,
    /// How much, in cents.
    cents: u64,
}

#[derive(Serialize)]
struct Receipt {
    to: String,
    cents: u64,
    key: String,
}

/// Registers all tools. Each takes `pace`; `pay` notes its payments in `dir`.
pub(crate) fn register(builder: Builder, pace: Duration, dir: &Path) -> Builder {
    let looks = ToolPolicy::read_only;
    let ledger = dir.join(LEDGER_FILE);
    let pays = ToolPolicy::manual().timeout(PAY_TIMEOUT_MIN.max(pace.saturating_mul(8)));
    builder
        .tool_with("add", "Adds two whole numbers.", move |sum: Sum| add(pace, sum), looks())
        .tool_with("echo", "Gives a text back.", move |text: Text| echo(pace, text), looks())
        .tool_with("upper", "Makes a text upper case.", move |text: Text| upper(pace, text), looks())
        .tool_with(
            "fail",
            "Fails with a ValueError.",
            move |said: Complaint| refuse(pace, ToolError::failed(said.message).with_type("ValueError")),
            looks(),
        )
        .tool_with(
            "typefail",
            "Fails with a TypeError.",
            move |said: Complaint| refuse(pace, ToolError::arguments(said.message).with_type("TypeError")),
            looks(),
        )
        .tool_with("lookup", "Tells the weather in a city.", move |city: City| lookup(pace, city), looks())
        .tool_with("none", "Answers nothing.", move |_: Nothing| none(pace), looks())
        .tool_with("slow", "Waits, then says how long it waited.", slow, looks())
        .tool_with(
            "pay",
            "Pays somebody. Not to be repeated when its outcome is unknown.",
            move |context: ToolContext, payment: Payment| pay(pace, ledger.clone(), context, payment),
            pays,
        )
}

async fn add(pace: Duration, sum: Sum) -> Result<i64, String> {
    tokio::time::sleep(pace).await;
    sum.a.checked_add(sum.b).ok_or_else(|| format!("{} + {} is more than 64 bits hold", sum.a, sum.b))
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

/// The effect comes first, its confirmation after: whoever is killed in between cannot know.
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
    if payment.to == SILENT_BANK {
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

/// A scripted model that takes its time, as models do.
#[derive(Debug, Clone)]
pub(crate) struct Paced {
    /// What it answers.
    pub(crate) script: Scripted,
    /// How long an answer takes.
    pub(crate) pace: Duration,
}

impl InferBackend for Paced {
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
