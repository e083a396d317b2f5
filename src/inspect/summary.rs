//! One line of plain words for every event, for lists that people read.

use std::collections::HashMap;

use proto_events::call::CallEvent;
use proto_events::codec::AnyEvent;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::Part;
use proto_events::session::SessionEvent;
use proto_events::task::TaskEvent;
use proto_events::turn::TurnMessage;

use super::view::EventRow;
use crate::audit::json::{call_kind, one_line};

/// Remembers what calls are about, so that their later events can say it too. Feed it events in order.
#[derive(Debug, Default)]
pub struct Summaries {
    targets: HashMap<(String, String), String>,
}

impl Summaries {
    /// What happened, in one line.
    pub fn of(&mut self, row: &EventRow) -> String {
        let line = match &row.event {
            Err(error) => format!("cannot be read: {error}"),
            Ok(AnyEvent::Task(TaskEvent::Call(event))) => self.call(row.stream.as_str(), event),
            Ok(AnyEvent::Task(event)) => task(event),
            Ok(AnyEvent::Session(event)) => session(event),
        };
        on_one_line(&line)
    }

    fn call(&mut self, stream: &str, event: &CallEvent) -> String {
        let key = (stream.to_owned(), event.call_id().to_owned());
        if let CallEvent::Requested(request) = event {
            let target = format!("{} {}", call_kind(request.kind), request.target);
            let line = format!("{target} {} · {}", one_line(&request.args), request.recovery.as_str());
            self.targets.insert(key, target);
            return line;
        }
        let over = !matches!(event, CallEvent::Dispatched { .. } | CallEvent::TimedOut { .. });
        let known = if over { self.targets.remove(&key) } else { self.targets.get(&key).cloned() };
        let target = known.unwrap_or_else(|| event.call_id().to_owned());
        format!("{target} {}", outcome(event))
    }
}

fn outcome(event: &CallEvent) -> String {
    match event {
        CallEvent::Requested(_) => String::new(),
        CallEvent::Dispatched { attempt, cause, .. } if cause.is_empty() => format!("· attempt {attempt}"),
        CallEvent::Dispatched { attempt, cause, .. } => format!("· attempt {attempt}, because {cause}"),
        CallEvent::Succeeded { result, .. } => format!("→ {}", shown_result(result)),
        CallEvent::Failed { failure, .. } => {
            format!("→ {}: {}", failure.error_type, failure.message)
        }
        CallEvent::TimedOut { attempt, after_ms, .. } => {
            format!("· attempt {attempt} had no answer within {after_ms} ms")
        }
        CallEvent::Canceled { stage, .. } => format!("· given up ({stage:?})").to_lowercase(),
        CallEvent::OutcomeUnknown { why, .. } => format!("→ nobody knows: {why}"),
        CallEvent::LateResultIgnored { succeeded: true, .. } => "· an answer came too late".to_owned(),
        CallEvent::LateResultIgnored { .. } => "· a failure came too late".to_owned(),
    }
}

/// A result as people read it: of a model's reply, which is a record of its own, its content.
pub fn shown_result(result: &JsonText) -> String {
    let content = result
        .is_object()
        .then(|| result.to_value().get("content").and_then(|text| text.as_str().map(str::to_owned)))
        .flatten();
    content.unwrap_or_else(|| one_line(result))
}

fn task(event: &TaskEvent) -> String {
    match event {
        TaskEvent::Submitted(posted) => match posted.messages.last() {
            Some(message) => parts(&message.parts),
            None => "no message".to_owned(),
        },
        TaskEvent::StateChanged { from, to } => format!("{from} → {to}"),
        TaskEvent::MessageAppended(message) => {
            format!("{}: {}", message.role.as_deref().unwrap_or("nobody"), parts(&message.parts))
        }
        TaskEvent::ArtifactAppended { artifact, .. } => parts(&artifact.parts),
        TaskEvent::MetadataMerged(entries) => {
            let keys: Vec<_> = entries.iter().map(|(key, _)| key).collect();
            keys.join(", ")
        }
        TaskEvent::CancelRequested { reason } => reason.clone().unwrap_or_default(),
        TaskEvent::InferMessageAppended(message) => turn_message(message),
        TaskEvent::Call(event) => outcome(event),
    }
}

fn session(event: &SessionEvent) -> String {
    match event {
        SessionEvent::Opened { session_id } => session_id.clone(),
        SessionEvent::SystemPromptSet(prompt) => prompt.content.clone(),
        SessionEvent::TurnStarted { task, .. } => task.clone(),
        SessionEvent::MessageAppended(message) => turn_message(message),
        SessionEvent::TurnCommitted { turn_id } => turn_id.clone(),
        SessionEvent::TurnAborted { reason, .. } => reason.clone(),
    }
}

fn turn_message(message: &TurnMessage) -> String {
    format!("{}: {}", message.message.role, message.message.content)
}

/// Parts as people read them.
pub fn parts(parts: &[Part]) -> String {
    parts.iter().map(part).collect::<Vec<_>>().join(" · ")
}

fn part(part: &Part) -> String {
    let content = part.content();
    let fields = content.read::<JsonObject>().unwrap_or_default();
    let said = |key: &str| fields.get(key).filter(|value| !value.is_null());
    let plain = |json: &JsonText| json.to_str().unwrap_or_else(|| one_line(json));
    match part.kind() {
        "text" | "infer_output" => plain(content),
        "tool_call" => {
            let args = said("args").map(one_line).unwrap_or_default();
            format!("tool {} {args}", said("tool_name").map(plain).unwrap_or_default())
        }
        "infer" => format!("infer \"{}\"", said("prompt").map(plain).unwrap_or_default()),
        "tool_output" => match (said("error"), said("result")) {
            (Some(error), _) => format!("error {}", one_line(error)),
            (None, Some(result)) => one_line(result),
            (None, None) => "null".to_owned(),
        },
        kind => format!("{kind} {}", one_line(content)),
    }
}

/// Control characters would move the cursor of whoever looks.
fn on_one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_as_people_would_tell_them() {
        let json = |text: &str| JsonText::parse(text).unwrap();
        for (part, told) in [
            (Part::text("hi"), "hi"),
            (Part::infer("why?"), "infer \"why?\""),
            (Part::tool_call_of("add", json(r#"{"a": 1}"#), None), r#"tool add {"a":1}"#),
            (Part::tool_output("c", json("7")), "7"),
            (Part::tool_failure("c", json(r#"{"message": "no"}"#)), r#"error {"message":"no"}"#),
            (Part::new("odd", json("[1, 2]")), "odd [1,2]"),
        ] {
            assert_eq!(parts(&[part]), told);
        }
        assert_eq!(on_one_line("a\n\u{1b}[2Jb"), "a  [2Jb");
    }
}
