//! Run events: Protolink's one envelope for everything that a run tells, made of the events of a task's stream.

use serde::Serialize;

use crate::id::Mint;
use crate::json::{JsonObject, JsonText};
use crate::model::error::ModelError;
use crate::model::fields::ModelFields;
use crate::model::python;
use crate::model::run_context::RunContext;
use crate::model::run_summary::{severity, summary};

/// The version of the envelope.
pub const RUN_EVENT_VERSION: &str = "1.0";

/// An event of a run in the envelope that applications read.
///
/// On the wire an object of the fields below in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunEvent {
    /// The id of the event.
    pub event_id: String,
    /// The version of the envelope.
    pub version: String,
    /// The type, such as `task.status` or `action.completed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The run.
    pub run_id: Option<String>,
    /// The task.
    pub task_id: Option<String>,
    /// The agent that works on it.
    pub agent_name: Option<String>,
    /// The number of the event in its run, from 1.
    pub sequence: Option<i64>,
    /// The step of the loop.
    pub step: Option<i64>,
    /// The span to which the event belongs.
    pub span_id: Option<String>,
    /// The span above it.
    pub parent_span_id: Option<String>,
    /// The action that the event is about.
    pub action_id: Option<String>,
    /// The action within which it happens.
    pub parent_action_id: Option<String>,
    /// The request to another agent.
    pub delegation_id: Option<String>,
    /// The severity: `info`, `warning` or `error`.
    pub severity: String,
    /// The event in a sentence.
    pub summary: Option<String>,
    /// The event of the task's stream, with what its metadata say of actions beside it.
    pub payload: JsonObject,
    /// Whether no event follows.
    #[serde(rename = "final")]
    pub last: bool,
    /// The time of the event.
    pub timestamp: String,
    /// Further data of the envelope itself.
    pub metadata: JsonObject,
}

/// The types of the events of a task's stream.
const OF_TASK: [(&str, &str); 5] = [
    ("task_status_update", "task.status"),
    ("task_artifact_update", "task.artifact"),
    ("task_progress", "task.progress"),
    ("task_llm_stream", "llm.stream"),
    ("task_error", "task.error"),
];

/// The types of the events in the loop of an `infer` part that have one of their own.
const OF_LOOP: [(&str, &str); 16] = [
    ("context_prepared", "context.prepared"),
    ("llm_call_started", "llm.call.started"),
    ("llm_call_completed", "llm.call.completed"),
    ("budget_warning", "budget.warning"),
    ("budget_exceeded", "budget.exceeded"),
    ("action_requested", "action.requested"),
    ("policy_decision", "action.policy"),
    ("approval_required", "approval.required"),
    ("approval_decision", "approval.decided"),
    ("action_denied", "action.denied"),
    ("tool_start", "action.started"),
    ("tool_result", "action.completed"),
    ("tool_error", "action.failed"),
    ("agent_call_start", "action.started"),
    ("agent_call_result", "action.completed"),
    ("agent_call_error", "action.failed"),
];

/// The keys of an event's metadata that the payload has too.
const PROMOTED: [&str; 9] = [
    "action",
    "action_id",
    "decision",
    "delegation_id",
    "manifest",
    "parent_action_id",
    "parent_span_id",
    "request",
    "span_id",
];

impl RunEvent {
    /// Reads an event; an absent id or time is filled in.
    ///
    /// # Errors
    /// [`ModelError`] if a field has another type.
    pub fn from_json(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
        let text_or =
            |key: &str, default: &str| fields.coerced_truthy(key).unwrap_or_else(|| default.to_owned());
        Ok(Self {
            event_id: fields.coerced_truthy("event_id").unwrap_or_else(|| mint.uuid()),
            version: text_or("version", RUN_EVENT_VERSION),
            kind: text_or("type", "run.event"),
            run_id: fields.coerced("run_id"),
            task_id: fields.coerced("task_id"),
            agent_name: fields.coerced("agent_name"),
            sequence: fields.optional_int("sequence")?,
            step: fields.optional_int("step")?,
            span_id: fields.coerced("span_id"),
            parent_span_id: fields.coerced("parent_span_id"),
            action_id: fields.coerced("action_id"),
            parent_action_id: fields.coerced("parent_action_id"),
            delegation_id: fields.coerced("delegation_id"),
            severity: text_or("severity", "info"),
            summary: fields.coerced("summary"),
            payload: fields.object("payload")?,
            last: fields.flag("final"),
            timestamp: fields.coerced_truthy("timestamp").unwrap_or_else(|| mint.timestamp()),
            metadata: fields.object("metadata")?,
        })
    }

    /// Returns the event as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }

    /// Returns the envelope of an event of a task's stream, as it stands on the wire. Without a context, the run is
    /// that of the task which the last event holds. Id and time are the event's own, so that the same event always
    /// has the same envelope; what it lacks is filled in.
    ///
    /// # Errors
    /// [`ModelError`] if the event is not an object, or its step is not a number.
    pub fn of_task_event(
        event: &JsonText,
        context: Option<&RunContext>,
        sequence: Option<i64>,
        mint: &mut dyn Mint,
    ) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(event)?;
        let source = fields.coerced_truthy("type").unwrap_or_else(|| "run.event".to_owned());
        let told: JsonObject = event.read()?;
        let metadata = object(told.get("metadata"));
        let of_task = if context.is_none() { context_of(&metadata, mint) } else { None };
        let context = context.or(of_task.as_ref());
        let payload = promoted(&source, &told, &metadata);
        let links = Links::new(&payload, &metadata);
        let agent = || metadata.get("agent").filter(|agent| python::truthy(agent)).map(python::text);
        Ok(Self {
            event_id: fields.coerced_truthy("event_id").unwrap_or_else(|| mint.uuid()),
            version: RUN_EVENT_VERSION.to_owned(),
            kind: kind(&source, &loop_kind(&told)).to_owned(),
            run_id: match context {
                Some(context) => Some(context.run_id.clone()),
                None => text(metadata.get("run_id")),
            },
            task_id: fields.coerced("task_id"),
            agent_name: fields
                .coerced_truthy("agent_name")
                .or_else(agent)
                .or_else(|| context.and_then(|context| context.agent_chain.last().cloned())),
            sequence,
            step: fields.optional_int("step")?,
            span_id: links.span,
            parent_span_id: links.parent_span,
            action_id: links.action,
            parent_action_id: links.parent_action,
            delegation_id: links.delegation,
            severity: severity(&source, &loop_kind(&told)).to_owned(),
            summary: summary(&source, &told),
            payload,
            last: fields.flag("final"),
            timestamp: fields.coerced_truthy("timestamp").unwrap_or_else(|| mint.timestamp()),
            metadata: [("source_type".to_owned(), JsonText::string(&source))].into_iter().collect(),
        })
    }

    /// Returns the envelopes of the events of a task's stream, numbered from 1.
    ///
    /// # Errors
    /// As [`RunEvent::of_task_event`], for the first event that is not valid.
    pub fn of_task_events(
        events: &[JsonText],
        context: Option<&RunContext>,
        mint: &mut dyn Mint,
    ) -> Result<Vec<Self>, ModelError> {
        let numbered = (1..).zip(events);
        numbered.map(|(number, event)| Self::of_task_event(event, context, Some(number), mint)).collect()
    }
}

/// The ids by which an event belongs to others.
struct Links {
    span: Option<String>,
    parent_span: Option<String>,
    action: Option<String>,
    parent_action: Option<String>,
    delegation: Option<String>,
}

impl Links {
    fn new(payload: &JsonObject, metadata: &JsonObject) -> Self {
        let either = |key: &str| {
            let told = object(payload.get(key));
            if told.is_empty() { object(metadata.get(key)) } else { told }
        };
        let (action, request, decision) = (either("action"), either("request"), either("decision"));
        let asked = object(request.get("action"));
        let sources = [payload, metadata, &action, &request, &asked, &decision];
        let first = |key: &str| sources.iter().find_map(|source| text(source.get(key)));
        let kind = loop_kind(payload);
        let action_id = first("action_id");
        let of_agent = matches!(kind.as_str(), "agent_call_start" | "agent_call_result" | "agent_call_error");
        let of_action = ["action_", "approval_", "policy_", "tool_", "agent_call_"];
        let is_of_action = of_action.iter().any(|beginning| kind.starts_with(beginning));
        let parent_action = first("parent_action_id");
        Self {
            span: first("span_id").or_else(|| action_id.clone().filter(|_| is_of_action)),
            parent_span: first("parent_span_id").or_else(|| parent_action.clone()),
            delegation: first("delegation_id").or_else(|| action_id.clone().filter(|_| of_agent)),
            action: action_id,
            parent_action,
        }
    }
}

/// Returns the type of the envelope.
fn kind<'a>(source: &'a str, loop_kind: &str) -> &'a str {
    let known = |table: &[(&str, &'static str)], name: &str| {
        table.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours)
    };
    let of_loop = if source == "task_llm_stream" { known(&OF_LOOP, loop_kind) } else { None };
    of_loop.or_else(|| known(&OF_TASK, source)).unwrap_or(source)
}

fn loop_kind(told: &JsonObject) -> String {
    text(told.get("llm_event_type")).unwrap_or_default()
}

/// Returns the event with what its metadata say of actions beside it.
fn promoted(source: &str, told: &JsonObject, metadata: &JsonObject) -> JsonObject {
    let mut payload = told.clone();
    if source == "task_llm_stream" {
        for key in PROMOTED {
            if let Some(value) = metadata.get(key) {
                payload.set(key, value.clone());
            }
        }
    }
    payload
}

/// Returns the run context of the task that the last event of a stream holds.
fn context_of(metadata: &JsonObject, mint: &mut dyn Mint) -> Option<RunContext> {
    let task = object(metadata.get("task"));
    let of_task = object(task.get("metadata"));
    let context = of_task.get("run_context").filter(|context| context.is_object())?;
    RunContext::from_json(context, mint).ok()
}

/// Returns the object; empty without any.
pub(crate) fn object(value: Option<&JsonText>) -> JsonObject {
    value.filter(|value| value.is_object()).and_then(|value| value.read().ok()).unwrap_or_default()
}

/// Returns Python's `str` of a value; `None` if it is absent or null.
pub(crate) fn text(value: Option<&JsonText>) -> Option<String> {
    value.filter(|value| !value.is_null()).map(python::text)
}
