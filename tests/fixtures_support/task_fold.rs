//! Areas `lifecycle_transitions` and `task_helpers`: the task's decider.

use proto_events::decider::Decider;
use proto_events::envelope::{Metadata, Timestamp};
use proto_events::json;
use proto_events::json::{JsonObject, JsonText, JsonValue as Value};
use proto_events::model::{Artifact, Message, PostedTask, TaskState};
use proto_events::task::{ItemRef, Task, TaskCommand, TaskEvent, TaskRejection};
use taskreel_log::ports::Ports;

use super::{Case, Failure};

/// A task and the time, which advances with every command.
struct Fold {
    task: Task,
    metadata: Metadata,
    ports: Ports,
}

impl Fold {
    fn submitted(task: &Value) -> Result<Self, Failure> {
        let mut ports = Ports::default();
        let posted = PostedTask::from_json(&JsonText::from(task.clone()), &mut ports)?;
        let metadata = Metadata { at: Timestamp(1_700_000_000_000_001), ..Metadata::default() };
        let mut fold = Self { task: Task::default(), metadata, ports };
        fold.command(TaskCommand::Submit(Box::new(posted))).map_err(Failure::Unanswerable)?;
        Ok(fold)
    }

    fn command(&mut self, command: TaskCommand) -> Result<(), String> {
        let events = self.task.decide(command).map_err(|rejection| rejection.to_string())?;
        for event in events {
            self.task.evolve(&event, &self.metadata);
        }
        self.metadata.at.0 += 1;
        Ok(())
    }

    fn json(&self) -> Value {
        self.task.to_json().tree()
    }
}

/// Returns the result of a case about the lifecycle's edges.
pub(crate) fn lifecycle_transitions(case: &Case) -> Result<Value, Failure> {
    let mut fold = Fold::submitted(&json!({"id": "t", "state": case.input()["from"], "created_at": "x"}))?;
    let mut steps = Vec::new();
    for to in case.input()["transitions"].as_array().into_iter().flatten() {
        let went = match TaskState::from_json(&JsonText::from(to.clone())) {
            Err(unknown) => Err(unknown.to_string()),
            Ok(to) => edge(&mut fold, to),
        };
        let state = fold.task.state();
        let mut step = json!({"to": to, "ok": went.is_ok(), "state": state, "terminal": state.is_terminal()});
        if let Err(message) = went {
            step["error"] = json!({"type": "ValueError", "message": message});
        }
        steps.push(step);
    }
    Ok(json!({"steps": steps, "metadata": fold.json()["metadata"]}))
}

/// Folds one edge of the table. The area `task_helpers` covers `begin`, `complete` and the other helpers.
fn edge(fold: &mut Fold, to: TaskState) -> Result<(), String> {
    let from = fold.task.state();
    if from == to {
        return Ok(());
    }
    if !from.can_become(to) {
        return Err(TaskRejection::InvalidTransition { from, to }.to_string());
    }
    fold.task.evolve(&TaskEvent::state_changed(from, to), &fold.metadata);
    Ok(())
}

pub(crate) fn task_helpers(case: &Case) -> Result<Value, Failure> {
    let mut fold = Fold::submitted(&case.input()["task"])?;
    let mut log = Vec::new();
    for op in case.input()["ops"].as_array().into_iter().flatten() {
        let command = command(op, &mut fold.ports)?;
        log.push(match fold.command(command) {
            Ok(()) => json!("ok"),
            Err(message) => json!({"type": "ValueError", "message": message}),
        });
    }
    let last = fold.task.last_item().map(|item| {
        let kind = if matches!(item, ItemRef::Message(_)) { "message" } else { "artifact" };
        json!({"kind": kind, "id": fold.task.item_id(item)})
    });
    let content = fold.task.last_part_content().map(JsonText::tree);
    Ok(json!({"log": log, "task": fold.json(), "last_item": last, "last_part_content": content}))
}

fn command(op: &Value, ports: &mut Ports) -> Result<TaskCommand, Failure> {
    let text = |key: &str| op[key].as_str().unwrap_or_default().to_owned();
    let message = |ports: &mut Ports| -> Result<Option<Message>, Failure> {
        match op.get("message").filter(|message| !message.is_null()) {
            None => Ok(None),
            Some(message) => Ok(Some(Message::from_json(&JsonText::from(message.clone()), ports)?)),
        }
    };
    Ok(match op["op"].as_str().unwrap_or_default() {
        "begin" => TaskCommand::Begin,
        "complete" => TaskCommand::Complete(Some(Message::agent(&text("text"), ports))),
        "fail" => TaskCommand::Fail { error: text("error") },
        "require_input" => TaskCommand::RequireInput(message(ports)?),
        "cancel" => {
            let reason = op["reason"].as_str().map(str::to_owned);
            TaskCommand::Cancel { reason, metadata: JsonObject::new() }
        }
        "add_message" => {
            let message = message(ports)?;
            TaskCommand::AppendMessage(
                message.ok_or_else(|| Failure::Unanswerable("add_message without one".to_owned()))?,
            )
        }
        "add_artifact" => {
            let artifact = Artifact::from_json(&JsonText::from(op["artifact"].clone()), ports)?;
            TaskCommand::AppendArtifact { artifact, part: None }
        }
        other => return Err(Failure::Unanswerable(format!("no operation `{other}`"))),
    })
}
