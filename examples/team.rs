//! A team: an editor that answers people, and two agents that it asks. The writer asks the researcher too, who has a tool of
//! its own. Each question is a task of the agent that is asked, in the same log, and a recorded call of the agent that
//! asks: after a crash the work goes on where it stood, and a cancel of the editor's task cancels the rest. `cargo run
//! --example team`
//!
//! The models play fixed replies here. Agents of other programs join a team by `Builder::peer`, or through a registry.

use std::convert::Infallible;

use serde::Deserialize;
use serde_json::{Value, json};
use taskreel::infer::{Entry, Scripted};
use taskreel::{BoxFuture, JsonSchema, Part, System};

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

/// Prints a task and, below it, the tasks that it sent to other agents.
#[expect(clippy::print_stdout, reason = "an example shows what it did")]
fn show<'a>(system: &'a System, id: &'a str, depth: usize) -> BoxFuture<'a, Result<(), Failure>> {
    Box::pin(async move {
        let task = system.task(id)?.snapshot().await?;
        let said = task.answer().map(ToString::to_string).unwrap_or_default();
        println!("{:indent$}{} is {}: {said}", "", system.agent_name(), task.state(), indent = 2 * depth);
        for call in task.task().calls().iter() {
            let Some(agent) = system.agent(&call.request.target) else { continue };
            let intent: Value = serde_json::from_str(call.request.args.as_str())?;
            if let Some(id) = intent.pointer("/task/id").and_then(Value::as_str) {
                show(&agent, id, depth + 1).await?;
            }
        }
        Ok(())
    })
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let scratch = tempfile::tempdir()?;
    let system = System::builder(scratch.path().join("log"))
        .name("editor")
        .infer(Scripted::new([
            ask("researcher", "What is known about sea otters?"),
            ask("writer", "A sentence about the fur of sea otters, please."),
            answer("Sea otters weigh up to 45 kg. No animal has thicker fur."),
        ]))
        .delegates_to(["researcher", "writer"])
        .agent("researcher", |agent| {
            agent.description("Finds facts").tool("look_up", "Facts about a topic", look_up).infer(
                Scripted::new([
                    Entry::json(
                        &json!({"type": "tool_call", "tool": "look_up", "args": {"topic": "sea otter"}}),
                    ),
                    answer("Up to 45 kg; 100,000 hairs on a square centimetre."),
                    answer("Yes: no other animal has as many."),
                ]),
            )
        })
        .agent("writer", |agent| {
            agent
                .description("Writes sentences")
                .infer(Scripted::new([
                    ask("researcher", "Is their fur the thickest of all?"),
                    answer("No animal has thicker fur than the sea otter."),
                ]))
                .delegates_to(["researcher"])
        })
        .start()
        .await?;
    let task = system.submit(Part::infer("Write about sea otters.")).await?;
    task.finished().await?;
    show(&system, task.id(), 0).await?;
    system.shutdown().await?;
    Ok(())
}
