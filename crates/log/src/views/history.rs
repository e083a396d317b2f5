//! The course of a task: when and at which version its states, calls and approvals came about.

use std::collections::HashMap;
use std::ops::ControlFlow;

use proto_events::call::{CallEvent, TokenUsage, Verdict, VerdictBy};
use proto_events::codec::AnyEvent;
use proto_events::envelope::{Principal, Timestamp};
use proto_events::id::{StreamId, Version};
use proto_events::json::JsonText;
use proto_events::model::TaskState;
use proto_events::task::TaskEvent;

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::audit::json::{number, object, text, text_or_null};
use crate::views::event_row::{EventRow, event_rows};

/// The course of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskHistory {
    /// The states, the first one with the submission.
    pub states: Vec<StateTime>,
    /// The calls, in the order of their intents.
    pub calls: Vec<CallTimes>,
    /// The approvals, in the order of their requests.
    pub approvals: Vec<ApprovalTimes>,
    /// The places of the newest call of each id: a task may have a hundred thousand.
    calls_by_id: HashMap<String, usize>,
    /// The places of the newest approval of each id.
    approvals_by_id: HashMap<String, usize>,
}

/// A state, and its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateTime {
    /// The version of the event.
    pub version: Version,
    /// The time.
    pub at: Timestamp,
    /// The state.
    pub state: TaskState,
}

/// A call, and the times of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallTimes {
    /// The call's id.
    pub call_id: String,
    /// The version of the intent.
    pub version: Version,
    /// The time of the intent.
    pub requested_at: Timestamp,
    /// The time of the last dispatch.
    pub sent_at: Option<Timestamp>,
    /// The version and the time of the outcome, the unknown one included.
    pub ended: Option<(Version, Timestamp)>,
    /// The tokens of all attempts that report their usage.
    pub usage: Option<TokenUsage>,
    /// The approval that permitted the call.
    pub approval_id: Option<String>,
    /// The verdicts on an outcome that was not known, each with its version, its time and its author.
    pub verdicts: Vec<(Version, Timestamp, String)>,
}

/// An approval, and its decision.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalTimes {
    /// The approval's id.
    pub approval_id: String,
    /// The id of the call that it is about.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// The arguments.
    pub args: JsonText,
    /// The version of the request.
    pub version: Version,
    /// The time of the request.
    pub requested_at: Timestamp,
    /// The decision.
    pub decision: Option<DecisionTime>,
}

/// A decision on an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecisionTime {
    /// The version of the event.
    pub version: Version,
    /// The time.
    pub at: Timestamp,
    /// Whether the call may be made.
    pub approved: bool,
    /// The author of the decision.
    pub by: Principal,
    /// The reason.
    pub reason: Option<String>,
}

/// Returns the course of a task.
///
/// # Errors
/// [`ReadError`] if its stream cannot be read.
pub fn task_history(reader: &dyn EventReader, stream: &StreamId) -> Result<TaskHistory, ReadError> {
    let mut history = TaskHistory::default();
    for_each_page_of(reader, stream, Version(1), |page| {
        for row in page.iter().flat_map(event_rows) {
            history.accept_row(&row);
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(history)
}

impl TaskHistory {
    /// Returns the times of a call.
    pub fn call(&self, call_id: &str) -> Option<&CallTimes> {
        self.calls.get(*self.calls_by_id.get(call_id)?)
    }

    fn accept_row(&mut self, row: &EventRow) {
        let Ok(AnyEvent::Task(event)) = &row.event else { return };
        let (version, at) = (row.version, row.at);
        match event {
            TaskEvent::Submitted(posted) => self.states.push(StateTime { version, at, state: posted.state }),
            TaskEvent::StateChanged { to, .. } => self.states.push(StateTime { version, at, state: *to }),
            TaskEvent::ApprovalRequested(asked) => {
                self.approvals_by_id.insert(asked.approval_id.clone(), self.approvals.len());
                self.approvals.push(ApprovalTimes {
                    approval_id: asked.approval_id.clone(),
                    call_id: asked.call_id.clone(),
                    tool: asked.tool.clone(),
                    args: asked.args.clone(),
                    version,
                    requested_at: at,
                    decision: None,
                });
            }
            TaskEvent::ApprovalDecided(decided) => {
                let place = self.approvals_by_id.get(&decided.approval_id);
                if let Some(asked) = place.and_then(|place| self.approvals.get_mut(*place)) {
                    asked.decision = Some(DecisionTime {
                        version,
                        at,
                        approved: decided.approved,
                        by: decided.decided_by.clone(),
                        reason: decided.reason.clone(),
                    });
                }
            }
            TaskEvent::Call(event) => self.call_event(event, version, at),
            _ => {}
        }
    }

    fn call_event(&mut self, event: &CallEvent, version: Version, at: Timestamp) {
        if let CallEvent::Requested(request) = event {
            self.calls_by_id.insert(request.call_id.clone(), self.calls.len());
            self.calls.push(CallTimes {
                call_id: request.call_id.clone(),
                version,
                requested_at: at,
                sent_at: None,
                ended: None,
                usage: None,
                approval_id: request.approval.clone(),
                verdicts: Vec::new(),
            });
            return;
        }
        let place = self.calls_by_id.get(event.call_id());
        let Some(call) = place.and_then(|place| self.calls.get_mut(*place)) else { return };
        match event {
            CallEvent::Dispatched { .. } => call.sent_at = Some(at),
            CallEvent::Succeeded { usage, .. } => {
                call.add(*usage);
                call.ended = Some((version, at));
            }
            CallEvent::Failed { failure, .. } => {
                call.add(failure.usage);
                call.ended = Some((version, at));
            }
            CallEvent::RetryScheduled { failure, .. } => call.add(failure.usage),
            CallEvent::Canceled { .. } | CallEvent::OutcomeUnknown { .. } => call.ended = Some((version, at)),
            CallEvent::Reconciled { verdict, by, .. } => {
                call.verdicts.push((version, at, verdict_words(verdict, by)));
            }
            CallEvent::Abandoned { reason, by, .. } => {
                call.verdicts.push((version, at, format!("abandoned by {}: {reason}", by.name)));
            }
            _ => {}
        }
    }
}

fn verdict_words(verdict: &Verdict, by: &VerdictBy) -> String {
    let by = match by {
        VerdictBy::Probe => "the tool's probe".to_owned(),
        VerdictBy::Operator(person) if person.name.is_empty() => "a person".to_owned(),
        VerdictBy::Operator(person) => person.to_string(),
    };
    format!("{} by {by}", verdict.as_str())
}

impl CallTimes {
    fn add(&mut self, usage: Option<TokenUsage>) {
        let Some(usage) = usage else { return };
        let sum = self.usage.unwrap_or(TokenUsage { input_tokens: 0, output_tokens: 0 });
        self.usage = Some(TokenUsage {
            input_tokens: sum.input_tokens.saturating_add(usage.input_tokens),
            output_tokens: sum.output_tokens.saturating_add(usage.output_tokens),
        });
    }

    /// Returns the time from the dispatch of the last attempt to the outcome, in microseconds.
    pub fn took_us(&self) -> Option<u64> {
        let (_, ended) = self.ended?;
        u64::try_from(ended.0.saturating_sub(self.sent_at?.0)).ok()
    }

    /// Returns the times as the fields of a JSON object.
    pub fn to_json(&self) -> JsonText {
        let verdict = |(version, at, words): &(Version, Timestamp, String)| {
            object([("version", number(version.0)), ("at", text(&at.to_string())), ("what", text(words))])
        };
        let time = |at: Option<Timestamp>| text_or_null(at.map(|at| at.to_string()).as_deref());
        let or_null = |figure: Option<u64>| figure.map_or_else(JsonText::null, number);
        object([
            ("version", number(self.version.0)),
            ("requested_at", text(&self.requested_at.to_string())),
            ("sent_at", time(self.sent_at)),
            ("ended_version", or_null(self.ended.map(|(version, _)| version.0))),
            ("ended_at", time(self.ended.map(|(_, at)| at))),
            ("took_us", or_null(self.took_us())),
            ("input_tokens", or_null(self.usage.map(|usage| usage.input_tokens))),
            ("output_tokens", or_null(self.usage.map(|usage| usage.output_tokens))),
            ("approval_id", text_or_null(self.approval_id.as_deref())),
            ("verdicts", JsonText::of_model(&self.verdicts.iter().map(verdict).collect::<Vec<_>>())),
        ])
    }
}

impl StateTime {
    /// Returns the state as JSON.
    pub fn to_json(&self) -> JsonText {
        let (state, at) = (text(self.state.as_str()), text(&self.at.to_string()));
        object([("version", number(self.version.0)), ("at", at), ("state", state)])
    }
}

impl ApprovalTimes {
    /// Returns the approval as JSON.
    pub fn to_json(&self) -> JsonText {
        let decided = self.decision.as_ref().map_or_else(JsonText::null, |decision| {
            object([
                ("version", number(decision.version.0)),
                ("at", text(&decision.at.to_string())),
                ("approved", JsonText::of_model(&decision.approved)),
                ("by", text(&decision.by.name)),
                ("basis", text(decision.by.basis.as_str())),
                ("reason", text_or_null(decision.reason.as_deref())),
            ])
        });
        object([
            ("approval_id", text(&self.approval_id)),
            ("call_id", text(&self.call_id)),
            ("tool", text(&self.tool)),
            ("args", self.args.clone()),
            ("version", number(self.version.0)),
            ("requested_at", text(&self.requested_at.to_string())),
            ("decision", decided),
        ])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proto_events::call::{CallKind, CallOrigin, CancelStage};

    use super::*;
    use crate::views::sample;

    fn of(rows: &[EventRow]) -> TaskHistory {
        let mut history = TaskHistory::default();
        for row in rows {
            history.accept_row(row);
        }
        history
    }

    proptest! {
        #[test]
        fn a_call_is_found_by_its_id_as_by_looking_through_all_of_them(rows in sample::rows()) {
            let history = of(&rows);
            for id in ["c0", "c1", "c2", "c3", "c4", "c5", "none"] {
                let by_hand = history.calls.iter().rev().find(|call| call.call_id == id);
                prop_assert_eq!(history.call(id), by_hand);
            }
        }
    }

    /// Returns the processor time of this thread, in nanoseconds.
    #[cfg(target_os = "linux")]
    fn processor_time() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_history_of_a_task_takes_time_in_proportion_to_its_calls_however_late_they_end() {
        let cost = |count: u64| {
            let id = |number: u64| format!("call-of-a-task-{number:06}");
            let intent = |number| {
                let request = sample::requested(&id(number), CallKind::Tool, "t", CallOrigin::default());
                sample::row(number, "", number, TaskEvent::Call(CallEvent::Requested(Box::new(request))))
            };
            let end = |number| {
                let event = CallEvent::Canceled { call_id: id(number), stage: CancelStage::InFlight };
                sample::row(count + number, "", number, TaskEvent::Call(event))
            };
            // The first one ends first: it is the one that lies farthest back.
            let rows: Vec<EventRow> = (0..count).map(intent).chain((0..count).map(end)).collect();
            let began = processor_time();
            let history = of(&rows);
            let ended = (0..count)
                .filter(|number| history.call(&id(*number)).is_some_and(|call| call.ended.is_some()));
            assert_eq!(ended.count() as u64, count);
            processor_time() - began
        };
        let took = cost(20_000);
        // It takes about 30 ms in a build for tests; a search through all calls for each would take a thousand times as long.
        assert!(took < 2_000_000_000, "{took} ns for 20,000 calls");
    }
}
