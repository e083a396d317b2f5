//! The areas of artifacts, messages and tasks as a model is shown them.

use proto_events::json::JsonValue as Value;
use taskreel_log::artifacts::{
    A2aArtifact, A2aMessage, A2aTask, ArtifactForLlm, ArtifactSettings, KeyCase, MessageForLlm, SavedFiles,
    TaskForLlm, Tips,
};

use super::{Case, Failure, within_caps};

/// The advice of the recorded session.
const TIPS: Tips<'static> = Tips {
    text: Some("Text was minimized. Call view_text_artifact() to view specific line ranges."),
    data: Some("Data was minimized. Call view_data_artifact() to navigate to specific data."),
};

fn saved(paths: &Value) -> SavedFiles {
    let texts = |list: &Value| {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    paths.as_object().into_iter().flatten().map(|(id, list)| (id.clone(), texts(list))).collect()
}

pub(crate) fn minimize_artifacts(case: &Case) -> Result<Value, Failure> {
    let artifacts = case.input()["artifacts"].as_array().into_iter().flatten().map(A2aArtifact::from_json);
    let artifacts = artifacts.collect::<Result<Vec<_>, _>>()?;
    let limit = case.characters("character_limit", 50_000)?;
    let string_length = case.characters("minimized_object_string_length", 5_000)?;
    let settings = ArtifactSettings::new(limit, string_length, 50_000).map_err(|error| {
        Failure::Refused(error.to_string().replace("send_message_character_limit", "character_limit"))
    })?;
    let tips = Tips { text: case.input()["text_tip"].as_str(), data: case.input()["data_tip"].as_str() };
    let saved = saved(&case.input()["saved_file_paths"]);
    let shown = taskreel_log::artifacts::minimize_artifacts(&artifacts, &settings, &saved, tips);
    let shown = shown.iter().map(|artifact: &ArtifactForLlm| artifact.to_json(KeyCase::Snake)).collect();
    Ok(within_caps(&case.whole["expected"], shown))
}

pub(crate) fn task_for_llm(case: &Case) -> Result<Value, Failure> {
    let input = case.input();
    let is_0_2_0 = case.whole["version"] == "0.2.0";
    let files = |key: &str| {
        let given = saved(&input[key]);
        if input["file_store"] == true { given } else { SavedFiles::new() }
    };
    let message_files = files("saved_message_paths");
    if !input["message"].is_null() {
        let message = MessageForLlm::from_message(&A2aMessage::from_json(&input["message"])?, &message_files);
        let message = if is_0_2_0 { message.without_files() } else { message };
        return Ok(message.to_json(KeyCase::Snake));
    }
    let task = A2aTask::from_json(&input["task"])?;
    let setting = |key: &str, default: usize| {
        input["settings"][key].as_u64().map_or(default, |given| usize::try_from(given).unwrap_or(usize::MAX))
    };
    let settings = ArtifactSettings::new(
        setting("send_message_character_limit", 50_000),
        setting("minimized_object_string_length", 5_000),
        setting("view_artifact_character_limit", 50_000),
    )?;
    let shown = TaskForLlm::from_task(&task, &settings, &files("saved_artifact_paths"), &message_files, TIPS);
    // 0.2.0 answers in the conversation that the recorded session named when it sent its message.
    let shown = if is_0_2_0 { shown.as_answered_by_0_2_0("ctx-sent".to_owned()) } else { shown };
    Ok(within_caps(&case.whole["expected"], shown.to_json(KeyCase::Snake)))
}
