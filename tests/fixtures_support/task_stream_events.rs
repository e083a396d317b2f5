//! Area `task_stream_events`: a run as its subscriber sees it, with the tools and the scripted model of the
//! fixtures' README. The stream is taken before the task is submitted and again after its end.

use std::sync::Arc;

use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::PostedTask;
use taskreel::{BudgetScope, LoopRules, System, TaskEvents};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;

use super::execute_task::{ToolLog, broken, in_time, model, with_tool};
use super::{Case, Failure};

pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    in_time(streamed(case))
}

async fn streamed(case: &Case) -> Result<Value, Failure> {
    let agent = &case.input()["agent"];
    let mut builder = System::builder("in memory")
        .store(Arc::new(MemoryStore::new()))
        .stateless()
        .budget_scope(BudgetScope::Part)
        .loop_rules(LoopRules::Protolink);
    for tool in agent["tools"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        builder = with_tool(builder, tool, &ToolLog::default())?;
    }
    if let Some(model) = model(&agent["llm_script"])? {
        builder = builder.infer(model);
    }
    let system = builder.start().await.map_err(broken)?;
    let text = JsonText::from(case.input()["task"].clone());
    let posted = PostedTask::from_json(&text, &mut Ports::default())?;
    let before = system.task(&posted.id).map_err(broken)?.events().await.map_err(broken)?;
    let task = system.submit(posted).await.map_err(broken)?;
    let events = to_its_end(before).await?;
    let again = to_its_end(task.events().await.map_err(broken)?).await?;
    if events != again {
        return Err(broken(format!("taken when it is over the stream differs: {events:?}, {again:?}")));
    }
    let state = task.finished().await.map_err(broken)?.state();
    system.shutdown().await.map_err(broken)?;
    Ok(json!({"events": events.iter().map(key_fields).collect::<Vec<_>>(), "final_state": state}))
}

async fn to_its_end(mut events: TaskEvents) -> Result<Vec<Value>, Failure> {
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        all.push(event.map_err(broken)?.to_json().tree());
    }
    Ok(all)
}

/// Returns the fields of an event that the recording keeps.
fn key_fields(event: &Value) -> Value {
    let mut kept = event.clone();
    let mut keys: Vec<String> =
        event["metadata"].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
    keys.sort();
    if let Some(kept) = kept.as_object_mut() {
        for dropped in ["event_id", "timestamp", "metadata"] {
            kept.remove(dropped);
        }
        kept.insert("metadata_keys".to_owned(), keys.into());
    }
    kept
}
