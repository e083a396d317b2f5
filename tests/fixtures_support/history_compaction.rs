//! Area `history_compaction`: a history is compacted by a request, with a summarizer that always says the same.

use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::{
    ConversationHistory, HistoryCompactionRequest, HistoryCompactionResult, ModelError,
};
use taskreel_log::context::{HistoryCompactor, summary_message};
use taskreel_log::ports::Ports;

use super::{Case, Failure, python_error};

pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    let mut ports = Ports::default();
    let given = JsonText::from(case.input()["history"].clone());
    let mut history = ConversationHistory::from_json(&given, &mut ports)?;
    let mut calls = Vec::new();
    let compacted = compacted(case, &mut history, &mut calls, &mut ports);
    let mut answer = match compacted {
        Ok(result) => json!({"result": result.to_json().tree()}),
        Err(error) => json!({"error": python_error(&error)}),
    };
    let list = |of: &dyn Fn(&proto_events::model::LlmMessage) -> Value| -> Value {
        history.as_slice().iter().map(of).collect::<Vec<_>>().into()
    };
    answer["kept"] = list(&|message| message.id.as_str().into());
    answer["messages"] = json!(history.messages());
    answer["metadata"] = list(&|message| json!(message.metadata));
    answer["summarizer_calls"] = calls.into();
    Ok(answer)
}

fn compacted(
    case: &Case,
    history: &mut ConversationHistory,
    calls: &mut Vec<Value>,
    ports: &mut Ports,
) -> Result<HistoryCompactionResult, ModelError> {
    let request = HistoryCompactionRequest::from_json(&JsonText::from(case.input()["options"].clone()))?;
    let says = case.input()["stub_summary"].as_str();
    let cut = HistoryCompactor::new().cut(history.as_slice(), &request, says.is_some())?;
    let mut summary = None;
    if let Some(says) = says.filter(|_| cut.needs_summary()) {
        let ids: Vec<&str> =
            cut.older(history.as_slice()).iter().map(|message| message.id.as_str()).collect();
        calls.push(json!({"ids": ids, "summary_max_tokens": request.summary_max_tokens}));
        let said = says.trim();
        if said.is_empty() {
            return Err(ModelError::Invalid(proto_events::session::EMPTY_SUMMARY.to_owned()));
        }
        summary = Some(summary_message(said, ports));
    }
    let result = cut.result(summary.as_ref());
    cut.apply(history, summary);
    Ok(result)
}
