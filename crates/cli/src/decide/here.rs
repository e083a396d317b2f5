//! A decision that is made in a log which is open here, since no program has it open.

use std::sync::Arc;

use proto_events::id::StreamId;
use taskreel::{DecisionResult, Error, Operator};
use taskreel_log::api::{EventReader, EventStore};

use crate::decide::decision::{Decision, Target};
use crate::print::problem::Problem;

/// Makes a decision in a log that is open here, with one append.
pub(super) fn made_in(
    store: &Arc<dyn EventStore>,
    runtime: &tokio::runtime::Runtime,
    target: &Target<'_>,
    decision: &Decision<'_>,
    by: &str,
) -> Result<(StreamId, String, DecisionResult), Problem> {
    let stream = target.find(store.as_ref() as &dyn EventReader)?;
    let whole = decision.whole_id(store.as_ref(), &stream)?;
    let about = decision.about(&whole);
    let operator = Operator::new(Arc::clone(store));
    let done = runtime.block_on(async {
        let done = carry_out(&operator, &stream, &about, by).await?;
        operator.finish().await.map(|()| done)
    });
    let done = done.map_err(|error| Problem::system(&error, Some(&stream.id())))?;
    Ok((stream, whole, done))
}

async fn carry_out(
    operator: &Operator,
    stream: &StreamId,
    decision: &Decision<'_>,
    by: &str,
) -> Result<DecisionResult, Error> {
    match decision {
        Decision::Approve { approval } => operator.approve(stream, approval, by).await,
        Decision::Deny { approval, reason } => operator.deny(stream, approval, *reason, by).await,
        Decision::Reconcile { call, verdict } => operator.reconcile(stream, call, verdict.clone(), by).await,
        Decision::Abandon { call, reason } => operator.abandon(stream, call, reason, by).await,
        Decision::Answer { question, answer } => operator.answer(stream, question, answer.clone(), by).await,
        Decision::Cancel { reason, .. } => operator.cancel(stream, *reason, by).await,
    }
}

/// Returns the user's name from the environment.
pub(super) fn user() -> String {
    let said = ["USER", "LOGNAME", "USERNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    said.into_iter().find(|name| !name.is_empty()).unwrap_or_else(|| "operator".to_owned())
}
