//! An attempt of a tool: its context and its outcome.

use std::time::Duration;

use proto_events::call::FailureClass;
use proto_events::call::recovery::RetryWish;

use crate::actors::router::attempt_context::{AttemptContext, failed, failure};
use crate::actors::shared::messages::{AttemptEnd, Order};
use crate::actors::shared::texts::short;
use crate::agent::card::Agent;
use crate::limits::RETRY_AFTER_MAX;
use crate::models::backend::retry_delay;
use crate::run::steps::millis;
use crate::tools::error::{ToolError, ToolErrorKind, ToolRetry};
use crate::tools::tool::{ToolContext, ToolContextParts};

/// Calls the tool. Its writes to its state are part of a successful outcome.
pub(crate) async fn tool(agent: &Agent, order: Order, context: AttemptContext) -> AttemptEnd {
    let AttemptContext { stores, ports, live, cancellation, jitter, .. } = context;
    let Some(registered) = agent.tools.get(&order.request.target) else {
        let text = format!("Tool '{}' not found", order.request.target);
        return failed(FailureClass::BeforeEffect, "ToolNotFound", &text);
    };
    let state = match stores.state(&order.request.target).await {
        Ok(state) => state,
        Err(error) => {
            let text = format!("the tool's state cannot be read: {error}");
            return failed(FailureClass::BeforeEffect, "StateUnavailable", &text);
        }
    };
    let context = ToolContext::new(ToolContextParts {
        task_id: order.task_id,
        call_id: order.request.call_id.clone(),
        idempotency_key: order.request.idempotency_key.clone(),
        attempt: order.attempt,
        deadline: Some(ports.clock.now().plus_millis(order.request.timeout_ms)),
        clock: ports.clock,
        cancellation,
        progress: Some(live.progress()),
        state: state.clone(),
        questions: order.questions,
    });
    match registered.tool().call(context.clone(), order.request.args).await {
        Ok(result) => AttemptEnd::Succeeded { result, usage: None, writes: state.close() },
        Err(error) => match context.open_question() {
            Some(question) => AttemptEnd::Asked { question },
            None => tool_failed(&error, retry_delay(order.attempt.saturating_sub(1), jitter)),
        },
    }
}

/// Returns the outcome of an attempt whose tool returned an error. An error without a message gets its type as message. A
/// retry by the tool's policy waits for the time that the tool names, else for this back-off.
pub(crate) fn tool_failed(error: &ToolError, back_off: Duration) -> AttemptEnd {
    let class = match error.kind() {
        ToolErrorKind::Arguments => FailureClass::Rejected,
        ToolErrorKind::Failed => FailureClass::AfterEffect,
        ToolErrorKind::NotSent => FailureClass::BeforeEffect,
        ToolErrorKind::Lost => return AttemptEnd::Lost { why: short(error.message()) },
    };
    let message = if error.message().is_empty() { error.type_name() } else { error.message() };
    let retry = match error.retry() {
        ToolRetry::Never => RetryWish::Never,
        ToolRetry::After(time) => RetryWish::After(millis(time.min(RETRY_AFTER_MAX))),
        ToolRetry::ByPolicy => RetryWish::After(millis(back_off)),
    };
    AttemptEnd::Failed { failure: failure(class, error.type_name(), message), retry }
}
