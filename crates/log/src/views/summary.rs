//! A summary line in plain words for each event, for lists that people read.

use std::collections::HashMap;

use proto_events::call::{Answer, CallEvent, TimeLimit, Verdict, VerdictBy};
use proto_events::codec::AnyEvent;
use proto_events::definition::{AgentEvent, Aspect, DefinitionRevision};
use proto_events::flow::FlowEvent;
use proto_events::registry::RegistryEvent;
use proto_events::session::{HistoryCompacted, SessionEvent};
use proto_events::system::{AgentRevision, SystemEvent, WriterStart};
use proto_events::task::TaskEvent;
use proto_events::tool_store::ToolStoreEvent;
use proto_events::turn::TurnMessage;

use crate::audit::json::{call_kind, one_line};
use crate::audit::words;
use crate::audit::words::{parts_text, result_text};
use crate::views::event_row::EventRow;

/// Summaries of events, taken in order: it remembers the calls, so that their later events can name them too.
#[derive(Debug, Clone, Default)]
pub struct Summaries {
    targets: HashMap<(String, String), String>,
}

impl Summaries {
    /// Returns the event's summary on one line.
    pub fn of(&mut self, row: &EventRow) -> String {
        let line = match &row.event {
            Err(error) => format!("cannot be read: {error}"),
            Ok(AnyEvent::Task(TaskEvent::Call(event))) => self.call(row.stream.as_str(), event),
            Ok(AnyEvent::Task(event)) => task(event),
            Ok(AnyEvent::Session(event)) => session(event),
            Ok(AnyEvent::Tool(event)) => tool(event),
            Ok(AnyEvent::System(event)) => system(event),
            Ok(AnyEvent::Agent(AgentEvent::Revised(revised))) => revision(revised),
            Ok(AnyEvent::Flow(event)) => flow(event),
            Ok(AnyEvent::Registry(event)) => registry(event),
        };
        on_one_line(&line)
    }

    /// Takes an event that nobody wants in words, so that later ones of its call can name the call.
    pub(crate) fn record(&mut self, row: &EventRow) {
        if let Ok(AnyEvent::Task(TaskEvent::Call(event))) = &row.event {
            self.target(row.stream.as_str(), event);
        }
    }

    fn call(&mut self, stream: &str, event: &CallEvent) -> String {
        let target = self.target(stream, event);
        let CallEvent::Requested(request) = event else { return format!("{target} {}", outcome(event)) };
        let line = format!("{target} {} · {}", one_line(&request.args), request.recovery.as_str());
        words::reduction(request).map_or(line.clone(), |reduced| format!("{line} · {reduced}"))
    }

    /// Returns the name of the call that an event tells of.
    fn target(&mut self, stream: &str, event: &CallEvent) -> String {
        let key = (stream.to_owned(), event.call_id().to_owned());
        if let CallEvent::Requested(request) = event {
            let target = format!("{} {}", call_kind(request.kind), request.target);
            self.targets.insert(key, target.clone());
            return target;
        }
        let over = !matches!(
            event,
            CallEvent::Dispatched { .. }
                | CallEvent::TimedOut { .. }
                | CallEvent::OutcomeUnknown { .. }
                | CallEvent::Reconciled { .. }
                | CallEvent::Asked { .. }
                | CallEvent::Accepted { .. }
                | CallEvent::Answered { .. }
        );
        let known = if over { self.targets.remove(&key) } else { self.targets.get(&key).cloned() };
        known.unwrap_or_else(|| event.call_id().to_owned())
    }
}

fn outcome(event: &CallEvent) -> String {
    match event {
        CallEvent::Requested(_) => String::new(),
        CallEvent::Dispatched { attempt, cause, .. } if cause.is_empty() => format!("· attempt {attempt}"),
        CallEvent::Dispatched { attempt, cause, .. } => format!("· attempt {attempt}, because {cause}"),
        CallEvent::Succeeded { result, .. } => format!("→ {}", result_text(result)),
        CallEvent::Failed { failure, .. } => {
            format!("→ {}: {}", failure.error_type, failure.message)
        }
        CallEvent::RetryScheduled { attempt, failure, due, .. } => {
            let failed = format!("{}: {}", failure.error_type, failure.message);
            format!("· attempt {attempt} failed ({failed}), the next one is sent at {due}")
        }
        CallEvent::TimedOut { attempt, after_ms, limit: TimeLimit::Heartbeat, .. } => {
            format!("· attempt {attempt} reported no progress for {after_ms} ms")
        }
        CallEvent::TimedOut { attempt, after_ms, .. } => {
            format!("· attempt {attempt} timed out after {after_ms} ms")
        }
        CallEvent::Canceled { stage, .. } => format!("· canceled ({stage:?})").to_lowercase(),
        CallEvent::OutcomeUnknown { why, .. } => format!("→ outcome unknown: {why}"),
        CallEvent::Reconciled { verdict, by, .. } => {
            let by = match by {
                VerdictBy::Probe => "the tool's probe",
                VerdictBy::Operator(person) if person.name.is_empty() => "a person",
                VerdictBy::Operator(person) => &person.name,
            };
            format!("· {} ({by})", verdict_text(verdict))
        }
        CallEvent::Abandoned { reason, .. } => format!("· abandoned: {reason}"),
        CallEvent::Asked { attempt, question, .. } => {
            format!("· attempt {attempt} asks a person: {question}")
        }
        CallEvent::Accepted { attempt, handle, .. } => {
            format!("· attempt {attempt}: the other agent has the task, as {handle}")
        }
        CallEvent::Answered { answer: Answer::Given(answer), .. } => format!("· a person answers: {answer}"),
        CallEvent::Answered { answer: Answer::Declined(why), .. } => {
            format!("· a person declines to answer: {why}")
        }
        CallEvent::LateResultIgnored { succeeded: true, .. } => "· a late result was ignored".to_owned(),
        CallEvent::LateResultIgnored { .. } => "· a late failure was ignored".to_owned(),
    }
}

fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Landed(result) => format!("it took effect: {}", result_text(result)),
        Verdict::DidNotHappen => "it did not happen".to_owned(),
        Verdict::Inconclusive(why) => format!("inconclusive: {why}"),
    }
}

fn task(event: &TaskEvent) -> String {
    match event {
        TaskEvent::Submitted(posted) => match posted.messages.last() {
            Some(message) => parts_text(&message.parts),
            None => "no message".to_owned(),
        },
        TaskEvent::StateChanged { from, to, .. } => format!("{from} → {to}"),
        TaskEvent::MessageAppended(message) => {
            format!("{}: {}", message.role.as_deref().unwrap_or("nobody"), parts_text(&message.parts))
        }
        TaskEvent::ArtifactAppended { artifact, .. } | TaskEvent::ArtifactPartAppended { artifact, .. } => {
            parts_text(&artifact.parts)
        }
        TaskEvent::MetadataMerged(entries) => {
            let keys: Vec<_> = entries.iter().map(|(key, _)| key).collect();
            keys.join(", ")
        }
        TaskEvent::PostedAgain { .. } => "the task was posted again with new items".to_owned(),
        TaskEvent::CancelRequested { reason } => reason.clone().unwrap_or_default(),
        TaskEvent::ApprovalRequested(asked) => {
            format!("tool {} {} · {}", asked.tool, one_line(&asked.args), asked.capabilities.join(", "))
        }
        TaskEvent::ApprovalDecided(decided) => words::decision_text(decided),
        TaskEvent::InferMessageAppended(message) => turn_message(message),
        TaskEvent::Webhook(event) => words::webhook_text(event),
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
        SessionEvent::HistoryCompacted(compacted) => {
            let HistoryCompacted { strategy, removed, summary, before_tokens, after_tokens, .. } =
                &**compacted;
            let by = if summary.is_some() { " for a summary" } else { "" };
            let strategy = strategy.as_str();
            format!("{strategy}: {removed} messages removed{by} · {before_tokens} → {after_tokens} tokens")
        }
        SessionEvent::Cleared { messages } => format!("{messages} messages removed"),
        SessionEvent::SummaryRequested(request) => {
            format!("{} · {} messages", request.target, request.messages)
        }
        SessionEvent::SummaryReceived { dropped: Some(why), .. } => format!("dropped: {why}"),
        SessionEvent::SummaryReceived { reply, dropped: None, .. } => one_line(reply),
        SessionEvent::SummaryFailed { error_type, message, .. } => format!("{error_type}: {message}"),
    }
}

fn flow(event: &FlowEvent) -> String {
    match event {
        FlowEvent::CheckpointPut { value } => one_line(value),
        FlowEvent::CheckpointDeleted { version } => format!("the checkpoint of version {version}"),
    }
}

fn system(event: &SystemEvent) -> String {
    match event {
        SystemEvent::Started(WriterStart { release, build, agents, .. }) => {
            let agent = |agent: &AgentRevision| format!("{} revision {}", agent.name, agent.number);
            let agents: Vec<_> = agents.iter().map(agent).collect();
            let build = build.as_ref().map_or_else(String::new, |build| format!(" · build {build}"));
            format!("taskreel {release}{build} · {}", agents.join(", "))
        }
        SystemEvent::Stopped { reason: None, .. } => "in order".to_owned(),
        SystemEvent::Stopped { reason: Some(reason), .. } => format!("the start failed: {reason}"),
        SystemEvent::ToolServerSeen(seen) => words::tool_server(seen),
    }
}

fn revision(revised: &DefinitionRevision) -> String {
    let new = Aspect::ALL.iter().zip(&revised.texts).filter(|(_, text)| text.since == revised.number);
    let new: Vec<_> = new.map(|(aspect, _)| aspect.as_str()).collect();
    format!("revision {} · new: {}", revised.number, new.join(", "))
}

fn registry(event: &RegistryEvent) -> String {
    match event {
        RegistryEvent::Registered { card } => {
            format!("{} at {} · {} · {}", card.name, card.url, card.role, card.description)
        }
        RegistryEvent::Unregistered { url } => url.clone(),
        RegistryEvent::Expired { url, ttl_ms } => {
            format!("{url} · not heard of for {:?}", std::time::Duration::from_millis(*ttl_ms))
        }
    }
}

fn tool(event: &ToolStoreEvent) -> String {
    match event {
        ToolStoreEvent::KeyPut { key, value, .. } | ToolStoreEvent::KeySet { key, value } => {
            format!("{key} = {}", one_line(value))
        }
        ToolStoreEvent::KeyDeleted { key, .. } | ToolStoreEvent::KeyRemoved { key } => {
            format!("{key} deleted")
        }
        ToolStoreEvent::Cleared { keys } => format!("{keys} keys deleted"),
    }
}

fn turn_message(message: &TurnMessage) -> String {
    format!("{}: {}", message.message.role, message.message.content)
}

/// Replaces control characters by blanks, since they would move the reader's cursor.
fn on_one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::on_one_line;

    #[test]
    fn control_characters_become_blanks() {
        assert_eq!(on_one_line("a\n\u{1b}[2Jb"), "a  [2Jb");
    }
}
