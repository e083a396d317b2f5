//! Following work while it happens. One subscription follows a single task from its first event to its end;
//! another then reads the whole log. Both read what is on disk: each event arrives once and in order,
//! whenever the subscription begins, and a reader that is too slow is notified and continues from the log.
//! What is not in the log, pieces of answers and the progress of tools, comes from a live feed. `cargo run
//! --example subscribe`

use serde::{Deserialize, Serialize};
use serde_json::json;
use taskreel::infer::{Entry, Scripted};
use taskreel::proto_events::id::{Position, Version};
use taskreel::tool::ToolContext;
use taskreel::{JsonSchema, Live, PostedTask, System};
use taskreel_log::ports::Ports;
use taskreel_log::read::{Delivery, Subscription};
use taskreel_log::views::{Summaries, event_rows};

#[derive(Deserialize, JsonSchema)]
struct Forecast {
    /// City, as a person would say it.
    city: String,
}

#[derive(Serialize)]
struct Weather {
    celsius: usize,
}

async fn forecast(cx: ToolContext, ask: Forecast) -> Result<Weather, std::io::Error> {
    cx.progress("asking the weather station");
    Ok(Weather { celsius: ask.city.len() })
}

/// Returns a model that calls for the forecast, and then answers.
fn model() -> Scripted {
    let ask = json!({"type": "tool_call", "tool": "forecast", "args": {"city": "Oslo"}});
    let answer = json!({"type": "final", "content": "4 degrees: take a coat."});
    Scripted::by_prompt([("Oslo".to_owned(), vec![Entry::json(&ask), Entry::json(&answer)])])
}

/// Prints events until one of the given kind has come, or the given number.
#[expect(clippy::print_stdout, reason = "an example shows what it did")]
async fn follow(
    mut subscription: Subscription,
    until: impl Fn(&str) -> bool,
    at_most: usize,
) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
    // Remembers what each call was for, so that its outcome can be summarized in one line.
    let mut summaries = Summaries::default();
    let mut seen = 0;
    while let Some(delivery) = subscription.next().await {
        let record = match delivery? {
            Delivery::Record(record) => record,
            Delivery::Lagged { from, to } => {
                println!("      (too slow: {from} to {to} are read from the log)");
                continue;
            }
            _ => continue,
        };
        // One command appends one record; its events became durable together.
        for row in event_rows(&record) {
            let summary = summaries.of(&row);
            println!("{:>5} {:<18} {summary}", row.position.to_string(), row.kind);
            seen += 1;
            if until(&summary) || seen == at_most {
                return Ok(seen);
            }
        }
    }
    Ok(seen)
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it did")]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let scratch = tempfile::tempdir()?;
    let system = System::builder(scratch.path().join("log"))
        .tool("forecast", "Weather for one city", forecast)
        .infer(model())
        .start()
        .await?;

    // For live display only: pieces may be dropped, and they are not stored.
    let mut live = system.task("coat")?.live();
    let listener = tokio::spawn(async move {
        while let Some(piece) = live.next().await {
            match piece {
                Live::Progress { text, .. } | Live::Delta { text, .. } => println!("      ~ {text}"),
                Live::Lost { pieces } => println!("      ~ ({pieces} pieces were too fast)"),
                _ => {}
            }
        }
    });

    // From version 1, a subscription gives the same events whether it begins before the task or long after
    // its end.
    println!("the task, as it happens:");
    let events = system.subscribe_task("coat", Version(1))?;
    let task = r#"{"id": "coat", "metadata": {"session_id": "demo"}, "messages": [{"role": "user", "parts": [
        {"type": "infer", "content": {"prompt": "Do I need a coat in Oslo?"}}]}]}"#;
    let sent = system.submit(PostedTask::parse(task, &mut Ports::default())?).await?;
    let seen = follow(events, |summary| summary.contains("completed"), usize::MAX).await?;
    println!("{seen} events until it was {}", sent.snapshot().await?.state());

    // Store the position of the last event you processed, and continue after it following a restart.
    println!("\nthe whole log, the conversation's events among the task's:");
    let whole = system.log().head()?.0;
    let all = follow(system.subscribe(Position(1)), |_| false, usize::try_from(whole)?).await?;
    println!("{all} events in all");
    system.shutdown().await?;
    // The live feed ends with the system.
    listener.await?;
    Ok(())
}
