//! Checks the outputs of a run against the outcomes of its calls, and the state that the run leads to against both.

use std::collections::BTreeMap;

use proto_events::call::{CallEvent, CallKind, CallRequested, Verdict};
use proto_events::envelope::OWN_COMMAND;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{Artifact, FinalState, Part, TaskState, final_state};

use crate::audit::verify::asks::{ExecutablePart, RunAsks};

/// The end of a call of a part.
enum Outcome {
    Result(JsonText),
    Failure(String),
    Abandoned,
    DidNotHappen,
}

/// The newest call of a part.
struct PartCall {
    call_id: String,
    outcome: Option<Outcome>,
}

/// The calls and outputs of a run.
#[derive(Default)]
struct RunOutcomes {
    /// The newest calls of the parts that ask for tools.
    calls: BTreeMap<u32, PartCall>,
    /// The parts with a reply of the model.
    replied: Vec<u32>,
    /// The handler's call, and whether it succeeded.
    handler: Option<(String, bool)>,
    has_calls: bool,
    /// The parts that have their output.
    done: Vec<u32>,
    outputs: Outputs,
    /// Whether a person's decision ended the task, without any work of the run.
    is_of_decision: bool,
}

/// The state to which outputs lead, the strongest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Outputs {
    #[default]
    Completed,
    InputRequired,
    Failed,
}

/// The end of a run, until its record ends.
struct EndedRun {
    version: u64,
    to: TaskState,
    fault: Option<String>,
    /// Whether the fault does not count if a message follows: the run's answer in one.
    or_message: bool,
}

/// A change of a task's state.
#[derive(Clone, Copy)]
pub(super) struct StateChange<'a> {
    pub(super) to: TaskState,
    pub(super) version: u64,
    /// The id of the record's command.
    pub(super) command: &'a str,
}

/// The outcomes of a task read so far.
#[derive(Default)]
pub(crate) struct OutcomesCheck {
    run: Option<RunOutcomes>,
    /// The state to which the outputs of the runs lead that the current one continues after a person's decision.
    continued: Outputs,
    /// The command with which a person decided about what the task waits for.
    decided_in: String,
    is_paused: bool,
    /// The call whose question was answered since the last run.
    answered: Option<String>,
    ended: Option<EndedRun>,
    /// Whether the metadata name an error.
    has_error: bool,
}

impl OutcomesCheck {
    /// Takes metadata that were posted or added.
    pub(super) fn metadata(&mut self, entries: &JsonObject) {
        self.has_error |= entries.get("error").is_some();
    }

    /// Takes a message that was added.
    pub(super) fn message(&mut self) {
        if let Some(ended) = self.ended.as_mut().filter(|ended| ended.or_message) {
            ended.fault = None;
        }
    }

    /// Takes a person's decision in this command.
    pub(super) fn decided(&mut self, command: &str) {
        if self.is_paused {
            command.clone_into(&mut self.decided_in);
        }
    }

    /// Takes an intent and returns its fault: a part makes one call, and another one only after one that did not happen.
    pub(super) fn intended(&mut self, request: &CallRequested) -> Option<String> {
        let run = self.run.as_mut()?;
        run.has_calls = true;
        let (call_id, origin) = (&request.call_id, &request.origin);
        match request.kind {
            CallKind::Handler => run.handler = Some((call_id.clone(), false)),
            CallKind::Tool if origin.parent.is_none() && origin.infer_call.is_none() => {
                let call = PartCall { call_id: call_id.clone(), outcome: None };
                let before = run.calls.insert(origin.part, call)?;
                let may_be = matches!(before.outcome, Some(Outcome::DidNotHappen));
                return (!may_be).then(|| {
                    format!("call `{call_id}` is of part {}, which has made a call already", origin.part)
                });
            }
            _ => {}
        }
        None
    }

    /// Takes what happened to a call of this kind, an inference of this part.
    pub(super) fn happened(
        &mut self,
        event: &CallEvent,
        kind: Option<CallKind>,
        part: Option<u32>,
        command: &str,
    ) {
        let call_id = event.call_id();
        if matches!(
            event,
            CallEvent::Answered { .. } | CallEvent::Reconciled { .. } | CallEvent::Abandoned { .. }
        ) {
            self.decided(command);
        }
        let Some(run) = &mut self.run else {
            if matches!(event, CallEvent::Answered { .. }) {
                self.answered = Some(call_id.to_owned());
            }
            return;
        };
        let outcome = match event {
            CallEvent::Succeeded { result, .. }
            | CallEvent::Reconciled { verdict: Verdict::Landed(result), .. } => {
                Outcome::Result(result.clone())
            }
            CallEvent::Reconciled { verdict: Verdict::DidNotHappen, .. } => Outcome::DidNotHappen,
            CallEvent::Failed { failure, .. } => Outcome::Failure(failure.message.clone()),
            CallEvent::Abandoned { .. } => Outcome::Abandoned,
            _ => return,
        };
        let is_result = matches!(outcome, Outcome::Result(_));
        if let Some((_, succeeded)) = run.handler.as_mut().filter(|(id, _)| id == call_id) {
            *succeeded |= is_result;
        }
        if kind == Some(CallKind::Infer) && is_result {
            run.replied.extend(part.filter(|part| !run.replied.contains(part)));
        }
        if let Some(call) = run.calls.values_mut().find(|call| call.call_id == call_id) {
            call.outcome = Some(outcome);
        }
    }

    /// Takes the output of a part and returns its fault.
    pub(super) fn output(&mut self, artifact: &Artifact, at: u32, asks: Option<&RunAsks>) -> Option<String> {
        let run = self.run.as_mut()?;
        run.outputs = run.outputs.max(Outputs::from_parts(&artifact.parts));
        if run.done.contains(&at) {
            return Some(format!("part {at} has a second output"));
        }
        run.done.push(at);
        let parts = asks?.item.parts.as_ref()?;
        let Some(part) = parts.get(&at) else {
            return Some(format!("an output of part {at} was added, but the run has no such part"));
        };
        let [output] = artifact.parts.as_slice() else {
            return Some(format!("the output of part {at} has {} parts", artifact.parts.len()));
        };
        match part {
            ExecutablePart::Tool(asked) => run.tool_output(output, at, asked.call_id.as_deref()),
            ExecutablePart::Infer(_) => {
                let is_right = output.kind() == "error"
                    || (output.kind() == "infer_output" && run.replied.contains(&at));
                (!is_right).then(|| format!("part {at} has an output, but no reply of the model"))
            }
            ExecutablePart::Unreadable => Some(format!("part {at} has an output, but cannot be carried out")),
        }
    }

    /// Takes a change of the task's state, which may end a run: `asks` are its own.
    pub(super) fn changed(&mut self, change: StateChange<'_>, asks: Option<&RunAsks>) {
        let StateChange { to, version, command } = change;
        let ended = self.run.take();
        if let Some(run) = &ended {
            let (fault, or_message) = self.end_of(run, to, asks);
            // A caller may end a task at any time.
            let fault = fault.filter(|_| command.starts_with(OWN_COMMAND));
            self.ended = Some(EndedRun { version, to, fault, or_message });
        }
        let outputs = ended.as_ref().map_or(Outputs::Completed, |run| run.outputs);
        match to {
            TaskState::InputRequired => self.continued = self.continued.max(outputs),
            TaskState::Working if !self.decided_in.is_empty() && self.decided_in == command => {}
            _ => self.continued = Outputs::Completed,
        }
        self.is_paused = ended.is_some() && to == TaskState::InputRequired;
        if to != TaskState::Working {
            self.answered = None;
        }
    }

    /// Takes the beginning of a run, which continues the last one or not. `kind` tells the kind of a call.
    pub(super) fn begin_run(
        &mut self,
        is_of_decision: bool,
        asks: Option<&RunAsks>,
        kind: impl Fn(&str) -> Option<CallKind>,
    ) {
        let mut run = RunOutcomes { is_of_decision, ..RunOutcomes::default() };
        if let Some(call_id) = self.answered.take() {
            run.go_on(call_id, asks, kind);
        }
        self.run = Some(run);
    }

    /// Returns the fault of a run that leads to this state, and whether a message that follows excuses it.
    fn end_of(&self, run: &RunOutcomes, to: TaskState, asks: Option<&RunAsks>) -> (Option<String>, bool) {
        let nothing_done = !run.has_calls && run.done.is_empty();
        let of_decision = run.is_of_decision && nothing_done;
        let all = run.outputs.max(self.continued);
        let parts = asks.and_then(|asks| asks.item.parts.as_ref());
        let missing = parts.and_then(|parts| parts.keys().find(|at| !run.done.contains(at)));
        let leads = |to: Outputs| format!("the run ended, but its outputs lead to {}", to.as_str());
        match (to, &run.handler) {
            (TaskState::Completed, Some((id, false))) => (
                Some(format!("the task is completed, but call `{id}` of its handler did not succeed")),
                false,
            ),
            (TaskState::Completed, None) if !of_decision => {
                let fault = match missing {
                    Some(at) => {
                        Some(format!("the task is completed, but part {at} of its run has no output"))
                    }
                    None => (all != Outputs::Completed).then(|| leads(all)),
                };
                // A responder answers with a message, whatever the parts are.
                (fault, nothing_done)
            }
            (TaskState::InputRequired, None) if !of_decision => {
                let is_asked = all == Outputs::InputRequired || nothing_done;
                ((!is_asked).then(|| leads(all)), true)
            }
            _ => (None, false),
        }
    }

    /// Takes the end of a record and returns the fault of the run that ended in it, with its version.
    pub(super) fn end_record(&mut self) -> Option<(u64, String)> {
        if let Some(run) = &mut self.run {
            // What a decision ends at once stands in one record.
            run.is_of_decision = false;
        }
        let EndedRun { version, to, fault, .. } = self.ended.take()?;
        let silent = (to == TaskState::Failed && !self.has_error)
            .then(|| "the task failed, but no error is given".to_owned());
        if to.is_terminal() {
            *self = Self::default();
        }
        fault.or(silent).map(|what| (version, what))
    }
}

impl RunOutcomes {
    /// Takes the call that the run continues: a handler's, or that of its first part.
    fn go_on(&mut self, call_id: String, asks: Option<&RunAsks>, kind: impl Fn(&str) -> Option<CallKind>) {
        if kind(&call_id) == Some(CallKind::Handler) {
            self.handler = Some((call_id, false));
            return;
        }
        let parts = asks.and_then(|asks| asks.item.parts.as_ref());
        if let Some((at, ExecutablePart::Tool(_))) = parts.and_then(BTreeMap::first_key_value) {
            self.calls.insert(*at, PartCall { call_id, outcome: None });
        }
    }

    /// Returns the fault of the output of a part that asks for a tool.
    fn tool_output(&mut self, output: &Part, at: u32, part_call_id: Option<&str>) -> Option<String> {
        let Ok(said) = output.as_tool_output() else {
            return Some(format!("the output of part {at} is not that of a tool"));
        };
        if part_call_id.is_some_and(|id| said.call_id.as_deref() != Some(id)) {
            return Some(format!("the output of part {at} is that of another call"));
        }
        let failed = !said.error.is_null();
        let other = || Some(format!("the output of part {at} is not the outcome of its call"));
        let call = self.calls.get_mut(&at);
        match call.map(|call| call.outcome.take()) {
            // A call that cannot be made is refused without an intent; a handler's end stands for all parts.
            None if failed || self.handler.is_some() => None,
            None => Some(format!("part {at} has an output, but made no call")),
            Some(None) => Some(format!("part {at} has an output, but its call has no outcome")),
            Some(Some(Outcome::Result(result))) => {
                let is_it = !failed && (said.result == result || said.result.tree() == result.tree());
                if is_it { None } else { other() }
            }
            Some(Some(Outcome::Failure(message))) => {
                let fields: JsonObject = said.error.read().unwrap_or_default();
                let says = fields.get("message").and_then(JsonText::to_str);
                if failed && says.as_deref() == Some(message.as_str()) { None } else { other() }
            }
            Some(Some(Outcome::Abandoned | Outcome::DidNotHappen)) => {
                if failed {
                    None
                } else {
                    other()
                }
            }
        }
    }
}

impl Outputs {
    fn from_parts(parts: &[Part]) -> Self {
        match final_state(parts) {
            FinalState::Completed => Self::Completed,
            FinalState::InputRequired => Self::InputRequired,
            FinalState::Failed { .. } => Self::Failed,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::InputRequired => "input-required",
            Self::Failed => "failed",
        }
    }
}
