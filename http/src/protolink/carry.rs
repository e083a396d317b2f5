//! Carrying out an operation.

use proto_events::json::JsonText;
use taskreel::System;

use crate::error::Problem;
use crate::protolink::asked::Asked;
use crate::protolink::operation::Operation;
use crate::protolink::stream::TaskFrames;
use crate::protolink::{cancel, chat, pages, stream, tasks};

/// What comes of an operation.
pub(crate) enum Outcome {
    /// A value.
    Json(JsonText),
    /// A page.
    Page(String),
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
        Operation::RunTask => Outcome::Json(tasks::run(system, asked).await?),
        Operation::CancelTask => Outcome::Json(cancel::cancel(system, asked).await?),
        Operation::StreamTask => Outcome::Frames(Box::new(stream::stream(system, asked).await?)),
        Operation::StatusPage => Outcome::Page(pages::status(system).await?),
        Operation::ChatPage => Outcome::Page(pages::chat(&system.metrics().await?.agent)),
        Operation::Chat => Outcome::Json(chat::chat(system, asked).await?),
    })
}
