//! The area `tools`: the six tools end to end, and what a model reads.

use std::sync::Arc;

use proto_events::json;
use proto_events::json::JsonValue as Value;
use taskreel_http::a2a::{A2aSession, A2aTools, InMemoryTaskStore};
use taskreel_log::artifacts::ArtifactSettings;

use super::script::{Scripted, task};
use super::{Case, Failure, on_own_clock};

pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    on_own_clock(async {
        let script = Scripted::of(case);
        let input = case.input();
        let store = InMemoryTaskStore::new();
        for stored in input["stored_tasks"].as_array().into_iter().flatten() {
            store.put(task(stored)?);
        }
        let setting = |name: &str, default: i64| {
            let given = input["settings"][name].as_i64().unwrap_or(default);
            let negative = |_| Failure::Refused(format!("{name} must be >= 2 (got {given})"));
            usize::try_from(given).map_err(negative)
        };
        let settings = ArtifactSettings::new(
            setting("send_message_character_limit", 50_000)?,
            setting("minimized_object_string_length", 5_000)?,
            setting("view_artifact_character_limit", 50_000)?,
        );
        let settings = settings.map_err(|error| Failure::Refused(error.to_string()))?;
        let session = A2aSession::new(script.agents(case)?).task_store(Arc::new(store));
        let tools = A2aTools::new(session).settings(settings);
        let output = tools.call(case.text("tool")?, &input["args"]).await;
        let calls: Value = script.calls().iter().map(|call| call["method"].clone()).collect();
        Ok(json!({"output": output, "calls": calls}))
    })
}
