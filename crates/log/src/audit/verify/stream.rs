//! The verification of one stream: its chain, and the rules of its category.

use proto_events::call::CallKind;
use proto_events::codec::{AnyEvent, CodecError};
use proto_events::id::{Digest, StreamId, Version};
use proto_events::json::JsonValue;
use proto_events::model::TaskState;

use crate::api::record::StoredRecord;
use crate::audit::verify::asks::FilledMembers;
use crate::audit::verify::definitions::{AgentCheck, SystemCheck};
use crate::audit::verify::finding::{Finding, FindingKind};
use crate::audit::verify::flow::FlowCheck;
use crate::audit::verify::prompts::PromptTail;
use crate::audit::verify::registry::RegistryCheck;
use crate::audit::verify::session::SessionCheck;
use crate::audit::verify::task::{EventPlace, FaultAt, TaskCheck};
use crate::audit::verify::tool::ToolCheck;

/// An event of a record, decoded or not.
pub(crate) struct ReadEvent {
    pub(crate) version: u64,
    pub(crate) event: Result<AnyEvent, CodecError>,
}

/// Decodes the events of a record whose bodies are there.
pub(crate) fn read_events(stored: &StoredRecord) -> Vec<ReadEvent> {
    let record = &stored.record;
    let category = record.stream.category();
    let numbered = record.events.iter().zip(record.first_version.0..);
    let read = numbered.filter_map(|(event, version)| {
        let event = AnyEvent::decode(category, event.kind, event.schema, event.body()?);
        Some(ReadEvent { version, event })
    });
    read.collect()
}

/// The rules of a stream's category, and the stream as they have read it.
enum StreamRules {
    Task(Box<TaskCheck>),
    Session(Box<SessionCheck>),
    Tool(Box<ToolCheck>),
    System(Box<SystemCheck>),
    Agent(Box<AgentCheck>),
    Flow(Box<FlowCheck>),
    Registry(Box<RegistryCheck>),
}

/// A stream as read so far.
#[derive(Default)]
pub(crate) struct StreamCheck {
    version: u64,
    last_hash: Digest,
    /// The newest record of a session.
    tail: PromptTail,
    /// The rules; `None` until the first event that could be decoded.
    rules: Option<StreamRules>,
    /// Whether a newer release wrote an event: what follows from it is not known, so that no rule is asked from then
    /// on.
    is_newer: bool,
    /// Whether the records so far could not be read again, see [`StreamCheck::without_rules`].
    is_unread: bool,
    /// Whether a record does not follow from the one before.
    is_broken: bool,
}

impl StreamCheck {
    /// Returns the check of a stream of which only the end is known: its chain is checked, and no rule is asked.
    pub(crate) fn without_rules(version: Version, last_hash: Digest) -> Self {
        Self { version: version.0, last_hash, is_unread: true, ..Self::default() }
    }

    /// Whether the rules of its category are asked.
    pub(crate) fn has_rules(&self) -> bool {
        !self.is_newer && !self.is_unread
    }

    /// Whether the last hash stands for all records of the stream, and reading them again leads to the same check.
    pub(crate) fn is_chained(&self) -> bool {
        !self.is_broken && self.has_rules()
    }

    pub(crate) fn version(&self) -> Version {
        Version(self.version)
    }

    /// Returns the state of a task.
    pub(crate) fn state(&self) -> Option<TaskState> {
        match &self.rules {
            Some(StreamRules::Task(task)) => task.state(),
            _ => None,
        }
    }

    /// Whether a newer release wrote an event of the stream.
    pub(crate) fn is_newer(&self) -> bool {
        self.is_newer
    }

    pub(crate) fn last_hash(&self) -> Digest {
        self.last_hash
    }

    /// Returns the kind and target of a task's call.
    pub(crate) fn target(&self, call_id: &str) -> Option<(CallKind, &str)> {
        match &self.rules {
            Some(StreamRules::Task(task)) => task.target(call_id),
            _ => None,
        }
    }

    /// Returns what the intents of a task's newest record have that nobody asked for.
    pub(crate) fn filled_in(&self) -> &[FilledMembers] {
        match &self.rules {
            Some(StreamRules::Task(task)) => task.filled_in(),
            _ => &[],
        }
    }

    /// Returns the session that a task's metadata name.
    pub(crate) fn session(&self) -> Option<&str> {
        match &self.rules {
            Some(StreamRules::Task(task)) => task.session(),
            _ => None,
        }
    }

    /// Returns the calls that the newest message of a session's open turn which asks for any asks for.
    pub(crate) fn asks(&self) -> Option<&[String]> {
        match &self.rules {
            Some(StreamRules::Session(session)) => session.asks(),
            _ => None,
        }
    }

    /// Whether a schema of the agent's tool has this value as a default.
    pub(crate) fn has_default(&self, tool: &str, value: &JsonValue) -> bool {
        match &self.rules {
            Some(StreamRules::Agent(agent)) => agent.has_default(tool, value),
            _ => true,
        }
    }

    /// Returns the tool call of a session's open turn that has no answer.
    pub(crate) fn unanswered(&self) -> Option<&str> {
        match &self.rules {
            Some(StreamRules::Session(session)) => session.unanswered(),
            _ => None,
        }
    }

    /// Whether the stream is a session of which a summary was ever requested.
    pub(crate) fn has_summaries(&self) -> bool {
        matches!(&self.rules, Some(StreamRules::Session(session)) if session.has_summaries())
    }

    /// Returns the task of a session's open turn.
    pub(crate) fn open_task(&self) -> Option<&str> {
        match &self.rules {
            Some(StreamRules::Session(session)) => session.open_task(),
            _ => None,
        }
    }

    /// Returns the task of a session's newest turn.
    pub(crate) fn newest_task(&self) -> Option<&str> {
        match &self.rules {
            Some(StreamRules::Session(session)) => session.newest_task(),
            _ => None,
        }
    }

    /// Returns the number of messages that an inference of a session's open turn is shown, without the system message.
    pub(crate) fn messages(&self) -> u32 {
        match &self.rules {
            Some(StreamRules::Session(session)) => session.messages(),
            _ => 0,
        }
    }

    /// Whether a message that an inference of a session's open turn is shown, numbered without the system message, answers a
    /// call.
    pub(crate) fn is_answer(&self, number: u32) -> bool {
        matches!(&self.rules, Some(StreamRules::Session(session)) if session.is_answer(number))
    }

    /// Returns the digest of the system prompt of a session's open turn, and the epoch of the program that began it.
    pub(crate) fn system(&self) -> Option<(Digest, u64)> {
        match &self.rules {
            Some(StreamRules::Session(session)) => session.system(),
            _ => None,
        }
    }

    /// Whether a program of this epoch renders this system prompt from a definition of the agent and this hint.
    pub(crate) fn renders(&self, epoch: u64, hint: Option<&str>, system: Digest) -> bool {
        match &self.rules {
            Some(StreamRules::Agent(agent)) => agent.renders(epoch, hint, system),
            _ => false,
        }
    }

    /// Returns the hint that the flow of a task gives about its next step.
    pub(crate) fn hint(&self) -> Option<&str> {
        match &self.rules {
            Some(StreamRules::Task(task)) => task.hint(),
            _ => None,
        }
    }

    /// Returns the newest record of a session.
    pub(crate) fn tail(&self) -> &PromptTail {
        &self.tail
    }

    /// Returns the leaf hash of the record that holds a revision of an agent's definition.
    pub(crate) fn revision(&self, number: u32) -> Option<Digest> {
        match &self.rules {
            Some(StreamRules::Agent(agent)) => agent.record(number),
            _ => None,
        }
    }

    /// Returns the number of an agent's revisions.
    pub(crate) fn revisions(&self) -> u32 {
        match &self.rules {
            Some(StreamRules::Agent(agent)) => agent.number(),
            _ => 0,
        }
    }

    /// Takes the stream's next record and returns its faults.
    pub(crate) fn accept_record(&mut self, stored: &StoredRecord, events: &[ReadEvent]) -> Vec<Finding> {
        let record = &stored.record;
        let first = record.first_version.0;
        let mut faults: Vec<FaultAt> = Vec::new();
        if first != self.version + 1 {
            let what = format!("version {first} follows version {}", self.version);
            faults.push((first, FindingKind::Version, what));
        }
        if record.previous != self.last_hash {
            let what = "it does not name the hash of the previous record".to_owned();
            faults.push((first, FindingKind::Chain, what));
        }
        self.is_broken |= !faults.is_empty();
        if let Some(StreamRules::Task(task)) = &mut self.rules {
            task.begin_record();
        }
        for ReadEvent { version, event } in events {
            match event {
                Err(error) => {
                    let kind = if error.is_newer() { FindingKind::Newer } else { FindingKind::Event };
                    self.is_newer |= error.is_newer();
                    faults.push((*version, kind, error.to_string()));
                }
                Ok(_) if !self.has_rules() => {}
                Ok(event) => self.event(stored, *version, event, &mut faults),
            }
        }
        if self.has_rules() {
            self.end_record(stored, &mut faults);
        }
        self.version = record.last_version().0;
        self.last_hash = stored.hash;
        if matches!(self.rules, Some(StreamRules::Session(_))) {
            self.tail = PromptTail::from_record(stored);
        }
        faults.into_iter().map(|(version, kind, what)| Finding::new(stored, version, kind, what)).collect()
    }

    fn event(&mut self, stored: &StoredRecord, version: u64, event: &AnyEvent, faults: &mut Vec<FaultAt>) {
        let record = &stored.record;
        let (stream, epoch, at): (&StreamId, _, _) = (&record.stream, record.epoch, record.metadata.at);
        let rules = self.rules.get_or_insert_with(|| match event {
            AnyEvent::Task(_) => StreamRules::Task(Box::default()),
            AnyEvent::Session(_) => StreamRules::Session(Box::default()),
            AnyEvent::Tool(_) => StreamRules::Tool(Box::default()),
            AnyEvent::System(_) => StreamRules::System(Box::default()),
            AnyEvent::Agent(_) => StreamRules::Agent(Box::default()),
            AnyEvent::Flow(_) => StreamRules::Flow(Box::default()),
            AnyEvent::Registry(_) => StreamRules::Registry(Box::default()),
        });
        let (kind, checked) = match (rules, event) {
            (StreamRules::Task(task), AnyEvent::Task(event)) => {
                let (principal, command) = (&record.metadata.principal, &*record.metadata.command_id);
                return task.accept_event(
                    EventPlace { stream, epoch, at, version, principal, command },
                    event,
                    faults,
                );
            }
            (StreamRules::Session(session), AnyEvent::Session(event)) => {
                (FindingKind::Turn, session.accept_event(stream, epoch, event))
            }
            (StreamRules::Tool(tool), AnyEvent::Tool(event)) => {
                (FindingKind::State, tool.accept_event(event))
            }
            (StreamRules::System(system), AnyEvent::System(event)) => {
                (FindingKind::State, system.accept_event(stream, (record.partition, epoch), event))
            }
            (StreamRules::Agent(agent), AnyEvent::Agent(event)) => {
                (FindingKind::State, agent.accept_event(event, stored.hash, epoch))
            }
            (StreamRules::Flow(run), AnyEvent::Flow(event)) => {
                (FindingKind::State, run.accept_event(version, event))
            }
            (StreamRules::Registry(registry), AnyEvent::Registry(event)) => {
                (FindingKind::State, registry.accept_event(event, &record.metadata))
            }
            // A stream's name tells its category, and the category how its events are decoded.
            _ => (FindingKind::Event, Err("the event is not one of this stream's category".to_owned())),
        };
        faults.extend(checked.err().map(|what| (version, kind, what)));
    }

    fn end_record(&mut self, stored: &StoredRecord, faults: &mut Vec<FaultAt>) {
        let first = stored.record.first_version.0;
        match &mut self.rules {
            Some(StreamRules::Task(task)) => task.end_record(stored, faults),
            Some(StreamRules::Session(session)) => {
                faults.extend(session.end_record().err().map(|what| (first, FindingKind::Turn, what)));
            }
            Some(StreamRules::Tool(tool)) => {
                faults.extend(tool.end_record().map(|what| (first, FindingKind::State, what)));
            }
            Some(
                StreamRules::System(_)
                | StreamRules::Agent(_)
                | StreamRules::Flow(_)
                | StreamRules::Registry(_),
            )
            | None => {}
        }
    }
}
