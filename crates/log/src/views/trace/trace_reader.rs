//! The parts of a trace that the events of one task tell of.

use std::collections::HashMap;

use proto_events::call::{CallEvent, CallKind, CallOrigin, CallRequested, TokenUsage};
use proto_events::codec::AnyEvent;
use proto_events::envelope::Timestamp;
use proto_events::id::{Category, StreamId};
use proto_events::task::TaskEvent;

use crate::views::event_row::EventRow;
use crate::views::find_artifact::task_in;
use crate::views::trace::node::{TraceKind, TraceNode};

/// The parts of one task. Numbers are places in `nodes`, of which the first is the task itself.
pub(super) struct TraceReader {
    pub(super) nodes: Vec<TraceNode>,
    /// The part in whose time each part lies: the task, or the call in whose middle it was asked for.
    pub(super) within: Vec<usize>,
    /// The requests to other agents, each with the task that it created.
    pub(super) children: Vec<(usize, StreamId)>,
    /// The time of the last event.
    pub(super) last_at: Timestamp,
    calls: HashMap<String, usize>,
    approvals: HashMap<String, usize>,
    /// The attempts of each call.
    attempts: HashMap<usize, Vec<usize>>,
}

impl TraceReader {
    /// Begins with the first event of a task or session.
    pub(super) fn new(stream: &StreamId, first: &EventRow) -> Self {
        let is_session = stream.category() == Some(Category::Session);
        let kind = if is_session { TraceKind::Session } else { TraceKind::Task };
        Self {
            nodes: vec![node(first, kind, stream.id(), stream.id())],
            within: vec![0],
            children: Vec::new(),
            last_at: first.at,
            calls: HashMap::new(),
            approvals: HashMap::new(),
            attempts: HashMap::new(),
        }
    }

    pub(super) fn accept_row(&mut self, row: &EventRow) {
        self.last_at = row.at;
        let Ok(AnyEvent::Task(event)) = &row.event else { return self.take_session(row) };
        match event {
            TaskEvent::Submitted(posted) => self.state(row, posted.state),
            TaskEvent::StateChanged { to, .. } => self.state(row, *to),
            TaskEvent::ApprovalRequested(asked) => {
                let made = node(row, TraceKind::Approval, asked.tool.clone(), asked.approval_id.clone());
                let at = self.push(made, &asked.origin, None);
                self.set(at, |node| "waits for a person".clone_into(&mut node.state));
                self.approvals.insert(asked.approval_id.clone(), at);
            }
            TaskEvent::ApprovalDecided(decided) => {
                let Some(at) = self.approvals.get(&decided.approval_id).copied() else { return };
                self.set(at, |node| {
                    let word = if decided.approved { "approved" } else { "denied" };
                    node.state = format!("{word} by {}", decided.decided_by.name);
                    node.ended = Some(row.at);
                    node.error.clone_from(&decided.reason);
                });
            }
            TaskEvent::Call(event) => self.call(row, event),
            _ => {}
        }
    }

    fn state(&mut self, row: &EventRow, state: proto_events::model::TaskState) {
        self.set(0, |task| {
            state.as_str().clone_into(&mut task.state);
            task.ended = state.is_terminal().then_some(row.at);
            task.is_failed = state == proto_events::model::TaskState::Failed;
        });
    }

    fn push(&mut self, mut made: TraceNode, origin: &CallOrigin, approval: Option<&String>) -> usize {
        let call = |id: &String| self.calls.get(id).copied();
        let within = origin.parent.as_ref().and_then(|parent| call(&parent.call_id));
        let approved = approval.and_then(|id| self.approvals.get(id).copied());
        let cause = approved.or(within).or_else(|| origin.infer_call.as_ref().and_then(call));
        made.parent = Some(cause.unwrap_or(0));
        self.nodes.push(made);
        self.within.push(within.unwrap_or(0));
        self.nodes.len() - 1
    }

    /// Adds a call of a session.
    pub(super) fn add_call(&mut self, row: &EventRow, kind: TraceKind, name: String, call_id: &str) {
        let mut made = node(row, kind, name, call_id.to_owned());
        "in flight".clone_into(&mut made.state);
        made.attempts = 1;
        let at = self.push(made, &CallOrigin::default(), None);
        self.calls.insert(call_id.to_owned(), at);
    }

    /// Ends a call of a session.
    pub(super) fn answered(
        &mut self,
        row: &EventRow,
        call_id: &str,
        error: Option<String>,
        usage: Option<TokenUsage>,
    ) {
        let Some(at) = self.calls.get(call_id).copied() else { return };
        self.set(at, |node| {
            add(node, usage);
            if error.is_some() { "failed" } else { "succeeded" }.clone_into(&mut node.state);
            (node.ended, node.is_failed, node.error) = (Some(row.at), error.is_some(), error);
        });
    }

    pub(super) fn set(&mut self, at: usize, change: impl FnOnce(&mut TraceNode)) {
        if let Some(node) = self.nodes.get_mut(at) {
            change(node);
        }
    }

    fn requested(&mut self, row: &EventRow, request: &CallRequested) {
        let kind = match request.kind {
            CallKind::Tool => TraceKind::Tool,
            CallKind::Infer => TraceKind::Infer,
            CallKind::Delegate => TraceKind::Delegate,
            CallKind::Handler => TraceKind::Handler,
        };
        let mut made = node(row, kind, request.target.clone(), request.call_id.clone());
        "not sent".clone_into(&mut made.state);
        let at = self.push(made, &request.origin, request.approval.as_ref());
        self.calls.insert(request.call_id.clone(), at);
        if request.kind == CallKind::Delegate
            && let Some(child) = task_in(&request.args)
            && let Ok(child) = StreamId::task(&request.target, &child)
        {
            self.children.push((at, child));
        }
    }

    fn call(&mut self, row: &EventRow, event: &CallEvent) {
        if let CallEvent::Requested(request) = event {
            return self.requested(row, request);
        }
        let Some(at) = self.calls.get(event.call_id()).copied() else { return };
        let end = |node: &mut TraceNode, state: &str, error: Option<String>| {
            state.clone_into(&mut node.state);
            node.ended = Some(row.at);
            node.is_failed = error.is_some();
            node.error = error;
        };
        match event {
            CallEvent::Dispatched { attempt, .. } => self.dispatched(row, at, *attempt),
            CallEvent::Succeeded { usage, .. } => {
                self.attempt(row, at, "succeeded", None);
                self.set(at, |node| {
                    add(node, *usage);
                    end(node, "succeeded", None);
                });
            }
            CallEvent::Failed { failure, .. } => {
                let error = format!("{}: {}", failure.error_type, failure.message);
                self.attempt(row, at, "failed", Some(&error));
                self.set(at, |node| {
                    add(node, failure.usage);
                    end(node, "failed", Some(error));
                });
            }
            CallEvent::RetryScheduled { failure, .. } => {
                let error = format!("{}: {}", failure.error_type, failure.message);
                self.attempt(row, at, "failed", Some(&error));
                self.set(at, |node| {
                    add(node, failure.usage);
                    "waits for the next attempt".clone_into(&mut node.state);
                });
            }
            CallEvent::TimedOut { after_ms, .. } => {
                self.attempt(row, at, "timed out", Some(&format!("no answer after {after_ms} ms")));
                self.set(at, |node| "timed out".clone_into(&mut node.state));
            }
            CallEvent::Asked { question, .. } => {
                self.attempt(row, at, "asked", None);
                self.set(at, |node| node.state = format!("waits for a person's answer: {question}"));
            }
            CallEvent::Answered { .. } => self.set(at, |node| "answered".clone_into(&mut node.state)),
            CallEvent::Canceled { .. } => {
                self.attempt(row, at, "canceled", None);
                self.set(at, |node| end(node, "canceled", None));
            }
            CallEvent::OutcomeUnknown { why, .. } => {
                self.attempt(row, at, "unknown", Some(why));
                self.set(at, |node| end(node, "unknown", Some(why.clone())));
            }
            CallEvent::Reconciled { verdict, .. } => {
                // The end stays where the outcome was lost: what a person finds out later takes no time of the call.
                self.set(at, |node| verdict.as_str().clone_into(&mut node.state));
            }
            CallEvent::Abandoned { reason, .. } => {
                self.set(at, |node| node.state = format!("abandoned: {reason}"));
            }
            CallEvent::Requested(_) | CallEvent::Accepted { .. } | CallEvent::LateResultIgnored { .. } => {}
        }
    }

    fn dispatched(&mut self, row: &EventRow, at: usize, attempt: u32) {
        let Some(call) = self.nodes.get_mut(at) else { return };
        call.attempts = call.attempts.max(attempt);
        "in flight".clone_into(&mut call.state);
        let mut made = node(row, TraceKind::Attempt, attempt.to_string(), call.id.clone());
        "in flight".clone_into(&mut made.state);
        (made.parent, made.attempts) = (Some(at), 1);
        self.nodes.push(made);
        self.within.push(at);
        self.attempts.entry(at).or_default().push(self.nodes.len() - 1);
    }

    /// Ends the last attempt of a call.
    fn attempt(&mut self, row: &EventRow, call: usize, state: &str, error: Option<&str>) {
        let last = self.attempts.get(&call).and_then(|all| all.last().copied());
        let Some(at) = last else { return };
        self.set(at, |node| {
            if node.ended.is_none() {
                state.clone_into(&mut node.state);
                node.ended = Some(row.at);
                node.is_failed = error.is_some();
                node.error = error.map(str::to_owned);
            }
        });
    }

    /// Returns which parts are shown: an attempt only where there are several, or where it is all that failed.
    pub(super) fn shown(&self) -> Vec<bool> {
        let mut shown = vec![true; self.nodes.len()];
        for attempts in self.attempts.values().filter(|attempts| attempts.len() < 2) {
            for at in attempts {
                if let Some(shown) = shown.get_mut(*at) {
                    *shown = false;
                }
            }
        }
        shown
    }
}

fn node(row: &EventRow, kind: TraceKind, name: String, id: String) -> TraceNode {
    TraceNode {
        parent: None,
        depth: 0,
        kind,
        name,
        id,
        stream: row.stream.clone(),
        version: row.version,
        state: String::new(),
        is_failed: false,
        error: None,
        principal: row.principal.clone(),
        began: row.at,
        ended: None,
        attempts: 0,
        usage: None,
        is_critical: false,
    }
}

fn add(node: &mut TraceNode, usage: Option<TokenUsage>) {
    let Some(usage) = usage else { return };
    let sum = node.usage.unwrap_or(TokenUsage { input_tokens: 0, output_tokens: 0 });
    node.usage = Some(TokenUsage {
        input_tokens: sum.input_tokens.saturating_add(usage.input_tokens),
        output_tokens: sum.output_tokens.saturating_add(usage.output_tokens),
    });
}
