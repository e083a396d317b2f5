//! An attempt of a call: runs the tool, the model or the request to another agent and reports its end.

use proto_events::call::recovery::RetryWish;
use proto_events::call::{CallFailure, CallKind, FailureClass};
use taskreel_log::ports::Clock;
use taskreel_log::shown::ImageRef;

use crate::actors::router::attempt_context::{AttemptContext, failed};
use crate::actors::router::delegate;
use crate::actors::router::handler_attempt::handler;
use crate::actors::router::tool_attempt::tool;
use crate::actors::shared::messages::{AttemptEnd, Order};
use crate::agent::card::Agent;
use crate::files::images::read_image;
use crate::limits::RETRY_AFTER_MAX;
use crate::models::backend::{InferError, InferErrorKind, InferRequest, retry_delay};
use crate::models::message::Image;
use crate::models::shown_messages::UnreadImage;
use crate::tools::panics::caught_in;
use crate::tools::texts::short;

/// Carries out one attempt, from the first byte sent to the last one read. A panic is a failure, not a crash.
pub(crate) async fn attempt(agent: &Agent, order: Box<Order>, context: AttemptContext) -> AttemptEnd {
    let (number, target) = (order.attempt, order.request.target.clone());
    // In boxes: the task that carries out an attempt would otherwise have the size of the largest kind, for each of them, and be
    // copied as a whole several times.
    let work = async {
        match order.infer {
            Some(request) => {
                let may_talk = agent.may_talk();
                let request = InferRequest { deltas: context.live.deltas(may_talk), ..request };
                Box::pin(infer(agent, request, number, (context.jitter, &*context.ports.clock))).await
            }
            None if order.request.kind == CallKind::Delegate => {
                Box::pin(delegate::attempt(&agent.peers, &order, context.ports, context.to_task)).await
            }
            None if order.request.kind == CallKind::Handler => Box::pin(handler(agent, order, context)).await,
            None => Box::pin(tool(agent, order, context)).await,
        }
    };
    caught_in(work).await.unwrap_or_else(|panic| {
        failed(FailureClass::AfterEffect, "panic", &format!("{target} panicked: {panic}"))
    })
}

async fn infer(
    agent: &Agent,
    mut request: InferRequest,
    attempt: u32,
    (jitter, clock): (f64, &dyn Clock),
) -> AttemptEnd {
    let Some(backend) = &agent.backend else {
        let text = "the agent has no model any more";
        return failed(FailureClass::BeforeEffect, "NoModel", text);
    };
    for unread in request.messages.take_unread() {
        let UnreadImage { message, image, part } = unread;
        match read_image(&agent.files, clock, &request.task_id, (&image, &part)).await {
            Ok(base64) => {
                let ImageRef { artifact_id, media_type, .. } = image;
                request.messages.add_image(message, Image { artifact_id, media_type, base64 });
            }
            Err(why) => {
                let why = format!("the image of the artifact {} cannot be sent: {why}", image.artifact_id);
                let passing = InferErrorKind::Transient { retry_after: None };
                let error = InferError::new(passing, "ImageNotRead", why);
                return infer_failed(&error, attempt, jitter);
            }
        }
    }
    match backend.code.infer(request).await {
        Ok(reply) => {
            tracing::Span::current().record("response_model", &reply.model);
            let (result, usage) = (reply.to_json(), reply.usage);
            AttemptEnd::Succeeded { result, usage, writes: Vec::new(), says: Vec::new() }
        }
        Err(error) => infer_failed(&error, attempt, jitter),
    }
}

fn infer_failed(error: &InferError, attempt: u32, jitter: f64) -> AttemptEnd {
    let message = if error.message.is_empty() { &error.type_name } else { &error.message };
    let failure = |class| {
        let (error_type, message) = (short(&error.type_name), short(message));
        CallFailure { class, error_type, message, usage: error.usage }
    };
    match error.kind {
        InferErrorKind::Transient { retry_after } => {
            let delay = retry_after.unwrap_or_else(|| retry_delay(attempt.saturating_sub(1), jitter));
            let delay = delay.min(RETRY_AFTER_MAX);
            let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            AttemptEnd::Failed {
                failure: failure(FailureClass::AfterEffect),
                retry: RetryWish::After(delay_ms),
            }
        }
        InferErrorKind::Malformed => {
            AttemptEnd::Failed { failure: failure(FailureClass::Rejected), retry: RetryWish::Never }
        }
        InferErrorKind::Failed => {
            AttemptEnd::Failed { failure: failure(FailureClass::AfterEffect), retry: RetryWish::Never }
        }
    }
}
