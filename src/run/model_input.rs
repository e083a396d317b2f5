//! The messages that a model is shown in a run.

use proto_events::call::{CallRequested, PromptRef};
use proto_events::json::JsonText;
use proto_events::model::Part;
use proto_events::task::Task;
use taskreel_log::shown::{
    RENDERER_VERSION, Shown, for_task, output_schema_of, system_of, with_output_schema,
};

use crate::run::question::{At, Question, TurnView};
use crate::tools::revision::Revision;

/// Returns the output schema that a part asks for; `None` where it is null.
pub(crate) fn output_schema(part: &Part) -> Option<JsonText> {
    part.as_infer().ok().map(|asked| asked.output_schema).filter(|schema| !schema.is_null())
}

/// Names what the model is shown: the end of what was read and the revision of the definition, never a copy.
pub(crate) fn prompt_ref(
    question: &Question<'_>,
    at: At,
    parameters: &JsonText,
    tokens: Option<u64>,
) -> PromptRef {
    let revision = question.agent.tools.revision();
    let schema = output_schema_of(parameters);
    let shown = shown(revision, question.task, question.turn_view, at, schema.as_ref());
    let read = question.turn_view.map_or(question.read, |turn_view| turn_view.read).read_through();
    PromptRef {
        session: question.turn_view.map(|turn_view| turn_view.stream.to_string()),
        read_through: read.version,
        revision: revision.number,
        messages: u32::try_from(shown.count()).unwrap_or(u32::MAX),
        tokens,
        selection: None,
        digest: PromptRef::digest_of(RENDERER_VERSION, revision.record, read.digest),
        renderer: RENDERER_VERSION,
    }
}

/// Whether the model would be shown now what the intent of this inference names: by the same renderer, of a revision
/// that is in force since the start of this process, and no other messages.
pub(crate) fn is_still_shown(question: &Question<'_>, call: &CallRequested) -> bool {
    let Some(prompt) = &call.prompt else { return true };
    let Some(revision) = question.agent.tools.revision_of(prompt.revision) else { return false };
    let schema = output_schema_of(&call.args);
    let shown = shown(revision, question.task, question.turn_view, call.origin.part, schema.as_ref());
    prompt.renderer == RENDERER_VERSION && u32::try_from(shown.count()) == Ok(prompt.messages)
}

/// Returns what the model is shown for this part: in a conversation the history and all messages of the run's
/// turn, otherwise only the messages of the part itself.
pub(crate) fn shown<'a>(
    revision: &Revision,
    task: &'a Task,
    turn_view: Option<TurnView<'a>>,
    at: At,
    schema: Option<&JsonText>,
) -> Shown<'a> {
    let kept = turn_view.and_then(|turn_view| system_of(turn_view.session));
    let text = kept.map_or_else(|| for_task(&revision.system, task), |message| message.content.clone());
    let system = schema.map_or_else(|| text.clone(), |schema| with_output_schema(&text, schema));
    match turn_view {
        Some(turn_view) => Shown::in_session(turn_view.session, system),
        None => Shown::in_task(task, at, system),
    }
}
