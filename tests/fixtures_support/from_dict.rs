//! Areas `round_trip` and `from_dict_rejects`: each model read from JSON and written again, or refused.

use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::{
    Artifact, HistoryCompactionRequest, HistoryCompactionResult, LlmMessage, Message, Part, PostedTask,
    RunAction, RunBudget, RunContext, StateOperationRequest, StateOperationResult, StateStoreReport,
    TaskCancellationRequest,
};
use taskreel_log::ports::Ports;

use super::{Case, Failure};

pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    let data: JsonText = case.input()["data"].clone().into();
    Ok(round_trip(case.text("model")?, &data)?.tree())
}

fn round_trip(model: &str, data: &JsonText) -> Result<JsonText, Failure> {
    let mint = &mut Ports::default();
    Ok(match model {
        "Part" => Part::from_json(data, mint)?.to_json(),
        "Message" => Message::from_json(data, mint)?.to_json(),
        "Artifact" => Artifact::from_json(data, mint)?.to_json(),
        "Task" => PostedTask::from_json(data, mint)?.to_json(),
        "LLMMessage" => LlmMessage::from_json(data, mint)?.to_json(),
        "RunAction" => RunAction::from_json(data, mint)?.to_json(),
        "RunContext" => RunContext::from_json(data, mint)?.to_json(),
        "RunBudget" => RunBudget::from_json(data)?.to_json(),
        "TaskCancellationRequest" => TaskCancellationRequest::from_json(data)?.to_json(),
        "HistoryCompactionRequest" => HistoryCompactionRequest::from_json(data)?.to_json(),
        "HistoryCompactionResult" => HistoryCompactionResult::from_json(data)?.to_json(),
        "StateOperationRequest" => StateOperationRequest::from_json(data)?.to_json(),
        "StateOperationResult" => StateOperationResult::from_json(data)?.to_json(),
        "StateStoreReport" => StateStoreReport::from_json(data)?.to_json(),
        other => return Err(Failure::Unanswerable(format!("no model `{other}`"))),
    })
}
