//! Carrying out an operation.

use proto_events::json::JsonText;
use proto_events::model::AgentCard;
use taskreel::{BudgetUsage, System};

use crate::error::Problem;
use crate::protolink::asked::Asked;
use crate::protolink::operation::Operation;
use crate::protolink::stream::TaskFrames;
use crate::protolink::{cancel, chat, control, pages, stream, tasks};

/// The result of an operation.
pub(crate) enum Outcome {
    /// A value.
    Json(JsonText),
    /// A task at its end, and what it used.
    Task(JsonText, BudgetUsage),
    /// A page.
    Page(String),
    /// The agent has this path, but not with this method.
    OtherMethod,
    /// The events of a task.
    Frames(Box<TaskFrames>),
}

/// Carries out an operation of the agent that a system addresses.
///
/// # Errors
/// [`Problem`] if it was not carried out.
pub(crate) async fn carry_out(
    system: &System,
    operation: Operation,
    asked: Asked,
) -> Result<Outcome, Problem> {
    let system = match &asked.caller {
        Some(caller) => &system.acting_as(caller.principal.clone()),
        None => system,
    };
    Ok(match operation {
        Operation::RunTask => {
            let (task, used) = tasks::run(system, asked).await?;
            Outcome::Task(task, used)
        }
        Operation::CancelTask => Outcome::Json(cancel::cancel(system, asked).await?),
        Operation::StreamTask => Outcome::Frames(Box::new(stream::stream(system, asked).await?)),
        Operation::CompactHistory => Outcome::Json(control::compact_history(system, &asked).await?),
        Operation::DescribeState => Outcome::Json(control::describe(system, &asked).await?),
        Operation::ResetState => Outcome::Json(control::reset(system, &asked).await?),
        Operation::CompactState => Outcome::Json(control::compact(system, &asked).await?),
        Operation::Card => Outcome::Json(card(system, &asked.url).to_json()),
        Operation::StatusPage => Outcome::Page(pages::status(system).await?),
        // Protolink's page of an agent without a model is empty.
        Operation::ChatPage if !has_model(system) => Outcome::Page(String::new()),
        Operation::ChatPage => Outcome::Page(pages::chat(&system.card().name)),
        Operation::Chat if !has_model(system) => Outcome::OtherMethod,
        Operation::Chat => Outcome::Json(chat::chat(system, asked).await?),
    })
}

/// Returns an agent's card. Where the host has set no address, it is the one at which the client found it.
fn card(system: &System, url: &str) -> AgentCard {
    let mut card = system.card();
    if card.url.is_empty() {
        url.clone_into(&mut card.url);
    }
    card
}

/// Whether an agent has a model to talk with.
fn has_model(system: &System) -> bool {
    system.card().capabilities.has_llm
}
