//! Checks what events of one stream say of others: what a prompt was read from, the task of a turn, the revisions that a
//! program starts with, the keys of calls, the calls behind the writes to a tool's state, and the ends of other agents' tasks.

use std::collections::{HashMap, HashSet};

use proto_events::call::{CallEvent, CallKind, CallRequested};
use proto_events::codec::AnyEvent;
use proto_events::id::{Category, Digest, Position, StreamId};
use proto_events::session::SessionEvent;
use proto_events::system::{AgentRevision, SystemEvent, WriterStart};
use proto_events::task::TaskEvent;

use crate::api::record::StoredRecord;
use crate::audit::verify::agent_answers::DelegatedCheck;
use crate::audit::verify::finding::{Finding, FindingKind, position_of};
use crate::audit::verify::prompt_links::prompt_fault;
use crate::audit::verify::stream::{ReadEvent, StreamCheck};
use crate::audit::verify::streams::CheckedStreams;
use crate::audit::verify::turn_links::{filled_fault, intent_faults, message_faults};

/// The call whose success confirms a write to a tool's state: agent and name of the tool, task, and id of the call.
type WriteOwner = (String, String, String, String);

/// The links read so far.
#[derive(Default)]
pub(crate) struct LinksCheck {
    set_id: [u8; 16],
    /// The position of each idempotency key's call, by the beginning of the key's digest.
    keys: HashMap<[u8; 8], Position>,
    delegated: DelegatedCheck,
    /// The writes to tools' states whose calls' success has not been read yet, by what confirms them, each with its number
    /// in the append.
    unconfirmed: HashMap<WriteOwner, Vec<(usize, Finding)>>,
    /// The number of the open append's turns and writes that were put aside.
    put_aside: usize,
    /// The turns of the open append whose task is not known yet: it may begin in the same append, whose session comes first.
    taskless: HashMap<String, Vec<(usize, Finding)>>,
    /// The epoch of the last start; 0 in a log that records none.
    started: u64,
    /// Whether a task or a session has a record before any start.
    has_unstarted_work: bool,
    /// The agents of the programs of that epoch.
    agents: HashSet<String>,
    /// The number of programs that began that epoch, and whether one of them ended it in order.
    programs: (u32, bool),
    /// The first event of the open append that begins something after the orderly end of its epoch.
    after_end: Option<Finding>,
    /// The record of the open append whose epoch no start has yet, and that epoch.
    unstarted: Option<(u64, Finding)>,
}

impl LinksCheck {
    /// Takes the log's next record, of which `streams` knows already, and returns the faults of the append before
    /// and its own.
    pub(crate) fn accept_record(
        &mut self,
        stored: &StoredRecord,
        events: &[ReadEvent],
        streams: &CheckedStreams<'_>,
    ) -> Vec<Finding> {
        let record = &stored.record;
        let mut findings = if record.set_id == self.set_id { Vec::new() } else { self.finish_append() };
        self.set_id = record.set_id;
        self.taskless.remove(record.stream.as_str());
        self.check_start(stored);
        let has_ended = record.epoch == self.started && self.programs == (1, true);
        for read in events {
            let Ok(event) = &read.event else { continue };
            if has_ended && self.after_end.is_none() && begins(event) {
                let what = format!("it begins work in epoch {}, whose program had ended", record.epoch);
                self.after_end = Some(Finding::new(stored, read.version, FindingKind::Append, what));
            }
            let finding = |kind: FindingKind, what: String| Finding::new(stored, read.version, kind, what);
            match event {
                AnyEvent::Task(TaskEvent::ApprovalRequested(_)) => {
                    findings.extend(filled_fault((stored, read.version), streams));
                }
                AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request))) => {
                    findings.extend(self.intended((stored, read.version), request, streams));
                }
                AnyEvent::Task(TaskEvent::Call(CallEvent::Succeeded { call_id, result, .. })) => {
                    self.confirm(&record.stream, call_id, streams);
                    let wrong = self.delegated.answered(&record.stream, (call_id.as_str(), result), streams);
                    findings.extend(wrong.map(|what| finding(FindingKind::Call, what)));
                }
                AnyEvent::Tool(event) => {
                    // A change from outside belongs to no call.
                    let Some((task, call_id)) = event.call() else { continue };
                    let what = format!(
                        "the write names the call `{call_id}` of {task}, but its append has no success of that call by this tool"
                    );
                    let finding = finding(FindingKind::State, what);
                    let tool = (record.stream.agent(), record.stream.id());
                    let owner = (tool.0, tool.1, task.to_owned(), call_id.to_owned());
                    self.unconfirmed.entry(owner).or_default().push((self.put_aside, finding));
                    self.put_aside += 1;
                }
                AnyEvent::Session(SessionEvent::TurnStarted { turn_id, task }) => {
                    let known = StreamId::parse(task).is_ok_and(|task| streams.contains(&task));
                    if !known {
                        let what = format!("turn `{turn_id}` is of {task}, which does not exist");
                        let finding = finding(FindingKind::Turn, what);
                        self.taskless.entry(task.clone()).or_default().push((self.put_aside, finding));
                        self.put_aside += 1;
                    }
                }
                AnyEvent::Session(SessionEvent::MessageAppended(message)) => {
                    let wrong = message_faults(&record.stream, message, streams);
                    findings.extend(wrong.into_iter().map(|what| finding(FindingKind::Turn, what)));
                }
                AnyEvent::System(SystemEvent::Stopped { .. }) => self.programs.1 = true,
                AnyEvent::System(SystemEvent::Started(started)) => {
                    let early = self.work_before_start();
                    findings.extend(early.map(|what| finding(FindingKind::State, what)));
                    self.start_epoch(started);
                    self.unstarted.take_if(|(epoch, _)| *epoch == started.epoch);
                    let wrong = started.agents.iter().find_map(|agent| revision_fault(agent, streams));
                    findings.extend(wrong.map(|what| finding(FindingKind::State, what)));
                }
                _ => {}
            }
        }
        findings
    }

    /// Remembers a record of an epoch that no program has begun, and work before the first start.
    fn check_start(&mut self, stored: &StoredRecord) {
        let record = &stored.record;
        if self.started != 0 && record.epoch > self.started && self.unstarted.is_none() {
            let what = format!("it is of epoch {}, but no program had begun that epoch", record.epoch);
            let finding = Finding::new(stored, record.first_version.0, FindingKind::Append, what);
            self.unstarted = Some((record.epoch, finding));
        }
        let is_work = matches!(record.stream.category(), Some(Category::Task | Category::Session));
        self.has_unstarted_work |= self.started == 0 && is_work;
    }

    /// Takes an intent and returns its faults.
    fn intended(
        &mut self,
        (stored, version): (&StoredRecord, u64),
        request: &CallRequested,
        streams: &CheckedStreams<'_>,
    ) -> Vec<Finding> {
        let record = &stored.record;
        let finding = |kind: FindingKind, what: String| Finding::new(stored, version, kind, what);
        let mut findings: Vec<Finding> = self.key(stored, version, request).into_iter().collect();
        let prompt = prompt_fault(request, stored, version, streams);
        findings.extend(prompt.map(|(kind, what)| finding(kind, what)));
        findings.extend(filled_fault((stored, version), streams));
        findings.extend(intent_faults(request, (stored, version), streams));
        let agent = record.stream.agent();
        let is_of_started = self.started == record.epoch;
        if is_of_started && !self.agents.contains(&agent) {
            let id = &request.call_id;
            let what = format!(
                "call `{id}` was intended, but no program of epoch {} had the agent `{agent}`",
                record.epoch
            );
            findings.push(finding(FindingKind::Call, what));
        }
        if is_of_started && self.programs.0 == 1 && self.agents.contains(&request.target) {
            self.delegated.intended(&record.stream, request);
        }
        findings
    }

    /// Returns the fault of the first start, if work stands before it.
    fn work_before_start(&self) -> Option<String> {
        (self.started == 0 && self.has_unstarted_work)
            .then(|| "it is the first start, but records of tasks or sessions stand before it".to_owned())
    }

    /// Takes the start of a program: of a new epoch, or of one that another program has begun.
    fn start_epoch(&mut self, started: &WriterStart) {
        if started.epoch != self.started {
            self.agents.clear();
            self.programs = (0, false);
        }
        self.delegated.forget();
        self.started = started.epoch;
        self.agents.extend(started.agents.iter().map(|agent| agent.name.clone()));
        self.programs.0 += 1;
        self.after_end = None;
    }

    /// Returns the faults of the ended append: turns of tasks that do not exist, writes that belong to no call, and an epoch
    /// that began without a start.
    pub(crate) fn finish_append(&mut self) -> Vec<Finding> {
        let unstarted = self.unstarted.take().map(|(_, finding)| finding);
        let late = self.after_end.take();
        let taskless = self.taskless.drain().flat_map(|(_, turns)| turns);
        let unconfirmed = self.unconfirmed.drain().flat_map(|(_, writes)| writes);
        let mut aside: Vec<_> = taskless.chain(unconfirmed).collect();
        aside.sort_unstable_by_key(|(number, _)| *number);
        self.put_aside = 0;
        aside.into_iter().map(|(_, finding)| finding).chain(unstarted).chain(late).collect()
    }

    /// Drops what the open append lacks: its other records may be what could not be read.
    pub(crate) fn forget(&mut self) {
        self.unconfirmed.clear();
        self.taskless.clear();
        self.unstarted = None;
        self.after_end = None;
    }

    /// Checks that no other call has the idempotency key.
    fn key(&mut self, stored: &StoredRecord, version: u64, request: &CallRequested) -> Option<Finding> {
        let (id, key) = (&request.call_id, &request.idempotency_key);
        let what = if key.is_empty() {
            format!("call `{id}` has no idempotency key")
        } else {
            let short = Digest::compute(key.as_bytes()).0.first_chunk().copied().unwrap_or_default();
            let here = position_of(stored, version);
            let other = self.keys.insert(short, here)?;
            format!("call `{id}` has the idempotency key of the call at position {other}")
        };
        Some(Finding::new(stored, version, FindingKind::Call, what))
    }

    /// Takes a call's success: the writes in its append that name it are its own, if it is a call of the tool that
    /// keeps them.
    fn confirm(&mut self, task: &StreamId, call_id: &str, streams: &CheckedStreams<'_>) {
        if self.unconfirmed.is_empty() {
            return;
        }
        let target = streams.get(task).and_then(|check| check.target(call_id));
        if let Some((CallKind::Tool, tool)) = target {
            let (task, agent) = (task.as_str().to_owned(), task.agent());
            self.unconfirmed.remove(&(agent, tool.to_owned(), task, call_id.to_owned()));
        }
    }
}

/// Whether the event begins work. What a call asks for that is under way, and evidence of it, may come after the end.
fn begins(event: &AnyEvent) -> bool {
    match event {
        AnyEvent::Task(TaskEvent::Submitted(_) | TaskEvent::PostedAgain { .. }) => true,
        AnyEvent::Task(TaskEvent::Call(CallEvent::Requested(request))) => request.origin.parent.is_none(),
        AnyEvent::Session(event) => matches!(event, SessionEvent::TurnStarted { .. }),
        _ => false,
    }
}

/// Returns the fault of the revision that a program starts with: it is the agent's newest.
fn revision_fault(agent: &AgentRevision, streams: &CheckedStreams<'_>) -> Option<String> {
    let AgentRevision { name, number } = agent;
    let stream = StreamId::of_agent(name).ok();
    let known = stream.and_then(|stream| streams.get(&stream)).map_or(0, StreamCheck::revisions);
    if !(1..=known).contains(number) {
        return Some(format!("it starts with revision {number} of agent `{name}`, which does not exist"));
    }
    let is_older = *number < known;
    is_older.then(|| {
        format!("it starts with revision {number} of agent `{name}`, which revision {known} has replaced")
    })
}
