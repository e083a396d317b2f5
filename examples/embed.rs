//! The README's embedding example as a program: one tool, one scripted model, one question. It needs no key
//! and no network. `cargo run --example embed` keeps its log in a temporary directory; `cargo run --example
//! embed -- ./log` keeps it in `./log`, where a second run continues the same conversation.
//!
//! For a real model, add the feature `openai` and replace `Scripted` with
//! `infer::OpenAiCompatible::new("http://127.0.0.1:11434/v1", "qwen3")`.

use serde::{Deserialize, Serialize};
use serde_json::json;
use taskreel::infer::{Entry, Scripted};
use taskreel::{JsonSchema, Part, System};

/// The arguments of a forecast. Its JSON Schema is shown to the model.
#[derive(Deserialize, JsonSchema)]
struct Forecast {
    /// City, as a person would say it.
    city: String,
}

/// The result of the tool.
#[derive(Serialize)]
struct Weather {
    celsius: usize,
}

async fn forecast(ask: Forecast) -> Result<Weather, std::io::Error> {
    Ok(Weather { celsius: ask.city.len() })
}

/// Returns a model that calls for the forecast, and then answers.
fn model() -> Scripted {
    let ask = json!({"type": "tool_call", "tool": "forecast", "args": {"city": "Oslo"}});
    let answer = json!({"type": "final", "content": "4 degrees: take a coat."});
    let replies = vec![Entry::json(&ask), Entry::json(&answer)];
    Scripted::by_prompt([("Oslo".to_owned(), replies)])
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it did")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let log = std::env::args_os().nth(1).map_or_else(|| scratch.path().join("log"), std::path::PathBuf::from);

    let system = System::builder(&log)
        .tool("forecast", "Weather for one city", forecast)
        .infer(model())
        .start()
        .await?;
    let sent = system.session("demo").send(Part::infer("Do I need a coat in Oslo?")).await?;
    let task = sent.finished().await?;
    println!("{} after {} events", task.state(), task.version());
    if let Some(answer) = task.answer() {
        println!("{answer}");
    }
    let said = system.session("demo").history().await?;
    println!("{} messages in the conversation", said.as_slice().len());
    system.shutdown().await?;
    Ok(())
}
