//! One attempt of a tool: what it is given, and what came of it.

use std::time::{Duration, Instant};

use proto_events::call::FailureClass;

use super::{Given, failed, failure};
use crate::actors::messages::{AttemptEnd, Order};
use crate::agent::Agent;
use crate::agent::infer::retry_delay;
use crate::agent::tool::{ToolContext, ToolContextParts, ToolError, ToolErrorKind};

/// Calls the tool. What it has written to its state goes with its success.
pub(super) async fn tool(agent: &Agent, order: Order, given: Given) -> AttemptEnd {
    let Given { stores, live, cancellation, jitter, .. } = given;
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
    let timeout = Duration::from_millis(order.request.timeout_ms);
    let context = ToolContext::new(ToolContextParts {
        task_id: order.task_id,
        call_id: order.request.call_id.clone(),
        idempotency_key: order.request.idempotency_key.clone(),
        attempt: order.attempt,
        deadline: Instant::now().checked_add(timeout),
        cancellation,
        progress: Some(live.progress()),
        state: state.clone(),
    });
    match registered.tool().call(context, order.request.args).await {
        Ok(result) => AttemptEnd::Succeeded { result, usage: None, writes: state.close() },
        Err(error) => tool_failed(&error, retry_delay(order.attempt.saturating_sub(1), jitter)),
    }
}

/// An error without a message fails with its type as its message. If its policy has it tried again, then after this
/// back-off.
fn tool_failed(error: &ToolError, back_off: Duration) -> AttemptEnd {
    let class = match error.kind() {
        ToolErrorKind::Arguments => FailureClass::Rejected,
        ToolErrorKind::Failed => FailureClass::AfterEffect,
    };
    let message = if error.message().is_empty() { error.type_name() } else { error.message() };
    let delay_ms = u64::try_from(back_off.as_millis()).unwrap_or(u64::MAX);
    AttemptEnd::Failed { failure: failure(class, error.type_name(), message), passing: false, delay_ms }
}
