//! Interpretation of a part's inferences, from their outcomes alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use proto_events::call::{Call, CallStatus, FailureClass};
use proto_events::json::{JsonText, JsonValue as Value};
use taskreel_log::shown::output_schema_of;

use crate::agent::card::Agent;
use crate::grammar::action::{Action, ActionError, parse_action, signature};
use crate::grammar::decode::decode;
use crate::limits::PARALLEL_CALLS_MAX;
use crate::models::backend::{InferReply, ToolAsk};
use crate::models::output_schema::OutputSchema;
use crate::run::settled::SettledActions;
use crate::tools::texts::short;

/// The number of newest actions that an action is compared with, as in Protolink.
const REMEMBERED_ACTIONS: usize = 5;

/// The action that one reply asks for, or why it is none.
#[derive(Debug, Clone)]
pub(crate) enum ReplyReading {
    /// The model could not be reached, or failed.
    Broken(String),
    /// The reply is not an action.
    Malformed(String),
    /// The action was done before; holds its kind.
    Repeated(&'static str),
    /// The answer does not fit the requested schema.
    Unfit(String),
    /// An action other than the answer, with the raw reply.
    Action { action: Action, raw: String },
    /// Tool calls that were asked for through the provider's own interface, with the text beside them.
    Calls { calls: Vec<AskedCall>, text: String },
    /// The answer, as the part outputs it, with the raw reply.
    Answer { output: JsonText, raw: String },
}

/// A tool call that a reply asks for.
#[derive(Debug, Clone)]
pub(crate) struct AskedCall {
    pub(crate) tool: String,
    pub(crate) args: JsonText,
    /// Whether the same call was made before and may not be repeated.
    pub(crate) is_repeated: bool,
}

impl AskedCall {
    fn of(ask: ToolAsk) -> Self {
        Self { tool: ask.tool, args: ask.args, is_repeated: false }
    }

    /// Returns the call as an action.
    pub(crate) fn action(&self) -> Action {
        Action::ToolCall { tool: self.tool.clone(), args: self.args.clone() }
    }
}

/// All replies of a part, read in order.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The reading of the last reply.
    pub(crate) last: ReplyReading,
    /// The number of consecutive malformed replies at the end.
    pub(crate) malformed_in_a_row: u32,
    /// The number of answers that did not fit the schema.
    pub(crate) unfit: u32,
    /// The number of inferences.
    pub(crate) steps: u32,
}

impl Reading {
    /// Reads the calls as [`Reading::of`] does, with the schema that their own intents name.
    pub(crate) fn of_calls(agent: &Agent, calls: &[&Call], settled: SettledActions) -> Self {
        let schema = calls.last().and_then(|call| output_schema_of(&call.request.args));
        let schema = schema.map(|schema| OutputSchema::new(schema.tree()));
        Self::of(agent, calls, schema.as_ref(), &ReadReplies::default(), settled)
    }

    /// Reads the calls. Replies that were read before are taken as they were. What a person has settled counts as done
    /// before.
    pub(crate) fn of(
        agent: &Agent,
        calls: &[&Call],
        schema: Option<&OutputSchema>,
        known: &ReadReplies,
        settled: SettledActions,
    ) -> Self {
        known.keep(calls);
        let last = ReplyReading::Broken("no inference yet".to_owned());
        let mut reading = Self { last, malformed_in_a_row: 0, unfit: 0, steps: 0 };
        let mut done = DoneActions { newest: VecDeque::new(), settled };
        for call in calls {
            reading.steps += 1;
            reading.last = known.read(call, || read_outcome(agent, call, schema));
            match &reading.last {
                ReplyReading::Malformed(_) => reading.malformed_in_a_row += 1,
                ReplyReading::Action { action, .. } => {
                    reading.malformed_in_a_row = 0;
                    if done.is_repeated(agent, action) {
                        reading.last = ReplyReading::Repeated(action.kind());
                    }
                }
                ReplyReading::Calls { .. } => {
                    reading.malformed_in_a_row = 0;
                    if let ReplyReading::Calls { calls, .. } = &mut reading.last {
                        done.mark(agent, calls);
                    }
                }
                ReplyReading::Unfit(_) => {
                    reading.malformed_in_a_row = 0;
                    reading.unfit += 1;
                }
                // An answer ends the part, unless a user's message had arrived meanwhile.
                ReplyReading::Answer { .. } => reading.malformed_in_a_row = 0,
                ReplyReading::Broken(_) | ReplyReading::Repeated(_) => {}
            }
        }
        reading
    }
}

/// The replies of a part as they were read, by the ids of their calls: a long text is parsed once, however often the
/// planner looks at it.
#[derive(Debug, Default)]
pub(crate) struct ReadReplies(Mutex<BTreeMap<String, ReplyReading>>);

impl ReadReplies {
    fn read(&self, call: &Call, read: impl FnOnce() -> ReplyReading) -> ReplyReading {
        if !matches!(call.status, CallStatus::Succeeded(_)) {
            return read();
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(call.request.call_id.clone()).or_insert_with(read).clone()
    }

    /// Forgets the replies of other calls than these.
    fn keep(&self, calls: &[&Call]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > calls.len() {
            known.retain(|id, _| calls.iter().any(|call| call.request.call_id == *id));
        }
    }

    /// Forgets all replies: their part has ended.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The newest actions of a part, by their signatures, and those that a person settled before it.
#[derive(Debug)]
struct DoneActions {
    newest: VecDeque<String>,
    settled: SettledActions,
}

impl DoneActions {
    /// Whether the action was done before and may not be done again; if not, it counts as done from now on.
    fn is_repeated(&mut self, agent: &Agent, action: &Action) -> bool {
        let signature = signature(action);
        let is_known = self.newest.contains(&signature) || self.settled.contain(agent, action);
        if is_known && !may_be_repeated(agent, action) {
            return true;
        }
        self.newest.push_back(signature);
        if self.newest.len() > REMEMBERED_ACTIONS {
            self.newest.pop_front();
        }
        false
    }

    /// Marks the repeated calls of one reply. All of them count as one reply's: none pushes another out before it is
    /// compared.
    fn mark(&mut self, agent: &Agent, calls: &mut [AskedCall]) {
        let mut here: Vec<String> = Vec::with_capacity(calls.len());
        for call in calls {
            let action = call.action();
            let signature = signature(&action);
            let known = self.newest.contains(&signature)
                || here.contains(&signature)
                || self.settled.contain(agent, &action);
            call.is_repeated = known && !may_be_repeated(agent, &action);
            if !call.is_repeated {
                here.push(signature);
            }
        }
        self.newest.extend(here);
        let over = self.newest.len().saturating_sub(REMEMBERED_ACTIONS);
        self.newest.drain(..over);
    }
}

/// Whether the action is a call of a tool that a model may call again with the same arguments.
fn may_be_repeated(agent: &Agent, action: &Action) -> bool {
    let Action::ToolCall { tool, .. } = action else { return false };
    agent.tools.get(tool).is_some_and(|tool| tool.spec().policy.is_repeatable())
}

fn read_outcome(agent: &Agent, call: &Call, schema: Option<&OutputSchema>) -> ReplyReading {
    match &call.status {
        CallStatus::Succeeded(reply) => match InferReply::from_json(reply) {
            Ok(reply) if reply.calls.len() > PARALLEL_CALLS_MAX => {
                let asked = reply.calls.len();
                let why = format!(
                    "{asked} calls in one reply; at most {PARALLEL_CALLS_MAX} can be asked for at once"
                );
                ReplyReading::Malformed(why)
            }
            Ok(reply) if !reply.calls.is_empty() => {
                let calls = reply.calls.into_iter().map(AskedCall::of).collect();
                ReplyReading::Calls { calls, text: reply.content }
            }
            Ok(reply) => read_reply(agent, reply.content, schema),
            Err(error) => ReplyReading::Malformed(error),
        },
        CallStatus::Failed(failure) if failure.class == FailureClass::Rejected => {
            ReplyReading::Malformed(failure.message.clone())
        }
        CallStatus::Failed(failure) => ReplyReading::Broken(failure.message.clone()),
        CallStatus::Unknown(why) | CallStatus::Abandoned(why) => ReplyReading::Broken(why.clone()),
        CallStatus::Requested
        | CallStatus::Dispatched
        | CallStatus::TimedOut
        | CallStatus::RetryScheduled(..)
        | CallStatus::Unsent
        | CallStatus::Asked(_)
        | CallStatus::Answered
        | CallStatus::Reconciled(_)
        | CallStatus::Canceled => ReplyReading::Broken("the inference has no outcome".to_owned()),
    }
}

/// Returns the reading of a reply's text.
fn read_reply(agent: &Agent, raw: String, schema: Option<&OutputSchema>) -> ReplyReading {
    let action = parse_action(&raw, &agent.tools.names(), &agent.peers.skills());
    match (action, schema) {
        (Ok(Action::Final { content }), None) => {
            ReplyReading::Answer { output: JsonText::string(&content), raw }
        }
        (Ok(Action::Final { content }), Some(schema)) => match text_fits(schema, &content) {
            Ok(()) => ReplyReading::Answer { output: JsonText::string(&content), raw },
            Err(error) => ReplyReading::Unfit(short(&error)),
        },
        (Ok(action), _) => ReplyReading::Action { action, raw },
        (Err(_), None) if agent.may_talk() && is_talk(&raw) => {
            ReplyReading::Answer { output: JsonText::string(&raw), raw }
        }
        // Words that fit the schema as they are; JSON is read as the value that it describes.
        (Err(_), Some(schema)) if agent.may_talk() && is_fitting_talk(&raw, schema) => {
            ReplyReading::Answer { output: JsonText::string(&raw), raw }
        }
        (Err(error), None) => ReplyReading::Malformed(short(&error.to_string())),
        (Err(error), Some(schema)) => bare_answer(schema, raw, &error),
    }
}

/// Whether a reply that is no action was not meant as one: it says something, and is neither JSON that is cut off nor an
/// action with a fault.
fn is_talk(raw: &str) -> bool {
    let says = raw.trim();
    match decode(raw) {
        Ok(value) => {
            let tag = value.get("type").and_then(Value::as_str);
            !matches!(tag, Some("final" | "tool_call" | "agent_call"))
        }
        Err(_) => !says.is_empty() && !says.starts_with('{'),
    }
}

/// Whether a reply simply talks, and says what the schema asks for.
fn is_fitting_talk(raw: &str, schema: &OutputSchema) -> bool {
    is_talk(raw) && decode(raw).is_err() && text_fits(schema, raw).is_ok()
}

/// Checks a text against the schema: as the value it holds if it is JSON, else as a string.
fn text_fits(schema: &OutputSchema, content: &str) -> Result<(), String> {
    let as_text = || schema.check(&Value::String(content.to_owned()));
    match JsonText::parse(content) {
        Ok(json) => schema.check(&json.tree()).or_else(|error| as_text().map_err(|_| error)),
        Err(error) => as_text().map_err(|refusal| format!("{refusal}; as JSON: {error}")),
    }
}

/// Returns the reading of an answer given as bare JSON where a schema is requested: as the content of a final
/// action, or alone, as a server writes it that was given the schema.
fn bare_answer(schema: &OutputSchema, raw: String, no_action: &ActionError) -> ReplyReading {
    let Ok(value) = decode(&raw) else {
        return ReplyReading::Malformed(short(&no_action.to_string()));
    };
    let tag = value.get("type").and_then(Value::as_str);
    let content = value.get("content").filter(|content| tag == Some("final") && !content.is_string());
    let checked = match content {
        Some(content) => schema.check(content).map(|()| content.clone()),
        None => schema.check(&value).map(|()| value.clone()),
    };
    match checked {
        Ok(output) => ReplyReading::Answer { output: JsonText::from(output), raw },
        Err(_) if content.is_none() && matches!(tag, Some("final" | "tool_call" | "agent_call")) => {
            ReplyReading::Malformed(short(&no_action.to_string()))
        }
        Err(error) => ReplyReading::Unfit(short(&error)),
    }
}

#[cfg(test)]
mod tests {
    use proto_events::call::{CallBook, CallEvent, CallKind, CallRequested, NewCall, Recovery};
    use proto_events::envelope::Timestamp;

    use super::*;

    fn inference(events: impl IntoIterator<Item = CallEvent>) -> Call {
        let mut calls = CallBook::default();
        let asked = CallEvent::Requested(Box::new(CallRequested::of(NewCall {
            call_id: "i1".to_owned(),
            kind: CallKind::Infer,
            target: "model".to_owned(),
            args: JsonText::empty_object(),
            idempotency_key: "key".to_owned(),
            recovery: Recovery::Reissue,
            recovery_source: "model".to_owned(),
            timeout_ms: 1_000,
            max_attempts: 1,
        })));
        let sent =
            CallEvent::Dispatched { call_id: "i1".to_owned(), attempt: 1, epoch: 1, cause: String::new() };
        for event in [asked, sent].into_iter().chain(events) {
            calls.evolve(&event, Timestamp(1));
        }
        calls.get("i1").unwrap().clone()
    }

    #[test]
    fn a_reply_is_parsed_once_however_often_it_is_looked_at_until_its_part_has_ended() {
        let (call_id, result) = ("i1".to_owned(), JsonText::null());
        let answered = inference([CallEvent::Succeeded { call_id, attempt: 1, result, usage: None }]);
        let (known, parsed) = (ReadReplies::default(), std::cell::Cell::new(0));
        let look = |call: &Call| {
            known.keep(&[call]);
            known.read(call, || {
                parsed.set(parsed.get() + 1);
                ReplyReading::Malformed("no JSON".to_owned())
            })
        };
        for _ in 0..5 {
            assert!(matches!(look(&answered), ReplyReading::Malformed(why) if why == "no JSON"));
        }
        assert_eq!(parsed.get(), 1);
        known.clear();
        look(&answered);
        assert_eq!(parsed.get(), 2);
        // Nothing is kept of a call that has no reply yet.
        let open = inference([]);
        let before = parsed.get();
        look(&open);
        look(&open);
        assert_eq!(parsed.get(), before + 2);
    }
}
