//! An attempt of a tool: its context and its outcome.

use std::sync::Arc;
use std::time::Duration;

use proto_events::call::FailureClass;
use proto_events::call::recovery::RetryWish;
use tokio::sync::Notify;

use crate::actors::router::agents::Agents;
use crate::actors::router::attempt_context::{AttemptContext, failed, failure};
use crate::actors::shared::messages::{AttemptEnd, Order};
use crate::agent::card::Agent;
use crate::limits::RETRY_AFTER_MAX;
use crate::models::backend::retry_delay;
use crate::run::call_of::CallOf;
use crate::run::steps::millis;
use crate::tools::current_call::{CurrentCall, within};
use crate::tools::error::{ToolError, ToolErrorKind, ToolRetry};
use crate::tools::panics::caught_masked;
use crate::tools::secret::Mask;
use crate::tools::texts::short;
use crate::tools::tool::{ProgressSink, ToolContext, ToolContextParts};

/// Calls the tool. Its writes to its state are part of a successful outcome.
pub(crate) async fn tool(agent: &Agent, order: Box<Order>, context: AttemptContext) -> AttemptEnd {
    let AttemptContext { stores, secrets, ports, live, cancellation, beats, jitter, to_task } = context;
    let Some(registered) = agent.tools.get(&order.request.target) else {
        let text = format!("Tool '{}' not found", order.request.target);
        return failed(FailureClass::BeforeEffect, "ToolNotFound", &text);
    };
    let (args, mask) = match secrets.resolve(&order.request, &order.task_id, order.attempt).await {
        Ok((args, mask)) if mask.is_empty() && order.request.secrets.is_empty() => (args, mask),
        Ok((args, mask)) => match registered.check_in_clear(&args) {
            Ok(args) => (args, mask),
            Err(error) => {
                return failed(FailureClass::Rejected, "ArgumentError", &mask.text(&error.to_string()));
            }
        },
        Err(error) => return failed(FailureClass::BeforeEffect, "SecretMissing", &error),
    };
    let state = match stores.state(&order.request.target).await {
        Ok(state) => state,
        Err(error) => {
            let text = format!("the tool's state cannot be read: {error}");
            return failed(FailureClass::BeforeEffect, "StateUnavailable", &text);
        }
    };
    let agents = Agents::of(&order, to_task);
    let CallOf { session_id, metadata, principal, run } = order.whose;
    let current = CurrentCall {
        system: live.system(),
        task: order.stream.clone(),
        call_id: order.request.call_id.clone(),
        session: agent.conversation.then(|| session_id.clone()),
    };
    let parts = ToolContextParts {
        session_id,
        metadata,
        principal,
        run,
        task_id: order.task_id,
        call_id: order.request.call_id.clone(),
        idempotency_key: order.request.idempotency_key.clone(),
        attempt: order.attempt,
        deadline: Some(ports.clock.now().plus_millis(order.request.timeout_ms)),
        clock: ports.clock,
        cancellation,
        progress: Some(watched(masked(live.progress(), &mask), beats)),
        state: state.clone(),
        questions: order.questions,
        agents: None,
    };
    let context = ToolContext::attended(parts, mask.clone(), agents).with_log(stores.log_of_call());
    // The code runs only when the attempt is polled, within the catch.
    let (tool, given) = (registered.tool(), context.clone());
    let code = within(current, async { tool.call(given, args).await });
    let called = caught_masked(code, |text| mask.text(text)).await;
    match called {
        Ok(Ok(result)) => {
            let writes = state.close().into_iter().map(|write| mask.write(write)).collect();
            AttemptEnd::Succeeded { result: mask.json(result), usage: None, writes, says: None }
        }
        Ok(Err(error)) => {
            if let Some(question) = context.open_question() {
                return AttemptEnd::Asked { question };
            }
            let error = if mask.is_empty() { error } else { error.masked(|text| mask.text(text)) };
            tool_failed(&error, retry_delay(order.attempt.saturating_sub(1), jitter))
        }
        Err(panic) => {
            let text = format!("{} panicked: {panic}", order.request.target);
            failed(FailureClass::AfterEffect, "panic", &text)
        }
    }
}

/// Returns a receiver of progress texts that tells the watch of the attempt of each.
pub(crate) fn watched(sink: ProgressSink, beats: Arc<Notify>) -> ProgressSink {
    Arc::new(move |text| {
        beats.notify_one();
        sink(text);
    })
}

/// Returns a receiver of progress texts that shows no secret value.
pub(crate) fn masked(sink: ProgressSink, mask: &Mask) -> ProgressSink {
    if mask.is_empty() {
        return sink;
    }
    let mask = mask.clone();
    Arc::new(move |text| sink(&mask.text(text)))
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
