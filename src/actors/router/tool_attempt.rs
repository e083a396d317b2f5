//! An attempt of a tool: its context and its outcome.

use std::sync::Arc;
use std::time::Duration;

use proto_events::call::FailureClass;
use proto_events::call::recovery::RetryWish;
use proto_events::json::JsonText;
use proto_events::task::HandlerSays;
use tokio::sync::Notify;

use crate::actors::router::agents::Agents;
use crate::actors::router::attempt_context::{AttemptContext, failed, failure};
use crate::actors::shared::messages::{AttemptEnd, Order};
use crate::agent::card::Agent;
use crate::error::Error;
use crate::files::images::name_images;
use crate::limits::{ATTACHED_ARTIFACTS_MAX, RETRY_AFTER_MAX};
use crate::models::backend::retry_delay;
use crate::run::call_of::CallOf;
use crate::run::secrets::mask_artifact;
use crate::run::steps::millis;
use crate::tools::current_call::{CurrentCall, within};
use crate::tools::error::{ToolError, ToolErrorKind, ToolRetry};
use crate::tools::panics::caught_masked;
use crate::tools::registry::RegisteredTool;
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
    let resolved = secrets.resolve(&order.request, &order.task_id, order.attempt).await;
    let (args, mask) = match in_clear(registered, &order, resolved) {
        Ok(given) => given,
        Err(end) => return end,
    };
    let state = stores.state(&order.request.target).await;
    let state = match state.map_err(|error| format!("the tool's state cannot be read: {error}")) {
        Ok(state) => state,
        Err(why) => return failed(FailureClass::BeforeEffect, "StateUnavailable", &why),
    };
    let agents = Agents::new(&order, to_task);
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
            match attached(agent, &context, &mask).await {
                Ok(says) => AttemptEnd::Succeeded { result: mask.json(result), usage: None, writes, says },
                Err(end) => end,
            }
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

/// Returns the arguments with their secret values, which must suit the tool, and what hides those values.
fn in_clear(
    registered: &RegisteredTool,
    order: &Order,
    resolved: Result<(JsonText, Mask), String>,
) -> Result<(JsonText, Mask), AttemptEnd> {
    let missing = |why: String| failed(FailureClass::BeforeEffect, "SecretMissing", &why);
    let (args, mask) = resolved.map_err(missing)?;
    if mask.is_empty() && order.request.secrets.is_empty() {
        return Ok((args, mask));
    }
    match registered.check_in_clear(&args) {
        Ok(args) => Ok((args, mask)),
        Err(error) => Err(failed(FailureClass::Rejected, "ArgumentError", &mask.text(&error.to_string()))),
    }
}

/// Returns the artifacts of an attempt as they go to the log, without secret values: files that stand beside it are written first.
async fn attached(agent: &Agent, cx: &ToolContext, mask: &Mask) -> Result<Vec<HandlerSays>, AttemptEnd> {
    let mut artifacts = cx.close_attached();
    if artifacts.is_empty() {
        return Ok(Vec::new());
    }
    if artifacts.len() > ATTACHED_ARTIFACTS_MAX {
        let count = artifacts.len();
        let why = format!("the call attached {count} artifacts; at most {ATTACHED_ARTIFACTS_MAX} are kept");
        return Err(failed(FailureClass::AfterEffect, "TooManyArtifacts", &why));
    }
    if !mask.is_empty() {
        for artifact in &mut artifacts {
            mask_artifact(mask, artifact);
        }
    }
    if agent.backend.as_ref().is_some_and(|backend| backend.takes_images) {
        for artifact in &mut artifacts {
            name_images(artifact, cx.call_id());
        }
    }
    let kept = agent.files.check_and_store(cx.clock(), cx.task_id(), artifacts, Vec::new()).await;
    let kept = kept.map_err(|not| {
        let why = Error::FileNotKept { artifact: not.artifact, why: not.why }.to_string();
        failed(FailureClass::AfterEffect, "FileNotKept", &mask.text(&why))
    })?;
    agent.files.copy(cx.clock(), cx.task_id(), kept.to_copy).await;
    Ok(kept.artifacts.into_iter().map(HandlerSays::Artifact).collect())
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
