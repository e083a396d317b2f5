//! The verification of one stream: its chain, its lifecycle, its turns, a tool's keys.

use std::collections::BTreeSet;

use proto_events::call::CallEvent;
use proto_events::codec::AnyEvent;
use proto_events::decider::Decider as _;
use proto_events::definition::{AgentEvent, AgentHistory, Aspect};
use proto_events::envelope::Metadata;
use proto_events::id::{Digest, Version};
use proto_events::model::TaskState;
use proto_events::session::SessionEvent;
use proto_events::system::{SystemEvent, SystemHistory};
use proto_events::task::TaskEvent;
use proto_events::tool_store::ToolStoreEvent;
use proto_events::turn::Turn;

use crate::api::record::StoredRecord;
use crate::audit::verify::approvals::ApprovalsCheck;
use crate::audit::verify::calls::CallsCheck;
use crate::audit::verify::finding::{Finding, FindingKind};

/// A stream as read so far.
#[derive(Default)]
pub(crate) struct StreamCheck {
    version: u64,
    last_hash: Digest,
    state: Option<TaskState>,
    calls: CallsCheck,
    approvals: ApprovalsCheck,
    opened: bool,
    turn: Option<(String, Turn)>,
    /// The keys in a tool's state.
    keys: BTreeSet<String>,
    system: SystemHistory,
    agent: AgentHistory,
}

type Fault = (FindingKind, String);

impl StreamCheck {
    pub(crate) fn version(&self) -> Version {
        Version(self.version)
    }

    /// Whether the stream is a task that was left working.
    pub(crate) fn is_working(&self) -> bool {
        self.state == Some(TaskState::Working)
    }

    pub(crate) fn last_hash(&self) -> Digest {
        self.last_hash
    }

    /// Takes the stream's next record and returns its faults.
    pub(crate) fn take(&mut self, stored: &StoredRecord) -> Vec<Finding> {
        let record = &stored.record;
        let mut findings = Vec::new();
        let mut report = |version: u64, (kind, what): Fault| {
            findings.push(Finding {
                kind,
                stream: Some(record.stream.clone()),
                version: Some(Version(version)),
                position: Some(proto_events::id::Position(
                    stored.position.0 + version.saturating_sub(record.first_version.0),
                )),
                what,
            });
        };
        let first = record.first_version.0;
        if first != self.version + 1 {
            let what = format!("version {first} follows version {}", self.version);
            report(first, (FindingKind::Version, what));
        }
        if record.previous != self.last_hash {
            let what = "it does not name the hash of the previous record".to_owned();
            report(first, (FindingKind::Chain, what));
        }
        for (event, version) in record.events.iter().zip(first..) {
            let Some(body) = event.body() else { continue };
            match AnyEvent::decode(record.stream.category(), event.kind, event.schema, body) {
                Err(error) => report(version, (FindingKind::Event, error.to_string())),
                Ok(AnyEvent::Task(event)) => {
                    for fault in self.task(&event) {
                        report(version, fault);
                    }
                }
                Ok(AnyEvent::Tool(event)) => {
                    if let Err(what) = self.tool(&event) {
                        report(version, (FindingKind::State, what));
                    }
                }
                Ok(AnyEvent::System(event)) => {
                    if let Err(what) = self.system(record.epoch, &event) {
                        report(version, (FindingKind::State, what));
                    }
                }
                Ok(AnyEvent::Agent(event)) => {
                    if let Err(what) = self.agent(&event) {
                        report(version, (FindingKind::State, what));
                    }
                }
                Ok(AnyEvent::Session(event)) => {
                    if let Err(what) = self.session(event) {
                        report(version, (FindingKind::Turn, what));
                    }
                }
            }
        }
        self.version = record.last_version().0;
        self.last_hash = stored.hash;
        findings
    }

    fn task(&mut self, event: &TaskEvent) -> Vec<Fault> {
        let lifecycle = |what: String| vec![(FindingKind::Lifecycle, what)];
        let Some(state) = self.state else {
            return match event {
                TaskEvent::Submitted(posted) => {
                    self.state = Some(posted.state);
                    Vec::new()
                }
                _ => lifecycle("the task has an event before it was submitted".to_owned()),
            };
        };
        match event {
            TaskEvent::Submitted(_) => lifecycle("the task was submitted twice".to_owned()),
            TaskEvent::StateChanged { from, to, .. } => {
                self.state = Some(*to);
                if *from != state {
                    return lifecycle(format!("{from} -> {to}, but the task was {state}"));
                }
                if !from.can_become(*to) {
                    return lifecycle(format!("{from} -> {to} is not a transition of the lifecycle"));
                }
                Vec::new()
            }
            TaskEvent::Call(event) => {
                let mut faults = self.calls.take(event, state.is_terminal());
                if let CallEvent::Requested(request) = event {
                    faults.extend(self.approvals.used(request));
                }
                faults.into_iter().map(|what| (FindingKind::Call, what)).collect()
            }
            TaskEvent::ApprovalRequested(asked) => {
                self.approvals.asked(asked).into_iter().map(|what| (FindingKind::Call, what)).collect()
            }
            TaskEvent::ApprovalDecided(decided) => {
                self.approvals.decided(decided).into_iter().map(|what| (FindingKind::Call, what)).collect()
            }
            TaskEvent::ArtifactAppended { part: Some(_), .. } if state.is_terminal() => {
                lifecycle(format!("an output was added although the task is {state}"))
            }
            _ => Vec::new(),
        }
    }

    fn session(&mut self, event: SessionEvent) -> Result<(), String> {
        let before = std::mem::replace(&mut self.opened, true);
        match event {
            SessionEvent::Opened { .. } if before => return Err("the session was opened twice".to_owned()),
            SessionEvent::Opened { .. } => {}
            _ if !before => return Err("the session has an event before it was opened".to_owned()),
            SessionEvent::SystemPromptSet(_) => {}
            SessionEvent::TurnStarted { turn_id, .. } => {
                let open = self.turn.replace((turn_id.clone(), Turn::default()));
                if let Some((open, _)) = open {
                    return Err(format!("turn `{turn_id}` began while turn `{open}` was open"));
                }
            }
            SessionEvent::MessageAppended(message) => {
                let Some((_, turn)) = &mut self.turn else {
                    return Err("a message was added outside a turn".to_owned());
                };
                let fits = turn.check_next(&message).map_err(|error| error.to_string());
                turn.push(message);
                fits?;
            }
            SessionEvent::TurnCommitted { turn_id } => {
                let turn = self.end_turn(&turn_id)?;
                if let Some(call) = turn.unanswered().first() {
                    return Err(format!(
                        "turn `{turn_id}` was committed while the tool call `{call}` has no answer"
                    ));
                }
            }
            SessionEvent::TurnAborted { turn_id, .. } => {
                self.end_turn(&turn_id)?;
            }
        }
        Ok(())
    }

    fn tool(&mut self, event: &ToolStoreEvent) -> Result<(), String> {
        match event {
            ToolStoreEvent::KeyPut { key, .. } => {
                self.keys.insert(key.clone());
                Ok(())
            }
            ToolStoreEvent::KeyDeleted { key, .. } if self.keys.remove(key) => Ok(()),
            ToolStoreEvent::KeyDeleted { key, .. } => {
                Err(format!("the key `{key}` was deleted, but did not exist"))
            }
        }
    }

    fn system(&mut self, epoch: u64, event: &SystemEvent) -> Result<(), String> {
        let named = match event {
            SystemEvent::Started(started) => started.epoch,
            SystemEvent::Stopped { epoch, .. } => *epoch,
        };
        let last = self.system.last().map_or(0, |started| started.epoch);
        let running = self.system.is_running();
        let (is_start, metadata) = (matches!(event, SystemEvent::Started(_)), Metadata::default());
        self.system.evolve(event, &metadata);
        if named != epoch {
            return Err(format!("it names epoch {named}, but its record is of epoch {epoch}"));
        }
        if is_start && named < last {
            return Err(format!("a program of epoch {named} started after one of epoch {last}"));
        }
        let is_its_end = running && named == last;
        if !is_start && !is_its_end {
            return Err(format!("the program of epoch {named} stopped, but was not running"));
        }
        Ok(())
    }

    fn agent(&mut self, event: &AgentEvent) -> Result<(), String> {
        let AgentEvent::Revised(revised) = event;
        let expected = self.agent.number().saturating_add(1);
        let dangling = Aspect::ALL.iter().zip(&revised.texts).find(|(_, text)| {
            let is_own = text.since == revised.number;
            is_own != text.text.is_some() || text.since == 0 || text.since > revised.number
        });
        self.agent.evolve(event, &Metadata::default());
        if revised.number != expected {
            return Err(format!("revision {} follows revision {}", revised.number, expected - 1));
        }
        match dangling {
            Some((aspect, text)) => {
                Err(format!("its {} names revision {}, which does not hold it", aspect.as_str(), text.since))
            }
            None => Ok(()),
        }
    }

    fn end_turn(&mut self, turn_id: &str) -> Result<Turn, String> {
        match self.turn.take() {
            Some((open, turn)) if open == turn_id => Ok(turn),
            Some((open, _)) => Err(format!("turn `{turn_id}` ended while turn `{open}` was open")),
            None => Err(format!("turn `{turn_id}` ended, but was not open")),
        }
    }
}
