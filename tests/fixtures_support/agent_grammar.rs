//! Areas `tool_args`, `llm_action_parse` and `extract_summary`: the pure rules of the infer loop.

use proto_events::json;
use proto_events::json::JsonValue as Value;
use taskreel::fidelity::{check_args, extract_summary, parse_reply};

use super::{Case, Failure};

pub(crate) fn tool_args(case: &Case) -> Result<Value, Failure> {
    check_args(case.input().get("schema"), &case.input()["args"])
        .map(|args| json!({ "args": args }))
        .map_err(|error| Failure::Refused(error.to_string()))
}

pub(crate) fn llm_action_parse(case: &Case) -> Result<Value, Failure> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let tools = texts(&case.input()["local_tools"]);
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    let agents = case.input()["agents"].as_object().into_iter().flatten();
    let agents: Vec<_> = agents.map(|(name, skills)| (name.clone(), texts(skills))).collect();
    parse_reply(case.text("raw")?, &tools, &agents)
        .map(|reply| reply.to_json())
        .map_err(|error| Failure::Refused(error.to_string()))
}

pub(crate) fn extract(case: &Case) -> Result<Value, Failure> {
    Ok(json!({ "summary": extract_summary(case.text("raw")?) }))
}
