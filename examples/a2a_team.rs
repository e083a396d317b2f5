//! Three agents that delegate over A2A, each with a log and a server of its own, as in three programs: an editor asks a
//! writer, who asks a researcher with a tool. The id of the other agent's task stands in the log of the one that asks, so that a
//! restart takes that task up again and sends nothing twice.
//!
//! `cargo run -p taskreel-http --example a2a_team`. The models play fixed replies here.
#![expect(clippy::print_stdout, reason = "an example shows what it did")]

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use taskreel::infer::{Entry, Scripted};
use taskreel::{JsonSchema, Part, System};
use taskreel_http::a2a::Remote;
use taskreel_http::{A2a, RunningServer, Server};

type Failure = Box<dyn std::error::Error>;

#[derive(Deserialize, JsonSchema)]
struct Topic {
    topic: String,
}

async fn look_up(ask: Topic) -> Result<String, Infallible> {
    Ok(format!("{}: up to 45 kg, and 100,000 hairs on a square centimetre", ask.topic))
}

/// A reply that asks another agent.
fn ask(agent: &str, prompt: &str) -> Entry {
    Entry::json(&json!({"type": "agent_call", "agent": agent, "action": "infer", "prompt": prompt}))
}

/// A reply that ends an agent's work.
fn answer(text: &str) -> Entry {
    Entry::json(&json!({"type": "final", "content": text}))
}

/// Serves a system's agent over A2A, and returns the address.
async fn served(system: &System) -> Result<(RunningServer, String), Failure> {
    let handler = Arc::new(A2a::new(system.clone()));
    let serving = Server::new().mount("/", handler).start("127.0.0.1:0").await?;
    let url = format!("http://{}", serving.address());
    Ok((serving, url))
}

async fn researcher(dir: &Path) -> Result<System, Failure> {
    let replies = [
        Entry::json(&json!({"type": "tool_call", "tool": "look_up", "args": {"topic": "sea otter"}})),
        answer("Up to 45 kg; 100,000 hairs on a square centimetre, more than any other animal."),
    ];
    let builder = System::builder(dir.join("researcher")).name("researcher").description("Finds facts");
    Ok(builder.tool("look_up", "Facts about a topic", look_up).infer(Scripted::new(replies)).start().await?)
}

async fn writer(dir: &Path, researcher: Remote) -> Result<System, Failure> {
    let replies = [
        ask("researcher", "What is known about the fur of sea otters?"),
        answer("No animal has thicker fur than the sea otter."),
    ];
    let builder = System::builder(dir.join("writer")).name("writer").description("Writes sentences");
    Ok(builder.infer(Scripted::new(replies)).peer(researcher).start().await?)
}

async fn editor(dir: &Path, writer: Remote) -> Result<System, Failure> {
    let replies = [
        ask("writer", "A sentence about the fur of sea otters, please."),
        answer("For the front page: no animal has thicker fur than the sea otter."),
    ];
    let builder = System::builder(dir.join("editor")).name("editor").infer(Scripted::new(replies));
    Ok(builder.peer(writer).start().await?)
}

/// Prints the tasks of an agent with what each asked for.
async fn show(system: &System) -> Result<(), Failure> {
    for task in system.tasks().newest(None, 10).await?.tasks {
        let task = system.task(&task.id)?.snapshot().await?;
        let said = task.answer().map(ToString::to_string).unwrap_or_default();
        let asked: Vec<_> = task.task().calls().iter().map(|call| call.request.target.clone()).collect();
        println!("{} is {}, asked {asked:?}: {said}", system.agent_name(), task.state());
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let scratch = tempfile::tempdir()?;
    let researcher = researcher(scratch.path()).await?;
    let (researcher_server, url) = served(&researcher).await?;
    let writer = writer(scratch.path(), Remote::at(&url).named("researcher")).await?;
    let (writer_server, url) = served(&writer).await?;
    let editor = editor(scratch.path(), Remote::at(&url).named("writer")).await?;

    let task = editor.submit(Part::infer("Write about sea otters.")).await?;
    task.finished().await?;
    for system in [&editor, &writer, &researcher] {
        show(system).await?;
    }
    writer_server.stop().await?;
    researcher_server.stop().await?;
    for system in [editor, writer, researcher] {
        system.shutdown().await?;
    }
    Ok(())
}
