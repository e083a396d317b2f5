//! Events as complete JSON, as `export` writes them and readers show them. Free-form values keep their own
//! text.

mod prompt;
mod state;
mod turns;
mod values;
mod webhooks;

use proto_events::call::{
    Answer, CallEvent, CallFailure, CallKind, CallOrigin, CallRequested, CancelStage, Costs, ParentCall,
    Price, Verdict, VerdictBy,
};
use proto_events::codec::AnyEvent;
use proto_events::definition::{AgentEvent, AgentHistory, Aspect, RevisedText};
use proto_events::json::{JsonObject, JsonText, JsonValue as Value};
use proto_events::model::LimitUse;
use proto_events::registry::{RegisteredAgent, RegistryEvent, RegistryState};
use proto_events::system::{AgentRevision, SystemEvent, SystemHistory, ToolLeftOut, WriterStart};
use proto_events::task::{ApprovalDecided, ApprovalRequested, TaskEvent};
use proto_events::tool_store::{ToolEntry, ToolStore};

use crate::audit::json::prompt::prompt;
pub use crate::audit::json::state::flow_json;
use crate::audit::json::state::{flow_event, session_event, tool_event};
use crate::audit::json::turns::{turn_message, usage_json};
pub use crate::audit::json::values::{number, object, one_line, text, text_or_null};
use crate::audit::json::webhooks::webhook_event;
pub use crate::audit::json::webhooks::webhook_json;

/// Returns the fields of an event, without its kind.
pub fn event_json(event: &AnyEvent) -> JsonText {
    match event {
        AnyEvent::Task(event) => task_event(event),
        AnyEvent::Session(event) => session_event(event),
        AnyEvent::Tool(event) => tool_event(event),
        AnyEvent::System(event) => system_event(event),
        AnyEvent::Agent(event) => agent_event(event),
        AnyEvent::Flow(event) => flow_event(event),
        AnyEvent::Registry(event) => registry_event(event),
    }
}

/// A limit of a budget, with figures as JSON numbers.
fn limit_use(over: &LimitUse) -> JsonText {
    let figure = |text: String| JsonText::parse(&text).unwrap_or_else(|_| JsonText::string(&text));
    object([
        ("limit", text(over.limit.name())),
        ("used", figure(over.used_text())),
        ("allowed", figure(over.allowed_text())),
    ])
}

fn task_event(event: &TaskEvent) -> JsonText {
    match event {
        TaskEvent::Submitted(posted) => object([("task", posted.to_json())]),
        TaskEvent::StateChanged { from, to, budget } => {
            let (from, to) = (text(from.as_str()), text(to.as_str()));
            match budget {
                Some(over) => object([("from", from), ("to", to), ("budget", limit_use(over))]),
                None => object([("from", from), ("to", to)]),
            }
        }
        TaskEvent::PostedAgain { source } => object([("source", text(&source.to_string()))]),
        TaskEvent::MessageAppended(message) => object([("message", message.to_json())]),
        TaskEvent::ArtifactAppended { artifact, part } => {
            object([("artifact", artifact.to_json()), ("part", part.map_or_else(JsonText::null, number))])
        }
        TaskEvent::ArtifactPartAppended { artifact, is_last } => {
            object([("artifact", artifact.to_json()), ("last", JsonText::from(Value::from(*is_last)))])
        }
        TaskEvent::MetadataMerged(entries) => object([("metadata", JsonText::of_model(entries))]),
        TaskEvent::CancelRequested { reason } => object([("reason", text_or_null(reason.as_deref()))]),
        TaskEvent::ApprovalRequested(asked) => approval(asked),
        TaskEvent::ApprovalDecided(decided) => approval_decided(decided),
        TaskEvent::InferMessageAppended(message) => turn_message(message),
        TaskEvent::Webhook(event) => webhook_event(event),
        TaskEvent::Call(event) => call_event(event),
    }
}

/// Returns the fields of an approval request.
pub fn approval(asked: &ApprovalRequested) -> JsonText {
    object([
        ("approval_id", text(&asked.approval_id)),
        ("call_id", text(&asked.call_id)),
        ("tool", text(&asked.tool)),
        ("args", asked.args.clone()),
        ("capabilities", JsonText::from(Value::from(asked.capabilities.clone()))),
        ("origin", origin(&asked.origin)),
    ])
}

fn approval_decided(decided: &ApprovalDecided) -> JsonText {
    object([
        ("approval_id", text(&decided.approval_id)),
        ("approved", JsonText::from(Value::from(decided.approved))),
        ("reason", text_or_null(decided.reason.as_deref())),
        ("decided_by", text(&decided.decided_by.name)),
        ("basis", text(decided.decided_by.basis.as_str())),
    ])
}

fn system_event(event: &SystemEvent) -> JsonText {
    match event {
        SystemEvent::Started(WriterStart { epoch, release, build, agents }) => {
            let agent = |agent: &AgentRevision| {
                object([("name", text(&agent.name)), ("revision", number(agent.number))])
            };
            object([
                ("epoch", number(*epoch)),
                ("release", text(release)),
                ("build", text_or_null(build.as_deref())),
                ("agents", JsonText::of_model(&agents.iter().map(agent).collect::<Vec<_>>())),
            ])
        }
        SystemEvent::Stopped { epoch, reason } => {
            object([("epoch", number(*epoch)), ("reason", text_or_null(reason.as_deref()))])
        }
        SystemEvent::ToolServerSeen(seen) => {
            let left = |left: &ToolLeftOut| object([("tool", text(&left.tool)), ("why", text(&left.why))]);
            object([
                ("epoch", number(seen.epoch)),
                ("agent", text(&seen.agent)),
                ("server", text(&seen.server)),
                ("failure", text_or_null(seen.failure.as_deref())),
                ("tools", JsonText::of_model(&seen.tools)),
                ("left_out", JsonText::of_model(&seen.left_out.iter().map(left).collect::<Vec<_>>())),
            ])
        }
    }
}

fn agent_event(event: &AgentEvent) -> JsonText {
    let AgentEvent::Revised(revised) = event;
    let revised_text = |revised: &RevisedText| {
        object([("since", number(revised.since)), ("text", text_or_null(revised.text.as_deref()))])
    };
    let aspects = Aspect::ALL.iter().zip(&revised.texts);
    let texts = aspects.map(|(aspect, revised)| (aspect.as_str().to_owned(), revised_text(revised)));
    let revision = ("number".to_owned(), number(revised.number));
    JsonText::of_model(&std::iter::once(revision).chain(texts).collect::<JsonObject>())
}

fn registry_event(event: &RegistryEvent) -> JsonText {
    let url = ("url", text(event.url()));
    match event {
        RegistryEvent::Registered { card } => object([url, ("card", card.to_json())]),
        RegistryEvent::Unregistered { .. } => object([url]),
        RegistryEvent::Expired { ttl_ms, .. } => object([url, ("ttl_ms", number(*ttl_ms))]),
    }
}

/// Returns the agents of a registry by their addresses, each with its card, its registrant and the time of its
/// registration.
pub fn registry_json(registry: &RegistryState) -> JsonText {
    let agent = |agent: &RegisteredAgent| {
        let shown = object([
            ("card", agent.card.to_json()),
            ("by", text(&agent.by.name)),
            ("basis", text(agent.by.basis.as_str())),
            ("at", text(&agent.at.to_string())),
        ]);
        (agent.card.url.clone(), shown)
    };
    JsonText::of_model(&registry.iter().map(agent).collect::<JsonObject>())
}

/// Returns the programs that wrote to a partition.
pub fn system_json(history: &SystemHistory) -> JsonText {
    let last = history.last().map(|started| system_event(&SystemEvent::Started(started.clone())));
    object([
        ("starts", number(history.starts())),
        ("unclean_ends", number(history.unclean_ends())),
        ("running", JsonText::from(Value::from(history.is_running()))),
        ("last_start", last.unwrap_or_else(JsonText::null)),
    ])
}

/// Returns an agent's newest definition.
pub fn definition_json(history: &AgentHistory) -> JsonText {
    let newest = history.newest().cloned().unwrap_or_default();
    let texts = Aspect::ALL.into_iter().map(|aspect| {
        let said = newest.text(aspect);
        // Tools, agents and parameters are JSON already.
        (aspect.as_str().to_owned(), JsonText::parse(said).unwrap_or_else(|_| text(said)))
    });
    let revision = ("revision".to_owned(), number(history.number()));
    JsonText::of_model(&std::iter::once(revision).chain(texts).collect::<JsonObject>())
}

/// Returns a tool's state: each key with its value and version.
pub fn tool_store_json(store: &ToolStore) -> JsonText {
    let entry = |(key, entry): (&str, &ToolEntry)| {
        let shown = object([("value", entry.value.clone()), ("version", number(entry.version.0))]);
        (key.to_owned(), shown)
    };
    JsonText::of_model(&store.list("").map(entry).collect::<JsonObject>())
}

/// Returns the fields of a call's event.
pub fn call_event(event: &CallEvent) -> JsonText {
    let id = ("call_id", text(event.call_id()));
    match event {
        CallEvent::Requested(request) => requested(request),
        CallEvent::Dispatched { attempt, epoch, cause, .. } => {
            object([id, ("attempt", number(*attempt)), ("epoch", number(*epoch)), ("cause", text(cause))])
        }
        CallEvent::Succeeded { attempt, result, usage, .. } => object([
            id,
            ("attempt", number(*attempt)),
            ("result", result.clone()),
            ("usage", usage_json(*usage)),
        ]),
        CallEvent::RetryScheduled { attempt, failure, due, .. } => object([
            id,
            ("attempt", number(*attempt)),
            ("failure", failure_json(failure)),
            ("due", text(&due.to_string())),
        ]),
        CallEvent::Failed { attempt, failure, .. } => {
            object([id, ("attempt", number(*attempt)), ("failure", failure_json(failure))])
        }
        CallEvent::TimedOut { attempt, after_ms, limit, .. } => object([
            id,
            ("attempt", number(*attempt)),
            ("after_ms", number(*after_ms)),
            ("limit", text(limit.as_str())),
        ]),
        CallEvent::Canceled { stage, .. } => object([id, ("stage", text(stage_word(*stage)))]),
        CallEvent::OutcomeUnknown { attempt, why, .. } => {
            object([id, ("attempt", number(*attempt)), ("why", text(why))])
        }
        CallEvent::Reconciled { attempt, verdict, by, .. } => {
            let (result, why) = match verdict {
                Verdict::Landed(result) => (result.clone(), JsonText::null()),
                Verdict::DidNotHappen => (JsonText::null(), JsonText::null()),
                Verdict::Inconclusive(why) => (JsonText::null(), text(why)),
            };
            let by = match by {
                VerdictBy::Probe => text("probe"),
                VerdictBy::Operator(person) => {
                    object([("operator", text(&person.name)), ("basis", text(person.basis.as_str()))])
                }
            };
            object([
                id,
                ("attempt", number(*attempt)),
                ("verdict", text(verdict.as_str())),
                ("result", result),
                ("why", why),
                ("by", by),
            ])
        }
        CallEvent::Abandoned { reason, by, .. } => {
            object([id, ("reason", text(reason)), ("by", text(&by.name)), ("basis", text(by.basis.as_str()))])
        }
        CallEvent::Asked { attempt, question, .. } => {
            object([id, ("attempt", number(*attempt)), ("question", text(question))])
        }
        CallEvent::Accepted { attempt, handle, .. } => {
            object([id, ("attempt", number(*attempt)), ("handle", text(handle))])
        }
        CallEvent::Answered { answer: Answer::Given(answer), .. } => object([id, ("answer", text(answer))]),
        CallEvent::Answered { answer: Answer::Declined(why), .. } => object([id, ("declined", text(why))]),
        CallEvent::LateResultIgnored { attempt, succeeded, said, .. } => object([
            id,
            ("attempt", number(*attempt)),
            ("succeeded", JsonText::from(Value::from(*succeeded))),
            ("said", text(said)),
        ]),
    }
}

fn stage_word(stage: CancelStage) -> &'static str {
    match stage {
        CancelStage::Requested => "requested",
        CancelStage::InFlight => "in-flight",
    }
}

/// Returns the name of a call's kind.
pub fn call_kind(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Tool => "tool",
        CallKind::Infer => "infer",
        CallKind::Delegate => "delegate",
        CallKind::Handler => "handler",
    }
}

fn requested(request: &CallRequested) -> JsonText {
    object([
        ("call_id", text(&request.call_id)),
        ("kind", text(call_kind(request.kind))),
        ("target", text(&request.target)),
        ("args", request.args.clone()),
        ("idempotency_key", text(&request.idempotency_key)),
        ("recovery", text(request.recovery.as_str())),
        ("recovery_source", text(&request.recovery_source)),
        ("timeout_ms", number(request.timeout_ms)),
        ("heartbeat_ms", request.heartbeat_ms.map_or_else(JsonText::null, number)),
        ("max_attempts", number(request.max_attempts)),
        ("retry_errors", JsonText::from(Value::from(request.retry_errors))),
        ("window_ms", request.window_ms.map_or_else(JsonText::null, number)),
        ("deadline", request.deadline.map_or_else(JsonText::null, |deadline| text(&deadline.to_string()))),
        ("secrets", JsonText::from(Value::from(request.secrets.clone()))),
        ("capabilities", JsonText::from(Value::from(request.capabilities.clone()))),
        ("approval", text_or_null(request.approval.as_deref())),
        ("origin", origin(&request.origin)),
        ("prompt", request.prompt.as_ref().map_or_else(JsonText::null, prompt)),
        ("price", request.price.as_ref().map_or_else(JsonText::null, price)),
    ])
}

fn price(price: &Price) -> JsonText {
    object([
        ("input_per_million", number(price.input_per_million)),
        ("output_per_million", number(price.output_per_million)),
        ("currency", text(&price.currency)),
    ])
}

/// Returns sums of money as JSON: a decimal number in a text for each currency.
pub fn costs_json(costs: &Costs) -> JsonText {
    let sums = costs.iter().map(|(currency, cost)| (currency.to_owned(), text(&cost.to_string())));
    sums.collect::<JsonObject>().to_text()
}

fn origin(origin: &CallOrigin) -> JsonText {
    object([
        ("run", number(origin.run)),
        ("part", number(origin.part)),
        ("step", number(origin.step)),
        ("infer_call", text_or_null(origin.infer_call.as_deref())),
        ("part_call_id", text_or_null(origin.part_call_id.as_deref())),
        ("parent", origin.parent.as_ref().map_or_else(JsonText::null, parent_json)),
    ])
}

/// Returns the call that asked for another one as JSON.
pub(crate) fn parent_json(parent: &ParentCall) -> JsonText {
    object([("call_id", text(&parent.call_id)), ("ordinal", number(parent.ordinal))])
}

fn failure_json(failure: &CallFailure) -> JsonText {
    object([
        ("class", text(failure.class.as_str())),
        ("type", text(&failure.error_type)),
        ("message", text(&failure.message)),
        ("usage", usage_json(failure.usage)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_drops_what_is_between_tokens_and_nothing_else() {
        let json = JsonText::parse("{\n  \"a b\" : [1.50, \"x \\\" y\\n\"],\t\"c\": 1e400 }").unwrap();
        assert_eq!(one_line(&json), r#"{"a b":[1.50,"x \" y\n"],"c":1e400}"#);
    }

    #[test]
    fn an_event_as_deep_as_it_may_be_is_shown_whole() {
        let deep = JsonText::parse(&format!("{}{}", "[".repeat(128), "]".repeat(128))).unwrap();
        let entries: JsonObject = [("deep".to_owned(), deep.clone())].into_iter().collect();
        let json = event_json(&AnyEvent::Task(TaskEvent::MetadataMerged(entries)));
        assert_eq!(json.as_str(), format!("{{\"metadata\":{{\"deep\":{deep}}}}}"));
    }
}
