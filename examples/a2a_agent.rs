//! An agent with two tools that every client of A2A reaches: over JSON-RPC and REST at one address, in the versions 1.0 and 0.3,
//! and over gRPC at a port of its own, which the card names. Each question is a task in the log, whatever way it came, and each call
//! of a tool stands there.
//!
//! `cargo run -p taskreel-http --example a2a_agent` asks the agent over each way and ends; `-- --serve` runs until you press
//! Enter, for clients of yours. The model plays fixed replies here.
#![expect(clippy::print_stdout, reason = "an example shows what it did")]

use std::convert::Infallible;
use std::sync::Arc;

use a2a_client::A2AClient;
use a2a_grpc::GrpcTransport;
use serde::Deserialize;
use serde_json::json;
use taskreel::infer::{Entry, Scripted};
use taskreel::{JsonSchema, System};
use taskreel_http::a2a::{Binding, Client, Content, Event, Message, Options, Part, SendRequest};
use taskreel_http::{A2a, Server};

type Failure = Box<dyn std::error::Error>;

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

async fn weather(ask: City) -> Result<String, Infallible> {
    Ok(format!("{}: 4 degrees, rain", ask.city))
}

#[derive(Deserialize, JsonSchema)]
struct Celsius {
    degrees: f64,
}

async fn fahrenheit(ask: Celsius) -> Result<f64, Infallible> {
    Ok(ask.degrees * 1.8 + 32.0)
}

/// The model's replies to one question: a call of each tool, then the answer.
fn replies() -> [Entry; 3] {
    [
        Entry::json(&json!({"type": "tool_call", "tool": "weather", "args": {"city": "Oslo"}})),
        Entry::json(&json!({"type": "tool_call", "tool": "fahrenheit", "args": {"degrees": 4.0}})),
        Entry::json(&json!({"type": "final", "content": "It rains in Oslo, at 39 degrees Fahrenheit."})),
    ]
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let is_served = std::env::args().any(|argument| argument == "--serve");
    let scratch = tempfile::tempdir()?;
    let questions = if is_served { 1_000 } else { 3 };
    let system = System::builder(scratch.path().join("log"))
        .name("forecaster")
        .description("Knows the weather")
        .tool("weather", "The weather in a city, in degrees Celsius", weather)
        .tool("fahrenheit", "Degrees Celsius in Fahrenheit", fahrenheit)
        .infer(Scripted::new((0..questions).flat_map(|_| replies())))
        .start()
        .await?;

    let a2a = A2a::new(system.clone());
    let grpc = Server::new().mount("/", Arc::new(a2a.grpc())).start_grpc("127.0.0.1:0").await?;
    a2a.grpc_at(&grpc.address().to_string());
    let http = Server::new().mount("/", Arc::new(a2a)).start("127.0.0.1:0").await?;
    let url = format!("http://{}", http.address());

    if is_served {
        println!("A2A at {url}, over gRPC at {}; press Enter to end", grpc.address());
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    } else {
        println!("over JSON-RPC: {}", ask(&url, Binding::JsonRpc).await?);
        println!("over REST:     {}", ask(&url, Binding::HttpJson).await?);
        println!("over gRPC:     {}", ask_over_grpc(&grpc.address().to_string()).await?);
        let tasks = system.tasks().newest(None, 10).await?;
        println!("{} tasks in the log, each with its calls:", tasks.total);
        for task in &tasks.tasks {
            let task = system.task(&task.id)?.snapshot().await?;
            let calls: Vec<_> = task.task().calls().iter().map(|call| call.request.target.clone()).collect();
            println!("  {} is {}: {}", task.task().id(), task.state(), calls.join(", "));
        }
    }
    http.stop().await?;
    grpc.stop().await?;
    system.shutdown().await?;
    Ok(())
}

/// Asks with our own client, which reads the card first.
async fn ask(url: &str, binding: Binding) -> Result<String, Failure> {
    let client = Client::discover(url, &Options::new().binding(binding)).await?;
    let message = Message::user("m1", vec![Part::text("How is the weather in Oslo?")]);
    let Event::Task(task) = client.send(&SendRequest::new(message)).await? else {
        return Err("the answer is no task".into());
    };
    let parts = task.artifacts.iter().flatten().flat_map(|artifact| &artifact.parts);
    let texts = parts.filter_map(|part| match &part.content {
        Content::Text(text) => Some(text.as_str()),
        _ => None,
    });
    Ok(texts.collect())
}

/// Asks with the official client of A2A for Rust.
async fn ask_over_grpc(address: &str) -> Result<String, Failure> {
    let client = A2AClient::new(GrpcTransport::connect(address).await?);
    let message = a2a::Message::new(a2a::Role::User, vec![a2a::Part::text("How is the weather in Oslo?")]);
    let request = a2a::SendMessageRequest { message, configuration: None, metadata: None, tenant: None };
    let a2a::SendMessageResponse::Task(task) = client.send_message(&request).await? else {
        return Err("the answer is no task".into());
    };
    let parts = task.artifacts.iter().flatten().flat_map(|artifact| &artifact.parts);
    Ok(parts.filter_map(a2a::Part::as_text).collect())
}
