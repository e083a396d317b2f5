//! A call for a summary: the model is asked once, within the time limit of inferences, and whatever happens comes back.

use std::sync::Arc;
use std::time::Duration;

use taskreel_log::ports::Clock;

use crate::actors::shared::session_op::SummaryEnd;
use crate::agent::card::Agent;
use crate::models::backend::{InferErrorKind, InferRequest, retry_delay};
use crate::run::summary::summary_in;
use crate::tools::panics::caught_in;
use crate::tools::texts::short;

/// The end of a call for a summary, and the time after which another may be made if there is sense in it.
pub(super) struct SummaryResult {
    pub(super) end: SummaryEnd,
    pub(super) again: Option<Duration>,
}

impl SummaryResult {
    fn failed(error_type: &str, message: &str) -> Self {
        let (error_type, message) = (short(error_type), short(message));
        Self { end: SummaryEnd::Failed { error_type, message, usage: None }, again: None }
    }

    /// The end of a call whose work was dropped.
    pub(super) fn lost() -> Self {
        Self::failed("Lost", "the runtime for calls has ended")
    }
}

/// Asks the agent's model. `attempt` is the number of the call, from 1.
pub(super) async fn summarize(
    agent: Arc<Agent>,
    clock: Arc<dyn Clock>,
    request: InferRequest,
    attempt: u32,
) -> SummaryResult {
    let Some(backend) = &agent.backend else {
        return SummaryResult::failed("NoModel", "the agent has no model any more");
    };
    let limit = agent.infer_policy.get_timeout();
    let timed = async {
        tokio::select! {
            answer = backend.code.infer(request) => Some(answer),
            () = clock.sleep(limit) => None,
        }
    };
    let is_last = attempt >= agent.infer_policy.attempts_max();
    let delay = |after: Option<Duration>| {
        let delay = after.unwrap_or_else(|| retry_delay(attempt.saturating_sub(1), 0.5));
        (!is_last).then_some(delay.min(crate::limits::RETRY_AFTER_MAX))
    };
    match caught_in(timed).await {
        Err(panic) => SummaryResult::failed("panic", &format!("{} panicked: {panic}", backend.target())),
        Ok(None) => {
            let message = format!("no summary within {} ms", limit.as_millis());
            SummaryResult { again: delay(None), ..SummaryResult::failed("TimeoutError", &message) }
        }
        Ok(Some(Ok(reply))) => {
            let (summary, usage) = (summary_in(&reply.content), reply.usage);
            SummaryResult {
                end: SummaryEnd::Received { reply: reply.to_json(), usage, summary },
                again: None,
            }
        }
        Ok(Some(Err(error))) => {
            let message = if error.message.is_empty() { &error.type_name } else { &error.message };
            let end = SummaryEnd::Failed {
                error_type: short(&error.type_name),
                message: short(message),
                usage: error.usage,
            };
            let again = match error.kind {
                InferErrorKind::Transient { retry_after } => delay(retry_after),
                InferErrorKind::Malformed | InferErrorKind::Failed => None,
            };
            SummaryResult { end, again }
        }
    }
}
