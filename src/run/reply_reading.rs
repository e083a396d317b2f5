//! Interpretation of a part's inferences, from their outcomes alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use proto_events::call::{Call, CallBook, CallStatus, FailureClass, Recovery, Verdict};
use proto_events::json::{JsonText, JsonValue as Value};
use taskreel_log::shown::output_schema_of;

use crate::agent::card::Agent;
use crate::agent::loop_rules::LoopRules;
use crate::grammar::action::{
    AGENT_CALL, Action, ActionError, AgentAction, Reply, parse_action, parse_agent_call, signature,
};
use crate::grammar::decode::decode;
use crate::grammar::reply_text::without_reasoning;
use crate::grammar::text_call::is_text_call;
use crate::limits::PARALLEL_CALLS_MAX;
use crate::models::backend::{InferReply, ToolAsk};
use crate::models::output_schema::OutputSchema;
use crate::run::settled_actions::SettledActions;
use crate::tools::texts::short;

/// The number of newest actions that an action is compared with, as in Protolink.
const REMEMBERED_ACTIONS: usize = 5;

/// The action that one reply asks for, or why it asks for none.
#[derive(Debug, Clone)]
pub(crate) enum ReplyReading {
    /// The model could not be reached, or failed.
    Broken(String),
    /// The reply is not an action.
    Malformed(String),
    /// The reply is a call in text, of a model whose text is never an action.
    TextCall,
    /// The action was done before; holds its kind.
    Repeated(&'static str),
    /// The answer does not fit the requested schema.
    Unfit(String),
    /// An action other than the answer, with the raw reply.
    Action { action: Action, raw: String },
    /// Tool calls that were asked for through the provider's own interface, with the text beside them.
    Calls { calls: Vec<AskedCall>, text: String },
    /// A call of another agent that was asked for in the same way.
    AgentCall { call: AskedCall, agent: String, what: AgentAction, text: String },
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
    fn from_ask(ask: ToolAsk) -> Self {
        Self { tool: ask.tool, args: ask.args, is_repeated: false }
    }

    /// Returns the call as an action of the agent's tools.
    pub(crate) fn action(&self) -> Action {
        Action::ToolCall { tool: self.tool.clone(), args: self.args.clone() }
    }
}

/// All replies of a part, read in order.
#[derive(Debug)]
pub(crate) struct PartReading {
    /// The reading of the last reply.
    pub(crate) last: ReplyReading,
    /// The number of consecutive malformed replies at the end.
    pub(crate) malformed_in_a_row: u32,
    /// The number of answers that did not fit the schema.
    pub(crate) unfit: u32,
    /// The number of replies that were calls in text.
    pub(crate) text_calls: u32,
    /// The number of inferences.
    pub(crate) steps: u32,
}

impl PartReading {
    /// Reads the calls as [`PartReading::new`] does, with the schema that their own intents name.
    pub(crate) fn of_calls(agent: &Agent, book: &CallBook, calls: &[&Call], settled: SettledActions) -> Self {
        let schema = calls.last().and_then(|call| output_schema_of(&call.request.args));
        let schema = schema.map(|schema| OutputSchema::new(schema.tree()));
        Self::new(agent, (book, calls), schema.as_ref(), &ReadReplies::default(), settled, &|_| false)
    }

    /// Reads the inferences of a part. Replies that were read before are taken as they were. What a person has settled counts
    /// as done before. `is_asking`: whether a message of the turn holds the calls that the reply of this inference asks for.
    pub(crate) fn new(
        agent: &Agent,
        (book, calls): (&CallBook, &[&Call]),
        schema: Option<&OutputSchema>,
        known: &ReadReplies,
        settled: SettledActions,
        is_asking: &dyn Fn(&str) -> bool,
    ) -> Self {
        known.retain(calls);
        let effects = AskedEffects::new(book, calls);
        let last = ReplyReading::Broken("no inference yet".to_owned());
        let mut reading = Self { last, malformed_in_a_row: 0, unfit: 0, text_calls: 0, steps: 0 };
        let mut done = DoneActions { newest: VecDeque::new(), asked_last: 0, settled };
        for call in calls {
            let id = call.request.call_id.as_str();
            reading.steps += 1;
            // What an earlier release acted on stays an action, however a reply is read since.
            let is_action = || effects.asked.contains(id) || is_asking(id);
            reading.last = known.read(call, || read_outcome(agent, call, schema, &is_action));
            reading.count(agent, &mut done);
            if agent.loop_rules == LoopRules::Taskreel && effects.succeeded.contains(id) {
                done.forget_all_but_last();
            }
        }
        reading
    }

    /// Counts the last reply.
    fn count(&mut self, agent: &Agent, done: &mut DoneActions) {
        done.asked_last = 0;
        if let ReplyReading::Malformed(_) = self.last {
            self.malformed_in_a_row += 1;
        } else if !matches!(self.last, ReplyReading::Broken(_) | ReplyReading::Repeated(_)) {
            // An answer ends the part, unless a user's message had arrived meanwhile.
            self.malformed_in_a_row = 0;
        }
        match &mut self.last {
            ReplyReading::Action { action, .. } if done.is_repeated(agent, action) => {
                self.last = ReplyReading::Repeated(action.kind());
            }
            ReplyReading::AgentCall { call, agent: target, what, text } => {
                let action = Action::AgentCall { agent: target.clone(), what: what.clone() };
                if done.is_repeated(agent, &action) {
                    let call = AskedCall { is_repeated: true, ..call.clone() };
                    self.last = ReplyReading::Calls { calls: vec![call], text: std::mem::take(text) };
                }
            }
            ReplyReading::Calls { calls, .. } => done.mark(agent, calls),
            ReplyReading::Unfit(_) => self.unfit += 1,
            ReplyReading::TextCall => self.text_calls += 1,
            _ => {}
        }
    }
}

/// The effects of a part's replies, by the ids of their inferences.
struct AskedEffects<'a> {
    /// The inferences whose replies led to calls.
    asked: BTreeSet<&'a str>,
    /// The inferences with a call that succeeded.
    succeeded: BTreeSet<&'a str>,
}

impl<'a> AskedEffects<'a> {
    fn new(book: &'a CallBook, inferences: &[&Call]) -> Self {
        let mut effects = Self { asked: BTreeSet::new(), succeeded: BTreeSet::new() };
        let Some(first) = inferences.first() else { return effects };
        let (run, part) = (first.request.origin.run, first.request.origin.part);
        for call in book.of_part(run, part).filter(|call| call.request.origin.parent.is_none()) {
            let Some(inference) = call.request.origin.infer_call.as_deref() else { continue };
            effects.asked.insert(inference);
            if matches!(call.status, CallStatus::Succeeded(_) | CallStatus::Reconciled(Verdict::Landed(_))) {
                effects.succeeded.insert(inference);
            }
        }
        effects
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
    fn retain(&self, calls: &[&Call]) {
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
    /// The number of actions that the last reply asked for.
    asked_last: usize,
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
        self.remember(vec![signature]);
        false
    }

    /// Marks the repeated calls of one reply. All of them count as one reply's: none pushes another out before it is
    /// compared.
    fn mark(&mut self, agent: &Agent, calls: &mut [AskedCall]) {
        let mut here: Vec<String> = Vec::with_capacity(calls.len());
        for call in calls {
            let action = call.action();
            let signature = signature(&action);
            let is_twin = here.contains(&signature) && !is_repeatable(agent, &action);
            let is_known = self.newest.contains(&signature) || self.settled.contain(agent, &action);
            call.is_repeated |= is_twin || (is_known && !may_be_repeated(agent, &action));
            if !call.is_repeated {
                here.push(signature);
            }
        }
        self.remember(here);
    }

    fn remember(&mut self, asked: Vec<String>) {
        self.asked_last = asked.len();
        self.newest.extend(asked);
        let over = self.newest.len().saturating_sub(REMEMBERED_ACTIONS.max(self.asked_last));
        self.newest.drain(..over);
    }

    /// Forgets what was asked for before the last reply: one of its calls succeeded, so that the same call may now have
    /// another result.
    fn forget_all_but_last(&mut self) {
        let before = self.newest.len().saturating_sub(self.asked_last);
        self.newest.drain(..before);
    }
}

/// Whether the action may be done again in a later reply. By our own rules, one that only reads may.
fn may_be_repeated(agent: &Agent, action: &Action) -> bool {
    let only_reads = || {
        let Action::ToolCall { tool, .. } = action else { return false };
        let recovery = agent.tools.get(tool).map(|tool| tool.spec().policy.recovery());
        agent.loop_rules == LoopRules::Taskreel && recovery == Some(Recovery::ReadOnly)
    };
    is_repeatable(agent, action) || only_reads()
}

/// Whether the action is a call of a tool that the host lets a model call again with the same arguments.
fn is_repeatable(agent: &Agent, action: &Action) -> bool {
    let Action::ToolCall { tool, .. } = action else { return false };
    agent.tools.get(tool).is_some_and(|tool| tool.spec().policy.is_repeatable())
}

fn read_outcome(
    agent: &Agent,
    call: &Call,
    schema: Option<&OutputSchema>,
    is_action: &dyn Fn() -> bool,
) -> ReplyReading {
    match &call.status {
        CallStatus::Succeeded(reply) => match InferReply::from_json(reply) {
            Ok(reply) if reply.calls.len() > PARALLEL_CALLS_MAX => {
                let asked = reply.calls.len();
                let why = format!(
                    "{asked} calls in one reply; at most {PARALLEL_CALLS_MAX} can be asked for at once"
                );
                ReplyReading::Malformed(why)
            }
            Ok(reply) if !reply.calls.is_empty() => read_calls(agent, reply.calls, reply.content),
            Ok(reply) if agent.loop_rules == LoopRules::Protolink || is_action() => {
                read_loosely(agent, reply.content, schema)
            }
            Ok(reply) if agent.asks_natively() => read_talk(agent, &reply.content, schema),
            Ok(reply) => read_action(agent, &reply.content, schema),
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

/// Returns the reading of calls that were asked for natively. A call of another agent stands alone; beside other calls it is
/// answered as one that cannot be made.
fn read_calls(agent: &Agent, asks: Vec<ToolAsk>, text: String) -> ReplyReading {
    let calls: Vec<AskedCall> = asks.into_iter().map(AskedCall::from_ask).collect();
    if let [call] = calls.as_slice()
        && call.tool == AGENT_CALL
        && agent.offers_agent_call()
        && let Ok(Reply { action: Action::AgentCall { agent, what }, .. }) =
            parse_agent_call(&call.args, &agent.peers.skills())
    {
        return ReplyReading::AgentCall { call: call.clone(), agent, what, text };
    }
    ReplyReading::Calls { calls, text }
}

/// Returns the reading of the text of a model that asks by native calls: it is an answer, and never an action.
fn read_talk(agent: &Agent, raw: &str, schema: Option<&OutputSchema>) -> ReplyReading {
    let said = without_reasoning(raw).trim();
    if said.is_empty() {
        return ReplyReading::Malformed("the reply says nothing and calls nothing".to_owned());
    }
    let raw = said.to_owned();
    // Models that learned the grammar of actions answer by it at times.
    let answered = match agent.parse_reply(said) {
        Ok(Reply { action: Action::Final { content }, .. }) => content,
        _ => raw.clone(),
    };
    let output = JsonText::string(&answered);
    let Some(schema) = schema else {
        let looks_like_call = is_text_call(said, &agent.tools.names());
        return if looks_like_call { ReplyReading::TextCall } else { ReplyReading::Answer { output, raw } };
    };
    match text_fits(schema, &answered) {
        Ok(()) if answered != raw || decode(said).is_err() => ReplyReading::Answer { output, raw },
        Err(_) if is_text_call(said, &agent.tools.names()) => ReplyReading::TextCall,
        Err(error) if answered != raw => ReplyReading::Unfit(short(&error)),
        _ => bare_answer(schema, raw).unwrap_or_else(|()| {
            ReplyReading::Malformed("the answer holds no JSON as the schema asks for".to_owned())
        }),
    }
}

/// Returns the reading of a text in the grammar of actions: the whole of it is an action.
fn read_action(agent: &Agent, raw: &str, schema: Option<&OutputSchema>) -> ReplyReading {
    let raw = without_reasoning(raw).trim().to_owned();
    let action = agent.parse_reply(&raw).map(|reply| reply.action);
    read_parsed(action, raw, schema)
}

fn read_parsed(
    action: Result<Action, ActionError>,
    raw: String,
    schema: Option<&OutputSchema>,
) -> ReplyReading {
    match (action, schema) {
        (Ok(Action::Final { content }), None) => {
            ReplyReading::Answer { output: JsonText::string(&content), raw }
        }
        (Ok(Action::Final { content }), Some(schema)) => match text_fits(schema, &content) {
            Ok(()) => ReplyReading::Answer { output: JsonText::string(&content), raw },
            Err(error) => ReplyReading::Unfit(short(&error)),
        },
        (Ok(action), _) => ReplyReading::Action { action, raw },
        (Err(error), None) => ReplyReading::Malformed(short(&error.to_string())),
        (Err(error), Some(schema)) => {
            bare_answer(schema, raw).unwrap_or_else(|()| ReplyReading::Malformed(short(&error.to_string())))
        }
    }
}

/// Returns the reading of a text as Protolink reads it, and as earlier releases did: its first `{` to its last `}`.
fn read_loosely(agent: &Agent, raw: String, schema: Option<&OutputSchema>) -> ReplyReading {
    let action = parse_action(&raw, &agent.tools.names(), &agent.peers.skills());
    let talks = action.is_err()
        && agent.may_talk()
        && schema.map_or_else(|| is_talk(&raw), |schema| is_fitting_talk(&raw, schema));
    if talks {
        // Words that fit the schema as they are; JSON is read as the value that it describes.
        return ReplyReading::Answer { output: JsonText::string(&raw), raw };
    }
    read_parsed(action, raw, schema)
}

/// Whether a reply that is not an action was not meant as one: it says something, and is neither JSON that is cut off nor an
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
/// action, or alone, as a server writes it that was given the schema. Words may stand around it: an answer has no effect.
///
/// # Errors
/// Nothing to answer with: the text holds no JSON, or an action with a fault.
fn bare_answer(schema: &OutputSchema, raw: String) -> Result<ReplyReading, ()> {
    let value = decode(&raw).map_err(|_| ())?;
    let tag = value.get("type").and_then(Value::as_str);
    let content = value.get("content").filter(|content| tag == Some("final") && !content.is_string());
    let checked = match content {
        Some(content) => schema.check(content).map(|()| content.clone()),
        None => schema.check(&value).map(|()| value.clone()),
    };
    match checked {
        Ok(output) => Ok(ReplyReading::Answer { output: JsonText::from(output), raw }),
        Err(_) if content.is_none() && matches!(tag, Some("final" | "tool_call" | "agent_call")) => Err(()),
        Err(error) => Ok(ReplyReading::Unfit(short(&error))),
    }
}

#[cfg(test)]
mod tests {
    use proto_events::call::{CallBook, CallEvent, CallKind, CallRequested, NewCall, Recovery};
    use proto_events::envelope::Timestamp;

    use super::*;

    fn inference(events: impl IntoIterator<Item = CallEvent>) -> Call {
        let mut calls = CallBook::default();
        let asked = CallEvent::Requested(Box::new(CallRequested::new(NewCall {
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
            known.retain(&[call]);
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
