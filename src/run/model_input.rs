//! The messages that a model is shown in a run.

use proto_events::call::{CallRequested, PromptRef, Selection};
use proto_events::id::Digest;
use proto_events::json::JsonText;
use proto_events::model::Part;
use proto_events::task::Task;
use taskreel_log::context::ContextError;
use taskreel_log::shown::{
    InferenceMessages, RENDERER_VERSION, for_task, output_schema_of, system_of, with_output_schema,
};

use crate::run::question::{At, Question, TurnView};
use crate::tools::revision::Revision;

/// Returns the output schema that a part asks for; `None` where it is null.
pub(crate) fn output_schema(part: &Part) -> Option<JsonText> {
    part.as_infer().ok().map(|asked| asked.output_schema).filter(|schema| !schema.is_null())
}

/// Returns what the agent's context strategy keeps of the messages of the next inference; `None` if all of them, whole.
///
/// # Errors
/// [`ContextError`] if they cannot be shown.
pub(crate) fn select(
    question: &Question<'_>,
    at: At,
    part: &Part,
) -> Result<Option<Selection>, ContextError> {
    let revision = question.agent.tools.revision();
    let shown = shown(revision, question.task, question.turn_view, at, output_schema(part).as_ref());
    let held_by = match question.turn_view {
        // A history that was rewritten is another conversation to a counter of its messages.
        Some(turn_view) => match turn_view.session.rewrites() {
            0 => turn_view.stream.to_string(),
            rewrites => format!("{} {rewrites}", turn_view.stream),
        },
        None => format!("{} {at}", question.stream),
    };
    question.agent.context.select(&held_by, &shown)
}

/// Names what the model is shown: the end of what was read, the revision of the definition and what was kept, never a
/// copy.
pub(crate) fn prompt_ref(
    question: &Question<'_>,
    at: At,
    parameters: &JsonText,
    tokens: Option<u64>,
    selection: Option<Selection>,
) -> PromptRef {
    let revision = question.agent.tools.revision();
    let schema = output_schema_of(parameters);
    let shown = shown(revision, question.task, question.turn_view, at, schema.as_ref());
    let read = question.turn_view.map_or(question.read, |turn_view| turn_view.read).read_through();
    let all = u32::try_from(shown.count()).unwrap_or(u32::MAX);
    let mut prompt = PromptRef {
        session: question.turn_view.map(|turn_view| turn_view.stream.to_string()),
        read_through: read.version,
        revision: revision.number,
        messages: sent_of(all, selection.as_ref()).unwrap_or(all),
        tokens,
        selection,
        digest: Digest::default(),
        renderer: RENDERER_VERSION,
    };
    prompt.digest = prompt.sent_digest(revision.record, read.digest);
    prompt
}

/// Returns the number of messages that a selection sends of all, the system message included; `None` if it does not fit
/// them.
fn sent_of(all: u32, selection: Option<&Selection>) -> Option<u32> {
    let Some(selection) = selection else { return Some(all) };
    let sizes = selection.sizes.as_ref();
    let kept = selection.count_of(all.saturating_sub(1)).ok()?;
    sizes.is_none_or(|sizes| sizes.messages_before == all).then_some(kept.saturating_add(1))
}

/// Whether the model would be shown now what the intent of this inference names: by the same renderer, of a revision
/// that is in force since the start of this process, of a history that was not rewritten since, and no other messages.
pub(crate) fn is_still_shown(question: &Question<'_>, call: &CallRequested) -> bool {
    let Some(prompt) = &call.prompt else { return true };
    let Some(revision) = question.agent.tools.revision_of(prompt.revision) else { return false };
    let rewritten_at = question.turn_view.map(|turn_view| turn_view.session.rewritten_at());
    if rewritten_at.is_some_and(|at| at > prompt.read_through) {
        return false;
    }
    let schema = output_schema_of(&call.args);
    let shown = shown(revision, question.task, question.turn_view, call.origin.part, schema.as_ref());
    let all = u32::try_from(shown.count()).unwrap_or(u32::MAX);
    prompt.renderer == RENDERER_VERSION && sent_of(all, prompt.selection.as_ref()) == Some(prompt.messages)
}

/// Returns what the model is shown for this part: in a conversation the history and all messages of the run's
/// turn, otherwise only the messages of the part itself.
pub(crate) fn shown<'a>(
    revision: &Revision,
    task: &'a Task,
    turn_view: Option<TurnView<'a>>,
    at: At,
    schema: Option<&JsonText>,
) -> InferenceMessages<'a> {
    let kept = turn_view.and_then(|turn_view| system_of(turn_view.session));
    let text = kept.map_or_else(|| for_task(&revision.system, task), |message| message.content.clone());
    let system = schema.map_or_else(|| text.clone(), |schema| with_output_schema(&text, schema));
    match turn_view {
        Some(turn_view) => InferenceMessages::in_session(turn_view.session, system),
        None => InferenceMessages::in_task(task, at, system),
    }
}
