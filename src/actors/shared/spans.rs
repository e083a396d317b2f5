//! The spans of a run: `task` → `route` → `tool.call`, `infer` or `agent.call` → `log.append`. They are a
//! view for an installed subscriber, not a source of facts; without a subscriber nothing is built. A call's
//! span lasts until its outcome is written, so that it contains the append. An error is recorded once, on its
//! call.

use proto_events::call::{CallKind, TimeLimit};
use proto_events::id::StreamId;
use proto_events::task::Task;
use taskreel_log::api::{Append, Appended};
use tracing::Span;
use tracing::field::{Empty, display};

use crate::actors::shared::messages::{AttemptEnd, Order};
use crate::actors::shared::within::Within;
use crate::run::steps::session_id;

/// Whether anybody may look at spans. Without this question their fields would be made for the crate `log` too.
fn are_wanted() -> bool {
    tracing::dispatcher::has_been_set()
}

/// The span of one run of a task, from the first command until the task stops.
#[derive(Debug, Default)]
pub(crate) struct RunSpan {
    span: Within,
    session_recorded: bool,
}

impl RunSpan {
    /// Returns the span, and begins it if it is missing. The caller's span is not its parent, since it may
    /// end long before.
    pub(crate) fn enter(&mut self, stream: &StreamId, caller: &Within) -> Within {
        if !are_wanted() {
            return Within::default();
        }
        if self.span.0.is_none() {
            let (id, agent) = (stream, stream);
            self.span.0 = tracing::info_span!(
                "task",
                id = %id.id(),
                agent = %agent.agent(),
                session = Empty,
                state = Empty,
            );
            if !self.span.0.is_none() {
                self.span.0.follows_from(&caller.0);
            }
        }
        self.span.clone()
    }

    /// Returns the span, if one is open.
    pub(crate) fn within(&self) -> Within {
        self.span.clone()
    }

    /// Notes the task's session and state; ends the span when the task is at rest.
    pub(crate) fn record_task(&mut self, task: &Task, is_idle: bool) {
        if self.span.0.is_none() {
            return;
        }
        if !self.session_recorded && task.exists() {
            self.session_recorded = true;
            self.span.0.record("session", session_id(task));
        }
        if is_idle {
            self.span.0.record("state", task.state().as_str());
            *self = Self::default();
        }
    }
}

/// Returns the span of one attempt's route, including its back-off.
pub(crate) fn route(order: &Order) -> Within {
    if !are_wanted() {
        return Within::default();
    }
    Within(tracing::info_span!(
        parent: &order.within.0,
        "route",
        call_id = %order.request.call_id,
        attempt = order.attempt,
    ))
}

/// Returns the span of one attempt, which lasts until its outcome is on disk.
pub(crate) fn call(order: &Order) -> Within {
    if !are_wanted() {
        return Within::default();
    }
    let request = &order.request;
    if request.kind == CallKind::Delegate {
        return Within(tracing::info_span!(
            parent: &order.within.0,
            "agent.call",
            agent = %request.target,
            call_id = %request.call_id,
            task = %order.task_id,
            attempt = order.attempt,
            error = Empty,
            error_type = Empty,
        ));
    }
    if request.kind == CallKind::Handler {
        return Within(tracing::info_span!(
            parent: &order.within.0,
            "handler.call",
            agent = %request.target,
            call_id = %request.call_id,
            task = %order.task_id,
            attempt = order.attempt,
            error = Empty,
            error_type = Empty,
        ));
    }
    let Some(infer) = &order.infer else {
        return Within(tracing::info_span!(
            parent: &order.within.0,
            "tool.call",
            tool = %request.target,
            call_id = %request.call_id,
            task = %order.task_id,
            attempt = order.attempt,
            error = Empty,
            error_type = Empty,
        ));
    };
    let (backend, model) = request.target.split_once('/').unwrap_or(("", &request.target));
    let span = tracing::info_span!(
        parent: &order.within.0,
        "infer",
        backend,
        model,
        call_id = %request.call_id,
        task = %order.task_id,
        attempt = order.attempt,
        session = Empty,
        response_model = Empty,
        input_tokens = Empty,
        output_tokens = Empty,
        error = Empty,
        error_type = Empty,
    );
    if let Some(session) = infer.session_id.as_deref().filter(|_| !span.is_none()) {
        span.record("session", session);
    }
    Within(span)
}

/// Notes the end of the attempt.
pub(crate) fn note_end(within: &Within, end: &AttemptEnd) {
    let span = &within.0;
    if span.is_none() {
        return;
    }
    let error = |kind: &str, message: &dyn std::fmt::Display| {
        span.record("error_type", kind);
        span.record("error", display(message));
    };
    match end {
        AttemptEnd::Succeeded { usage, .. } => {
            if let Some(usage) = usage {
                span.record("input_tokens", usage.input_tokens);
                span.record("output_tokens", usage.output_tokens);
            }
        }
        AttemptEnd::Failed { failure, .. } => error(&failure.error_type, &failure.message),
        AttemptEnd::TimedOut { after_ms, limit: TimeLimit::Heartbeat } => {
            error("timeout", &format_args!("no progress for {after_ms} ms"));
        }
        AttemptEnd::TimedOut { after_ms, .. } => {
            error("timeout", &format_args!("no answer within {after_ms} ms"));
        }
        AttemptEnd::Lost { why } => error("lost", why),
        AttemptEnd::Asked { .. } => {}
    }
}

/// Returns the span of one append, if anybody looks at it.
pub(crate) fn append(append: &Append) -> Option<Span> {
    are_wanted().then(|| {
        tracing::debug_span!(
            "log.append",
            position = Empty,
            bytes = append.parts.iter().map(|part| part.record.bytes().len()).sum::<usize>(),
        )
    })
}

/// Notes the position of the append.
pub(crate) fn appended(span: &Span, appended: &Appended) {
    if let Some(last) = appended.parts.last() {
        span.record("position", last.position.0);
    }
}
