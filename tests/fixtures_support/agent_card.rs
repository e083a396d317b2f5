//! Area `agent_card`: cards read and written again or refused, what is on in them, and how a model is shown them.

use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::AgentCard;

use super::{Case, Failure};

pub(crate) fn answer(case: &Case) -> Result<Value, Failure> {
    let data: JsonText = case.input()["data"].clone().into();
    let card = AgentCard::from_json(&data)?;
    Ok(match case.text("op")? {
        "from_dict" => json!({"to_dict": card.to_json().tree(), "role": card.role.as_str()}),
        "enabled" => {
            json!({"enabled": card.capabilities.enabled(), "as_dict": card.capabilities.to_json().tree()})
        }
        "prompt" => json!({"prompt": card.get_prompt_format()}),
        other => return Err(Failure::Unanswerable(format!("no operation `{other}`"))),
    })
}
