//! What a part's inferences so far mean: read off their outcomes alone.

use std::collections::VecDeque;

use proto_events::call::{Call, CallStatus, FailureClass};
use proto_events::json::JsonText;
use serde_json::Value;

use crate::agent::Agent;
use crate::agent::action::{Action, ActionError, parse_action, signature};
use crate::agent::decode::decode;
use crate::agent::infer::InferReply;
use crate::agent::output_schema::check_output;

/// How many of the newest actions an action is compared with, Protolink's figure.
const REMEMBERED_ACTIONS: usize = 5;

/// What one reply asks for.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The model could not be reached, or broke.
    Broken(String),
    /// The reply is no action.
    Malformed(String),
    /// The action was done before; its kind.
    Repeated(&'static str),
    /// The answer does not fit the schema that was asked for.
    Unfit(String),
    /// An action other than the answer, with the reply as it came.
    Action { action: Action, raw: String },
    /// The answer, as the part puts it out, with the reply as it came.
    Answer { output: JsonText, raw: String },
}

/// All replies of a part, read in order.
#[derive(Debug)]
pub(crate) struct Reading {
    /// What the last reply asks for.
    pub(crate) last: Verdict,
    /// Malformed replies at the end, without another between them.
    pub(crate) malformed_in_a_row: u32,
    /// Answers that did not fit the schema.
    pub(crate) unfit: u32,
    /// How many inferences there were.
    pub(crate) steps: u32,
}

impl Reading {
    /// As [`Reading::of`], by the schema that the calls' own intents name.
    pub(crate) fn of_calls(agent: &Agent, calls: &[&Call]) -> Self {
        let schema = calls.last().and_then(|call| super::ask::schema_in(&call.request.args));
        let schema = schema.as_ref().map(JsonText::to_value);
        Self::of(agent, calls, schema.as_ref())
    }

    pub(crate) fn of(agent: &Agent, calls: &[&Call], schema: Option<&Value>) -> Self {
        let last = Verdict::Broken("no inference yet".to_owned());
        let mut reading = Self { last, malformed_in_a_row: 0, unfit: 0, steps: 0 };
        let mut done: VecDeque<String> = VecDeque::with_capacity(REMEMBERED_ACTIONS);
        for call in calls {
            reading.steps += 1;
            reading.last = verdict(agent, call, schema);
            match &reading.last {
                Verdict::Malformed(_) => reading.malformed_in_a_row += 1,
                Verdict::Action { action, .. } => {
                    reading.malformed_in_a_row = 0;
                    let signature = signature(action);
                    if done.contains(&signature) {
                        reading.last = Verdict::Repeated(action.kind());
                        continue;
                    }
                    if done.len() == REMEMBERED_ACTIONS {
                        done.pop_front();
                    }
                    done.push_back(signature);
                }
                Verdict::Unfit(_) => {
                    reading.malformed_in_a_row = 0;
                    reading.unfit += 1;
                }
                // Only the last reply is an answer: it ends the part.
                Verdict::Answer { .. } | Verdict::Broken(_) | Verdict::Repeated(_) => {}
            }
        }
        reading
    }
}

fn verdict(agent: &Agent, call: &Call, schema: Option<&Value>) -> Verdict {
    match &call.status {
        CallStatus::Succeeded(reply) => match InferReply::from_json(reply) {
            Ok(reply) => said(agent, reply.content, schema),
            Err(error) => Verdict::Malformed(error),
        },
        CallStatus::Failed(failure) if failure.class == FailureClass::Rejected => {
            Verdict::Malformed(failure.message.clone())
        }
        CallStatus::Failed(failure) => Verdict::Broken(failure.message.clone()),
        CallStatus::Unknown(why) | CallStatus::Abandoned(why) => Verdict::Broken(why.clone()),
        CallStatus::Requested
        | CallStatus::Dispatched
        | CallStatus::TimedOut
        | CallStatus::Unsent
        | CallStatus::Reconciled(_)
        | CallStatus::Canceled => Verdict::Broken("the inference has no outcome".to_owned()),
    }
}

/// What a reply says.
fn said(agent: &Agent, raw: String, schema: Option<&Value>) -> Verdict {
    let action = parse_action(&raw, &agent.tools.names(), &agent.peers.skills());
    match (action, schema) {
        (Ok(Action::Final { content }), None) => Verdict::Answer { output: JsonText::string(&content), raw },
        (Ok(Action::Final { content }), Some(schema)) => match text_fits(schema, &content) {
            Ok(()) => Verdict::Answer { output: JsonText::string(&content), raw },
            Err(error) => Verdict::Unfit(error),
        },
        (Ok(action), _) => Verdict::Action { action, raw },
        (Err(error), None) => Verdict::Malformed(error.to_string()),
        (Err(error), Some(schema)) => bare_answer(schema, raw, &error),
    }
}

/// A text that is JSON fits by what it says, and any text as a string.
fn text_fits(schema: &Value, content: &str) -> Result<(), String> {
    let as_text = || check_output(schema, &Value::String(content.to_owned()));
    match JsonText::parse(content) {
        Ok(json) => check_output(schema, &json.to_value()).or_else(|error| as_text().map_err(|_| error)),
        Err(error) => as_text().map_err(|refusal| format!("{refusal}; as JSON: {error}")),
    }
}

/// Where a schema is asked for, the answer may stand there as the JSON that it is: as the content of a final action,
/// or alone, as a server writes it that was given the schema.
fn bare_answer(schema: &Value, raw: String, no_action: &ActionError) -> Verdict {
    let Ok(value) = decode(&raw) else {
        return Verdict::Malformed(no_action.to_string());
    };
    let tag = value.get("type").and_then(Value::as_str);
    let content = value.get("content").filter(|content| tag == Some("final") && !content.is_string());
    let checked = match content {
        Some(content) => check_output(schema, content).map(|()| content.clone()),
        None => check_output(schema, &value).map(|()| value.clone()),
    };
    match checked {
        Ok(output) => Verdict::Answer { output: JsonText::from(output), raw },
        Err(_) if content.is_none() && matches!(tag, Some("final" | "tool_call" | "agent_call")) => {
            Verdict::Malformed(no_action.to_string())
        }
        Err(error) => Verdict::Unfit(error),
    }
}
