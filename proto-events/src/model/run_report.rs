//! Run reports: what is kept of a run for people, derived from its events.

use serde::Serialize;

use crate::id::Mint;
use crate::json::{JsonObject, JsonText};
use crate::model::error::ModelError;
use crate::model::fields::{ModelFields, models};
use crate::model::redaction::redacted;
use crate::model::run_context::RunContext;
use crate::model::run_event::{RunEvent, object, text};

/// The report of a run: its events, and what they tell of contexts, actions, approvals, artifacts and costs.
///
/// On the wire an object of the fields below in their order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// The context of the run, where it is known.
    pub context: Option<RunContext>,
    /// The manifests of what the models were shown, call by call.
    pub context_manifests: Vec<JsonObject>,
    /// The events, in order.
    pub events: Vec<RunEvent>,
    /// The actions that were asked for, each once.
    pub actions: Vec<JsonObject>,
    /// The requests for approvals and the decisions.
    pub approvals: Vec<JsonObject>,
    /// The artifacts.
    pub artifacts: Vec<JsonObject>,
    /// The costs of model calls.
    pub metrics: Vec<JsonObject>,
    /// The task at its end, where the run has ended.
    pub final_task: Option<JsonObject>,
    /// Further data of the report.
    pub metadata: JsonObject,
    /// The time at which the report was made.
    pub created_at: String,
}

impl RunReport {
    /// Derives the report from the events of a run. It makes nothing up: the same events give the same report.
    pub fn from_events(
        events: Vec<RunEvent>,
        context: Option<RunContext>,
        created_at: impl Into<String>,
    ) -> Self {
        let mut actions: Vec<JsonObject> = Vec::new();
        for action in events.iter().filter_map(action_of) {
            let id = |action: &JsonObject| text(action.get("action_id")).filter(|id| !id.is_empty());
            let given = id(&action);
            if given.is_none() || !actions.iter().any(|known| id(known) == given) {
                actions.push(action);
            }
        }
        Self {
            context,
            context_manifests: events.iter().filter_map(manifest_of).collect(),
            actions,
            approvals: events.iter().filter_map(approval_of).collect(),
            artifacts: events.iter().filter_map(artifact_of).collect(),
            metrics: events.iter().filter_map(metrics_of).collect(),
            final_task: events.iter().rev().find_map(final_task_of),
            events,
            metadata: JsonObject::new(),
            created_at: created_at.into(),
        }
    }

    /// Reads a report; items that are no objects are dropped.
    ///
    /// # Errors
    /// [`ModelError`] if its context or an event is invalid.
    pub fn from_json(json: &JsonText, mint: &mut dyn Mint) -> Result<Self, ModelError> {
        let fields = ModelFields::from_json(json)?;
        let objects = |key: &str| -> Result<Vec<JsonObject>, ModelError> {
            let items = fields.optional_list(key)?;
            Ok(items.iter().filter(|item| item.is_object()).map(|item| object(Some(item))).collect())
        };
        let context = fields.get("context").filter(|context| context.is_object());
        let events: Vec<JsonText> =
            fields.optional_list("events")?.into_iter().filter(JsonText::is_object).collect();
        Ok(Self {
            context: context.map(|context| RunContext::from_json(context, mint)).transpose()?,
            context_manifests: objects("context_manifests")?,
            events: models("events", &events, |event| RunEvent::from_json(event, mint))?,
            actions: objects("actions")?,
            approvals: objects("approvals")?,
            artifacts: objects("artifacts")?,
            metrics: objects("metrics")?,
            final_task: fields
                .get("final_task")
                .filter(|task| task.is_object())
                .map(|task| object(Some(task))),
            metadata: fields.object("metadata")?,
            created_at: fields.coerced_truthy("created_at").unwrap_or_else(|| mint.timestamp()),
        })
    }

    /// Returns the report as Protolink writes it.
    pub fn to_json(&self) -> JsonText {
        JsonText::of_model(self)
    }

    /// Returns the report as Protolink writes it, with the secrets in it redacted by the names of their keys.
    pub fn to_redacted_json(&self) -> JsonText {
        redacted(&self.to_json())
    }

    /// Returns the events of a type, in order.
    pub fn events_of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a RunEvent> {
        self.events.iter().filter(move |event| event.kind == kind)
    }
}

fn metadata(event: &RunEvent) -> JsonObject {
    object(event.payload.get("metadata"))
}

fn is_object(value: Option<&JsonText>) -> bool {
    value.is_some_and(JsonText::is_object)
}

fn manifest_of(event: &RunEvent) -> Option<JsonObject> {
    let metadata = metadata(event);
    let told = [event.payload.get("manifest"), metadata.get("manifest")];
    told.into_iter().find(|manifest| is_object(*manifest)).map(object)
}

fn action_of(event: &RunEvent) -> Option<JsonObject> {
    let request = object(event.payload.get("request"));
    let told = [event.payload.get("action"), request.get("action")];
    told.into_iter().find(|action| is_object(*action)).map(object)
}

fn approval_of(event: &RunEvent) -> Option<JsonObject> {
    if !event.kind.starts_with("approval.") {
        return None;
    }
    let mut approval = JsonObject::new();
    approval.set("type", JsonText::string(&event.kind));
    for key in ["request", "decision"] {
        if let Some(value) = event.payload.get(key).filter(|value| value.is_object()) {
            approval.set(key, value.clone());
        }
    }
    Some(approval)
}

fn artifact_of(event: &RunEvent) -> Option<JsonObject> {
    let artifact = event.payload.get("artifact").filter(|_| event.kind == "task.artifact");
    artifact.filter(|artifact| artifact.is_object()).map(|artifact| object(Some(artifact)))
}

fn metrics_of(event: &RunEvent) -> Option<JsonObject> {
    let metrics = metadata(event);
    if text(event.payload.get("llm_event_type")).as_deref() == Some("llm_call_metrics") {
        return Some(metrics);
    }
    if event.kind != "llm.call.completed" {
        return None;
    }
    let mut metrics = metrics;
    metrics.remove("manifest");
    for key in ["provider", "model", "latency_ms", "streaming", "native", "metrics", "budget"] {
        if let Some(value) = event.payload.get(key) {
            metrics.set(key, value.clone());
        }
    }
    Some(metrics)
}

fn final_task_of(event: &RunEvent) -> Option<JsonObject> {
    let metadata = metadata(event);
    let task = metadata.get("task").filter(|task| event.last && task.is_object());
    task.map(|task| object(Some(task)))
}
