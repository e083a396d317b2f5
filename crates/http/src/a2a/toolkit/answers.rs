//! Answers as a model reads them, each within a bound.

use proto_events::json::{JsonMap, JsonValue as Value};
use proto_events::limits::JSON_DEPTH_MAX;
use proto_events::model::python_json::line_characters;
use taskreel_log::artifacts::{
    A2aArtifact, A2aPart, ArtifactForLlm, ArtifactSettings, DataArtifacts, KeyCase, MessageForLlm,
    MinimizeLimits, PartForLlm, TaskForLlm, TextArtifacts, Tips,
};

use crate::a2a::toolkit::convert;
use crate::a2a::toolkit::error::{SessionError, SessionErrorKind};
use crate::a2a::toolkit::session::{SessionAnswer, SessionMessage, SessionTask};
use crate::a2a::toolkit::views::{BETWEEN_TEXTS, levels};
use crate::a2a::toolkit::words::quoted;

/// The advice of minimized artifacts.
const TIPS: Tips<'static> = Tips {
    text: Some("Text was minimized. Call view_text_artifact() to view specific line ranges."),
    data: Some("Data was minimized. Call view_data_artifact() to navigate to specific data."),
};

/// The characters of an answer, beyond which further artifacts and parts are left out.
const ANSWER_MAX: usize = 1_000_000;

/// The levels of an answer, which is the result of a call like any other.
const LEVELS_MAX: usize = JSON_DEPTH_MAX - 1;

/// The work of a tool, as its errors name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolWork {
    Sending,
    Asking,
    ViewingText,
    ViewingData,
    ShowingAgent,
}

impl ToolWork {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Sending => "send message",
            Self::Asking => "get task",
            Self::ViewingText => "view text artifact",
            Self::ViewingData => "view data artifact",
            Self::ShowingAgent => "get agent info",
        }
    }
}

/// Returns the object with an error.
pub(crate) fn error(text: impl Into<String>) -> Value {
    let text: String = text.into();
    JsonMap::from_iter([("error", Value::Bool(true)), ("error_message", Value::from(text))]).into()
}

/// Returns an error as a model reads it: what is wrong, and what to do.
pub(crate) fn refused(failed: &SessionError, doing: ToolWork) -> Value {
    use taskreel_log::artifacts::ArtifactError as Artifact;
    let failed_to = || format!("Failed to {}: {failed}", doing.as_str());
    error(match failed {
        SessionError::UnknownAgent { .. } => format!("{failed} Use get_agents to see available agents."),
        SessionError::Artifact(missing @ Artifact::NoSuchArtifact { .. }) => missing.with_hint(),
        SessionError::Agent(_) if failed.kind() == SessionErrorKind::TimedOut => {
            let how = if doing == ToolWork::Sending {
                "or if a task_id was returned earlier, use get_task to check progress."
            } else {
                "or use get_task again to continue monitoring."
            };
            format!("Request timed out. You can retry with a longer timeout, {how}")
        }
        SessionError::Agent(_)
        | SessionError::Artifact(Artifact::NoFields { .. })
        | SessionError::Store(_) => failed_to(),
        _ => failed.to_string(),
    })
}

/// Returns an answer to a message. It may take long.
pub(crate) fn answer(answer: &SessionAnswer, settings: &ArtifactSettings, case: KeyCase) -> Value {
    match answer {
        SessionAnswer::Task(told) => task(told, settings, case),
        SessionAnswer::Message(told) => {
            let SessionMessage { message, saved } = told.as_ref();
            let mut shown = MessageForLlm::from_message(&convert::message(message), &saved.messages);
            bound(&mut shown, settings, saved.unsaved.get(&message.id));
            within(shown.to_json(case), "parts")
        }
    }
}

/// Returns a task. It may take long.
pub(crate) fn task(told: &SessionTask, settings: &ArtifactSettings, case: KeyCase) -> Value {
    let SessionTask { task, fault, saved } = told;
    let mut whole = convert::task(task);
    let limit = settings.send_message_character_limit().get();
    for artifact in &mut whole.artifacts {
        join_long_texts(artifact, limit);
    }
    let mut shown = TaskForLlm::from_task(&whole, settings, &saved.artifacts, &saved.messages, TIPS);
    for artifact in &mut shown.artifacts {
        tell_unsaved(&mut artifact.parts, saved.unsaved.get(&artifact.artifact_id));
        bound_names(artifact);
    }
    if let (Some(message), Some(given)) = (&mut shown.status.message, &task.status.message) {
        bound(message, settings, saved.unsaved.get(&given.id));
    }
    let mut json = within(shown.to_json(case), "artifacts");
    if let (Some(fault), Some(object)) = (fault, json.as_object_mut()) {
        let note = format!(
            "The task was accepted, but what became of it is not known: {fault}. Use get_task to continue."
        );
        object.insert("_note", note.into());
    }
    json
}

/// Joins the texts of an artifact that is cut as the views join them, so that the ranges of both are the same.
fn join_long_texts(artifact: &mut A2aArtifact, limit: usize) {
    let texts: Vec<&str> = artifact
        .parts
        .iter()
        .filter_map(|part| if let A2aPart::Text(text) = part { Some(text.as_str()) } else { None })
        .collect();
    let characters: usize = texts.iter().map(|text| text.chars().count()).sum();
    if texts.len() < 2 || characters <= limit {
        return;
    }
    let text = texts.join(BETWEEN_TEXTS);
    artifact.parts.retain(|part| !matches!(part, A2aPart::Text(_)));
    artifact.parts.insert(0, A2aPart::Text(text));
}

/// Tells of files that could not be saved why.
fn tell_unsaved(parts: &mut [PartForLlm], why: Option<&String>) {
    let Some(why) = why else { return };
    for part in parts {
        if let PartForLlm::File(file) = part
            && file.bytes.is_some()
        {
            let told = format!("The file could not be saved: {}", quoted(why));
            file.bytes = Some(JsonMap::from_iter([("_error", Value::from(told))]).into());
        }
    }
}

fn bound_names(artifact: &mut ArtifactForLlm) {
    let cut = |text: &mut Option<String>| {
        if let Some(text) = text.as_mut().filter(|text| text.chars().count() > 5_000) {
            *text = quoted(text);
        }
    };
    cut(&mut artifact.name);
    cut(&mut artifact.description);
}

/// Minimizes the parts of a message that are larger than any minimized form.
fn bound(message: &mut MessageForLlm, settings: &ArtifactSettings, unsaved: Option<&String>) {
    tell_unsaved(&mut message.parts, unsaved);
    let cap = settings.send_message_character_limit().cap();
    for part in &mut message.parts {
        match part {
            PartForLlm::Text(part) if part.text.chars().count() > cap => {
                let cut = TextArtifacts::minimize(&part.text, settings.send_message_character_limit(), None);
                part.text = cut.text().to_owned();
            }
            PartForLlm::Data(part) if line_characters(&part.data) > cap => {
                part.data = DataArtifacts::minimize(&part.data, &MinimizeLimits::new(settings)).to_json();
            }
            _ => {}
        }
    }
}

/// Returns an answer whose list of this name has no more items than there is room for, and which no log refuses.
fn within(mut answer: Value, list: &str) -> Value {
    let mut characters = 0;
    let mut left_out = 0;
    if let Some(items) = answer.get_mut(list).and_then(Value::as_array_mut) {
        let all = items.len();
        items.retain(|item| {
            characters += line_characters(item);
            characters <= ANSWER_MAX
        });
        left_out = all - items.len();
    }
    if left_out > 0
        && let Some(object) = answer.as_object_mut()
    {
        object.insert(format!("_{list}_left_out"), left_out.into());
    }
    let levels = levels(&answer);
    if levels > LEVELS_MAX {
        return error(format!("The answer nests {levels} levels deep, and {LEVELS_MAX} can be shown."));
    }
    answer
}
