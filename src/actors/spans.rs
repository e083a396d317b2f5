//! The spans of a run: `task` → `route` → `tool.call`, `infer` or `agent.call` → `log.append`. They are a view for
//! whoever installs a subscriber, the events are the truth; without one nothing is built. A call's span lasts until
//! its outcome is written, so that the append stands in it. An error is recorded once, on the call that had it.

use proto_events::call::CallKind;
use proto_events::id::StreamId;
use proto_events::json::JsonText;
use proto_events::task::Task;
use tracing::Span;
use tracing::field::{Empty, display};

use crate::actors::messages::{AttemptEnd, Order};
use crate::agent::infer::InferReply;
use crate::agent::plan::session_id;
use crate::store::{Append, Appended};

/// A span that travels with a message; none unless somebody put one in.
#[derive(Debug, Clone)]
pub(crate) struct Within(pub(crate) Span);

impl Default for Within {
    fn default() -> Self {
        Self(Span::none())
    }
}

/// The span of one stretch of work on a task, from the first command until the task comes to rest.
#[derive(Debug, Default)]
pub(super) struct RunSpan {
    span: Within,
    session_told: bool,
}

impl RunSpan {
    /// The span, begun if there is none. Whoever set it going is not its parent: it may be over long before.
    pub(super) fn enter(&mut self, stream: &StreamId, caller: &Within) -> Within {
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

    /// The span, if one is open.
    pub(super) fn within(&self) -> Within {
        self.span.clone()
    }

    /// Notes what is known of the task; ends the span when it rests.
    pub(super) fn note(&mut self, task: &Task, at_rest: bool) {
        if self.span.0.is_none() {
            return;
        }
        if !self.session_told && task.exists() {
            self.session_told = true;
            self.span.0.record("session", session_id(task));
        }
        if at_rest {
            self.span.0.record("state", task.state().as_str());
            *self = Self::default();
        }
    }
}

/// The way of one attempt, its back-off included.
pub(super) fn route(order: &Order) -> Within {
    Within(tracing::info_span!(
        parent: &order.within.0,
        "route",
        call_id = %order.request.call_id,
        attempt = order.attempt,
        delay_ms = order.delay_ms,
    ))
}

/// One attempt, until its outcome is on disk.
pub(super) fn call(order: &Order) -> Within {
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

/// Notes how the attempt ended.
pub(super) fn note_end(within: &Within, end: &AttemptEnd) {
    let span = &within.0;
    if span.is_none() {
        return;
    }
    let error = |kind: &str, message: &dyn std::fmt::Display| {
        span.record("error_type", kind);
        span.record("error", display(message));
    };
    match end {
        AttemptEnd::Succeeded { result, usage, .. } => {
            if let Some(usage) = usage {
                span.record("input_tokens", usage.input_tokens);
                span.record("output_tokens", usage.output_tokens);
            }
            // A tool's result is nobody's business here.
            if span.has_field("response_model")
                && let Some(model) = answering_model(result)
            {
                span.record("response_model", model);
            }
        }
        AttemptEnd::Failed { failure, .. } => error(&failure.error_type, &failure.message),
        AttemptEnd::TimedOut { after_ms } => {
            error("timeout", &format_args!("no answer within {after_ms} ms"));
        }
        AttemptEnd::Lost { why } => error("lost", why),
    }
}

fn answering_model(result: &JsonText) -> Option<String> {
    InferReply::from_json(result).ok().map(|reply| reply.model)
}

/// One append, as far as it was asked for.
pub(super) fn append(append: &Append) -> Span {
    tracing::debug_span!(
        "log.append",
        position = Empty,
        bytes = append.parts.iter().map(|part| part.record.bytes().len()).sum::<usize>(),
    )
}

/// Notes where it stands.
pub(super) fn appended(span: &Span, appended: &Appended) {
    if let Some(last) = appended.parts.last() {
        span.record("position", last.position.0);
    }
}
