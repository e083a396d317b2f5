//! The request that a backend is sent for an attempt.

use std::sync::Arc;

use proto_events::call::{CallRequested, Selection};
use proto_events::id::Digest;
use proto_events::model::{Artifact, LlmRole};
use proto_events::task::Task;
use taskreel_log::shown::{ImageRef, InferenceMessages, output_schema_of};

use crate::agent::card::Agent;
use crate::models::backend::{Deltas, InferRequest};
use crate::models::message::ChatMessage;
use crate::models::shown_messages::{Messages, UnreadImage};
use crate::run::infer::agent_call;
use crate::run::model_input::shown;
use crate::run::question::TurnView;

/// Returns the messages of the turn that are sent, each with the images that it names.
fn sent_turn(
    shown: &InferenceMessages<'_>,
    selection: Option<&Selection>,
) -> Vec<(ChatMessage, Vec<ImageRef>)> {
    let first = u32::try_from(shown.history.len()).unwrap_or(u32::MAX);
    let mut before = shown.history.last().map(|message| message.role);
    let numbered = (first..).zip(&shown.turn).zip(shown.images());
    let sent = numbered.filter_map(|((number, message), images)| {
        let before = before.replace(message.role);
        let sent = match selection {
            Some(selection) => ChatMessage::selected(message, number, before, selection)?,
            None => ChatMessage::from_message(message),
        };
        Some((sent, images))
    });
    sent.collect()
}

/// Returns the images of messages with the parts of the task that hold them.
fn unread(task: &Task, images: Vec<Vec<ImageRef>>) -> Vec<UnreadImage> {
    let numbered = images.into_iter().enumerate();
    let all = numbered.flat_map(|(message, images)| images.into_iter().map(move |image| (message, image)));
    let unread = all.filter_map(|(message, image)| {
        let is_its = |artifact: &&Artifact| {
            artifact.id.as_ref() == Some(&image.artifact_id)
                && ImageRef::named_in(&artifact.metadata).contains(&image)
        };
        let artifact = task.artifacts().iter().find(is_its)?;
        let part = artifact.parts.get(usize::try_from(image.part).ok()?)?.clone();
        Some(UnreadImage { message, image, part })
    });
    unread.collect()
}

/// Returns the request sent to the backend for an attempt of this inference.
pub(crate) fn infer_request(
    agent: &Agent,
    task: &Task,
    turn_view: Option<TurnView<'_>>,
    call: &CallRequested,
    attempt: u32,
) -> InferRequest {
    // A server's tools may have joined since the intent was written: what is sent is what the intent names.
    let named = call.prompt.as_ref().and_then(|prompt| agent.tools.revision_of(prompt.revision));
    let revision = named.unwrap_or_else(|| agent.tools.revision());
    let output_schema = output_schema_of(&call.args);
    let shown = shown(revision, task, turn_view, call.origin.part, output_schema.as_ref());
    let selection = call.prompt.as_ref().and_then(|prompt| prompt.selection.as_ref());
    let (turn, images) = sent_turn(&shown, selection).into_iter().unzip();
    let system = ChatMessage::new(LlmRole::System, shown.system);
    // Shared, not copied: the backend reads the history on its own thread.
    let history = turn_view.map(|TurnView { session, .. }| {
        (Arc::clone(session.history()), usize::from(session.leading().is_some()))
    });
    // The model that a run began with may have taken images, and the one after a restart may not.
    let takes_images = agent.backend.as_ref().is_some_and(|backend| backend.takes_images);
    let unread = if takes_images { unread(task, images) } else { Vec::new() };
    let messages = Messages::new(system, history, turn, selection.cloned()).with_unread(unread);
    let tools = agent.tools.as_of(revision.number).into_iter().cloned();
    InferRequest {
        messages,
        tools: tools.chain(agent.offers_agent_call().then(agent_call::function)).collect(),
        task_id: task.id().to_owned(),
        session_id: turn_view.map(|turn_view| turn_view.session.id().to_owned()),
        call_id: call.call_id.clone(),
        idempotency_key: call.idempotency_key.clone(),
        attempt,
        output_schema,
        prompt_digest: call.prompt.as_ref().map_or(Digest::default(), |prompt| prompt.digest),
        deltas: Deltas::default(),
    }
}
