//! A stream's state in words: all that the fold keeps and that decides what comes next, apart from how it is kept.

use proto_events::call::{Call, CallEvent, CallStatus};
use proto_events::codec::AnyEvent;
use proto_events::definition::{AgentHistory, Aspect};
use proto_events::envelope::Timestamp;
use proto_events::flow::FlowRun;
use proto_events::id::{Category, StreamId, Version};
use proto_events::json::{JsonObject, JsonText, JsonValue};
use proto_events::model::LlmMessage;
use proto_events::registry::RegistryState;
use proto_events::session::Session;
use proto_events::system::SystemHistory;
use proto_events::task::{Approval, Run, Task, TaskEvent};
use proto_events::tool_store::ToolStore;
use proto_events::turn::TurnMessage;
use taskreel_log::api::EventReader;
use taskreel_log::audit::event_json;
use taskreel_log::audit::json::{
    flow_json, number, object, registry_json, system_json, text, text_or_null, tool_store_json, webhook_json,
};
use taskreel_log::read::fold_stream;
use taskreel_log::views::call_json;

/// Returns the state of a stream after a version.
pub(crate) fn state(log: &dyn EventReader, stream: &StreamId, version: Version) -> JsonText {
    let at = Some(version);
    match stream.category().unwrap() {
        Category::Task => task(&fold_stream::<Task>(log, stream, at).unwrap().state),
        Category::Session => session(&fold_stream::<Session>(log, stream, at).unwrap().state),
        Category::Tool => tool(&fold_stream::<ToolStore>(log, stream, at).unwrap().state),
        Category::System => system_json(&fold_stream::<SystemHistory>(log, stream, at).unwrap().state),
        Category::Registry => registry_json(&fold_stream::<RegistryState>(log, stream, at).unwrap().state),
        Category::Agent => agent(&fold_stream::<AgentHistory>(log, stream, at).unwrap().state),
        Category::Flow => flow_json(&fold_stream::<FlowRun>(log, stream, at).unwrap().state),
    }
}

fn list(items: impl IntoIterator<Item = JsonText>) -> JsonText {
    JsonText::of_model(&items.into_iter().collect::<Vec<_>>())
}

fn time(at: Option<Timestamp>) -> JsonText {
    at.map_or_else(JsonText::null, |at| text(&at.to_string()))
}

fn flag(value: bool) -> JsonText {
    JsonText::from(JsonValue::from(value))
}

fn task(task: &Task) -> JsonText {
    let approvals = ["a1", "a2", "a3"].map(|id| flag(task.calls().uses_approval(id)));
    let stated = object([
        ("exists", flag(task.exists())),
        ("task", task.to_json()),
        ("error", text_or_null(task.error().as_deref())),
        ("last_item", text_or_null(task.last_item().and_then(|item| task.item_id(item)))),
        ("run", run(task, task.run())),
        ("paused", run(task, task.paused())),
        ("runs", number(task.runs())),
        ("worked_us", number(u64::try_from(task.worked().as_micros()).unwrap())),
        ("outputs", list(task.outputs().map(proto_events::model::Part::to_json))),
        ("turn", turn(task.turn().messages())),
        ("unanswered", JsonText::of_model(&task.turn().unanswered())),
        ("calls", list(task.calls().iter().map(call))),
        ("open", list(task.calls().open().map(|call| text(&call.request.call_id)))),
        ("of_part_1", list(task.calls().of_part(1, 1).map(|call| text(&call.request.call_id)))),
        ("approvals", list(task.approvals().iter().map(approval))),
        ("awaited", list(task.awaited_approvals().map(|it| text(&it.request.approval_id)))),
        ("used_approvals", list(approvals)),
    ]);
    // States that were written before there were webhooks have no such member.
    let mut webhooks = task.webhooks().iter().map(webhook_json).peekable();
    if webhooks.peek().is_none() {
        return stated;
    }
    let mut members: JsonObject = stated.read().unwrap();
    members.set("webhooks", list(webhooks));
    members.to_text()
}

fn run(task: &Task, run: Option<&Run>) -> JsonText {
    run.map_or_else(JsonText::null, |run| {
        object([
            ("item", text_or_null(run.item.and_then(|item| task.item_id(item)))),
            ("next_part", number(run.next_part)),
            ("began", time(Some(run.began))),
        ])
    })
}

fn turn(messages: &[TurnMessage]) -> JsonText {
    let of = |message: &TurnMessage| {
        let said = event_json(&AnyEvent::Task(TaskEvent::InferMessageAppended(message.clone())));
        object([("said", said), ("part", number(message.part))])
    };
    list(messages.iter().map(of))
}

fn call(call: &Call) -> JsonText {
    let request = CallEvent::Requested(Box::new(call.request.clone()));
    let due = match &call.status {
        CallStatus::RetryScheduled(due, why) => text(&format!("{due}: {why}")),
        _ => JsonText::null(),
    };
    let usage = call
        .usage
        .map_or_else(JsonText::null, |usage| list([number(usage.input_tokens), number(usage.output_tokens)]));
    object([
        ("request", event_json(&AnyEvent::Task(TaskEvent::Call(request)))),
        ("call", call_json(call)),
        ("due", due),
        ("epoch", number(call.epoch)),
        ("requested_at", time(Some(call.requested_at))),
        ("first_sent_at", time(call.first_sent_at)),
        ("sent_at", time(call.sent_at)),
        ("failed_at", time(call.failed_at)),
        ("usage", usage),
    ])
}

fn approval(approval: &Approval) -> JsonText {
    let decision = approval.decision.as_ref().map_or_else(JsonText::null, |(decided, at)| {
        let said = event_json(&AnyEvent::Task(TaskEvent::ApprovalDecided(decided.clone())));
        object([("said", said), ("at", time(Some(*at)))])
    });
    let asked = TaskEvent::ApprovalRequested(Box::new(approval.request.clone()));
    object([
        ("asked", event_json(&AnyEvent::Task(asked))),
        ("at", time(Some(approval.requested_at))),
        ("decision", decision),
    ])
}

fn session(session: &Session) -> JsonText {
    let open = session.open_turn().map_or_else(JsonText::null, |open| {
        object([
            ("turn_id", text(&open.turn_id)),
            ("task", text(&open.task)),
            ("prompt", open.system_prompt.as_ref().map_or_else(JsonText::null, LlmMessage::to_json)),
            ("messages", turn(open.turn.messages())),
            ("unanswered", JsonText::of_model(&open.turn.unanswered())),
        ])
    });
    object([
        ("id", text(session.id())),
        ("history", session.history().to_json()),
        ("commits", number(session.commits())),
        ("open", open),
    ])
}

fn tool(store: &ToolStore) -> JsonText {
    object([
        ("entries", tool_store_json(store)),
        ("version", number(store.version().0)),
        ("bytes", number(u64::try_from(store.bytes()).unwrap())),
    ])
}

fn agent(history: &AgentHistory) -> JsonText {
    list((1..=history.number()).map(|number| {
        let revision = history.revision(number).unwrap();
        list(Aspect::ALL.into_iter().map(|aspect| text(revision.text(aspect))))
    }))
}
