//! A model of your own: anything that answers a conversation with an action. This one is a rule-based "model"
//! that works without a network; a real one sends a request instead. The requirements of the trait:
//!
//! * one call of `infer` is one attempt. Do not retry in it: report the failure as transient, and the next
//!   attempt is in the log, with its back-off;
//! * the whole reply is returned at once and becomes one event;
//! * the tokens it cost go into `usage`, and are summed up from the log.
//!
//! A server that speaks `OpenAI`'s chat completions needs no backend of your own: `infer::OpenAiCompatible`, with the
//! feature `openai`.
//!
//! `cargo run --example custom_backend`

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use taskreel::infer::{InferBackend, InferError, InferErrorKind, InferReply, InferRequest};
use taskreel::proto_events::call::TokenUsage;
use taskreel::tool::{BoxFuture, ToolPolicy};
use taskreel::{JsonSchema, Part, System};

/// A model that calls for a sum when asked for one, and reports the result.
#[derive(Default)]
struct Clerk {
    /// A flag set once the model has been overloaded, as real models are.
    was_busy: AtomicBool,
}

impl InferBackend for Clerk {
    fn backend(&self) -> &'static str {
        "rules"
    }

    fn model(&self) -> &'static str {
        "clerk-1"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let busy = !self.was_busy.swap(true, Ordering::Relaxed);
        // The future owns what it needs: it is dropped when the call is canceled or takes too long.
        Box::pin(async move {
            if busy {
                // The provider's delay is respected; without one the delay doubles with each attempt.
                let kind = InferErrorKind::Transient { retry_after: Some(Duration::from_millis(20)) };
                return Err(InferError::new(kind, "Busy", "try again in 20 ms"));
            }
            Ok(InferReply {
                content: answer(&request),
                usage: Some(cost(&request)),
                model: "clerk-1".to_owned(),
                ..InferReply::default()
            })
        })
    }
}

/// Returns the action that follows from the conversation: one JSON object in Protolink's grammar.
fn answer(request: &InferRequest) -> String {
    let last = request.messages.last().map(|message| message.content.as_str()).unwrap_or_default();
    let result = serde_json::from_str::<serde_json::Value>(last).ok();
    let action = if let Some(result) = result.as_ref().and_then(|result| result.get("result")) {
        json!({"type": "final", "content": format!("That makes {}.", result["sum"])})
    } else {
        let numbers: Vec<i64> = last.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        json!({"type": "tool_call", "tool": "add", "args": {"numbers": numbers}})
    };
    action.to_string()
}

/// Returns the cost, counted in words here; real models report it themselves.
fn cost(request: &InferRequest) -> TokenUsage {
    let words =
        request.messages.iter().map(|message| message.content.split_whitespace().count()).sum::<usize>();
    TokenUsage { input_tokens: u64::try_from(words).unwrap_or(u64::MAX), output_tokens: 5 }
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    numbers: Vec<i64>,
}

#[derive(Serialize)]
struct Sum {
    sum: i64,
}

async fn add(ask: Add) -> Result<Sum, std::convert::Infallible> {
    Ok(Sum { sum: ask.numbers.iter().sum() })
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example shows what it did")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let system = System::builder(scratch.path().join("log"))
        .tool_with("add", "Adds numbers", add, ToolPolicy::read_only())
        .infer(Clerk::default())
        .start()
        .await?;
    let sent = system.session("demo").send(Part::infer("Please add 17 and 25 and 58")).await?;
    let task = sent.finished().await?;
    println!("{}: {}", task.state(), task.answer().map_or("no answer", |answer| answer.as_str()));
    for call in task.task().calls().iter() {
        let used = call.usage.map_or_else(String::new, |used| {
            format!(", {} tokens in, {} out", used.input_tokens, used.output_tokens)
        });
        println!("  {:<15} attempts {}, {}{used}", call.request.target, call.attempts, call.status.as_str());
    }
    system.shutdown().await?;
    Ok(())
}
