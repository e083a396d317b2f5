//! Area `state_control_plane`: a system over a log that holds the conversations of Protolink's storage; one request to its
//! control plane.

use std::sync::Arc;

use proto_events::codec::Storable as _;
use proto_events::codec::record::{EventBody, RecordDraft};
use proto_events::decider::Decider as _;
use proto_events::envelope::Metadata;
use proto_events::id::{Digest, ExpectedVersion, StreamId, Version};
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::{
    ConversationHistory, HistoryCompactionRequest, LlmMessage, LlmRole, StateOperationRequest,
};
use proto_events::session::{Session, SessionCommand};
use proto_events::turn::TurnMessage;
use taskreel::approval::CapabilityPolicy;
use taskreel::state::{StateModule, StateModules};
use taskreel::{Error, System};
use taskreel_log::api::{Append, AppendPart, EventStore};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;

use super::execute_task::{broken, in_time, model};
use super::{Case, Failure};

/// The agent's name; its conversations stand in streams of that name.
const AGENT: &str = "agent";

pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    in_time(run(case))
}

async fn run(case: &Case) -> Result<Value, Failure> {
    let input = case.input();
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let stored = JsonText::from(input["storage_before"].clone());
    let sessions: Vec<(String, JsonText)> = match stored.read::<proto_events::json::JsonObject>() {
        Ok(sessions) => sessions.iter().map(|(id, text)| (id.to_owned(), text.clone())).collect(),
        Err(_) => Vec::new(),
    };
    for (id, messages) in &sessions {
        let history = ConversationHistory::from_json(messages, &mut Ports::default())?;
        seed(store.as_ref(), id, &history).await?;
    }
    let mut builder =
        System::builder("in memory").name(AGENT).store(Arc::clone(&store)).state(modules(&input["enabled"]));
    if input["has_llm"] == json!(true) {
        let script = input["llm_script"].as_array().into_iter().flatten();
        let entries: Vec<Value> = script.cloned().collect();
        builder = builder.infer(model(&entries.into())?.ok_or_else(|| broken("no script"))?);
    }
    let rules = JsonText::from(input["policy_rules"].clone()).read().unwrap_or_default();
    builder = builder.capability_policy(CapabilityPolicy::from_json(&rules).map_err(broken)?);
    let system = builder.start().await.map_err(broken)?;
    let mut answer = match operate(&system, input).await {
        Ok(result) => json!({"result": result}),
        Err(error) => json!({"raised": raised(&error)?}),
    };
    answer["storage_after"] = storage(&system, input, &sessions).await?;
    system.shutdown().await.map_err(broken)?;
    Ok(answer)
}

fn modules(enabled: &Value) -> StateModules {
    let named = enabled.as_array().into_iter().flatten().filter_map(Value::as_str);
    named.filter_map(StateModule::named).fold(StateModules::none(), StateModules::with)
}

async fn operate(system: &System, input: &Value) -> Result<Value, Error> {
    let request = match &input["request"] {
        Value::Null => JsonText::empty_object(),
        given => JsonText::from(given.clone()),
    };
    if input["op"] == json!("compact_history") {
        let request = HistoryCompactionRequest::from_json(&request)?;
        return Ok(system.compact_history(&request).await?.to_json().tree());
    }
    let request = StateOperationRequest::from_json(&request)?;
    let state = system.state();
    let result = match input["op"].as_str() {
        Some("describe_state") => state.describe(&request).await?,
        Some("reset_state") => state.reset(&request).await?,
        _ => state.compact(&request).await?,
    };
    Ok(result.to_json().tree())
}

/// Returns an error under the name of the exception that Protolink raises.
fn raised(error: &Error) -> Result<Value, Failure> {
    let kind = match error {
        Error::ActionDenied { .. } => "ActionDeniedError",
        Error::ApprovalRequired { .. } => "ApprovalRequiredError",
        Error::NoModel => "RuntimeError",
        Error::Model(_) => "ValueError",
        other => return Err(broken(other)),
    };
    Ok(json!({"type": kind, "message": error.to_string()}))
}

/// Returns the ids of the messages of each conversation that has a history; null if none has and there was a reset of all.
async fn storage(system: &System, input: &Value, before: &[(String, JsonText)]) -> Result<Value, Failure> {
    let mut ids: Vec<String> = before.iter().map(|(id, _)| id.clone()).collect();
    ids.extend(input["request"]["session_id"].as_str().map(str::to_owned).filter(|id| !ids.contains(id)));
    let mut after = json!({});
    for id in ids {
        let history = system.session(&id).history().await.map_err(broken)?;
        if history.is_empty() {
            continue;
        }
        let shown = |message: &LlmMessage| -> Value {
            if message.metadata.get("protolink_history_compaction").is_some() {
                return json!({"summary": message.content});
            }
            message.id.as_str().into()
        };
        after[id.as_str()] = history.as_slice().iter().map(shown).collect::<Vec<_>>().into();
    }
    let is_empty = after.as_object().is_none_or(proto_events::json::JsonMap::is_empty);
    // Protolink's storage is one value, which a reset of all deletes.
    Ok(if is_empty { Value::Null } else { after })
}

/// Writes a conversation as one turn that was committed.
async fn seed(store: &dyn EventStore, id: &str, history: &ConversationHistory) -> Result<(), Failure> {
    let (messages, mut session) = (history.as_slice(), Session::default());
    let leading = messages.first().filter(|first| first.role == LlmRole::System);
    let leading = leading.cloned().ok_or_else(|| broken("the history has no system message"))?;
    let turn_id = "turn_1".to_owned();
    let mut commands = vec![SessionCommand::StartTurn {
        session_id: id.to_owned(),
        turn_id: turn_id.clone(),
        task: format!("task-{AGENT}/seed"),
        system_prompt: leading,
    }];
    commands.extend(messages.iter().skip(1).map(|message| SessionCommand::AppendMessage {
        turn_id: turn_id.clone(),
        message: TurnMessage {
            message: message.clone(),
            part: 0,
            infer_call: None,
            asks: Vec::new(),
            answers: None,
        },
    }));
    commands.push(SessionCommand::CommitTurn { turn_id });
    let mut events = Vec::new();
    for command in commands {
        for event in session.decide(command).map_err(broken)? {
            session.evolve(&event, &Metadata::default());
            let payload = event.encode().map_err(broken)?;
            let (kind, schema, body) = (payload.kind, payload.schema, payload.body);
            events.push(EventBody { kind, schema, salt: [0; 16], body });
        }
    }
    let (fence, set_id) = (store.fence(), Ports::default().ids.random());
    let stream = StreamId::session(AGENT, id).map_err(broken)?;
    let draft = RecordDraft {
        stream: stream.clone(),
        first_version: Version(1),
        set_id,
        part: 0,
        parts: 1,
        partition: fence.partition,
        epoch: fence.epoch,
        metadata: std::borrow::Cow::Owned(Metadata::default()),
        fields: Vec::new(),
        previous: Digest::default(),
        events,
    };
    let record = draft.encode_within(taskreel_log::limits::RECORD_BYTES_MAX).map_err(broken)?;
    let part = AppendPart { stream, expected: ExpectedVersion::exactly(Version(0)), record };
    store.append(Append { fence, set_id, parts: vec![part] }).await.map_err(broken)?;
    Ok(())
}
