//! Carrying out an operation.

use proto_events::json::JsonText;
use proto_events::model::AgentCard;
use taskreel::{BudgetUsage, System};

use crate::error::Problem;
use crate::protolink::operation::AgentOperation;
use crate::protolink::operation_input::OperationInput;
use crate::protolink::stream::TaskFrames;
use crate::protolink::{cancel, chat, control, pages, stream, tasks};

/// The result of an operation.
pub(crate) enum CarryOutcome {
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
    operation: AgentOperation,
    asked: OperationInput,
) -> Result<CarryOutcome, Problem> {
    let system = match &asked.caller {
        Some(caller) => &system.acting_as(caller.principal.clone()),
        None => system,
    };
    Ok(match operation {
        AgentOperation::RunTask => {
            let (task, used) = tasks::run(system, asked).await?;
            CarryOutcome::Task(task, used)
        }
        AgentOperation::CancelTask => CarryOutcome::Json(cancel::cancel(system, asked).await?),
        AgentOperation::StreamTask => CarryOutcome::Frames(Box::new(stream::stream(system, asked).await?)),
        AgentOperation::CompactHistory => CarryOutcome::Json(control::compact_history(system, &asked).await?),
        AgentOperation::DescribeState => CarryOutcome::Json(control::describe(system, &asked).await?),
        AgentOperation::ResetState => CarryOutcome::Json(control::reset(system, &asked).await?),
        AgentOperation::CompactState => CarryOutcome::Json(control::compact(system, &asked).await?),
        AgentOperation::Card => CarryOutcome::Json(card(system, &asked.url).to_json()),
        AgentOperation::StatusPage => CarryOutcome::Page(pages::status(system).await?),
        // Protolink's page of an agent without a model is empty.
        AgentOperation::ChatPage if !has_model(system) => CarryOutcome::Page(String::new()),
        AgentOperation::ChatPage => CarryOutcome::Page(pages::chat(&system.card().name)),
        AgentOperation::Chat if !has_model(system) => CarryOutcome::OtherMethod,
        AgentOperation::Chat => CarryOutcome::Json(chat::chat(system, asked).await?),
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
