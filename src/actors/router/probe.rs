//! The probe of a tool, or of another agent: whether a lost attempt took effect. A probe only reads, so no intent is recorded for
//! it.

use std::sync::Arc;
use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use proto_events::call::{CallKind, Verdict};
use proto_events::json::JsonText;
use taskreel_log::ports::Clock;

use crate::actors::router::Router;
use crate::actors::router::delegate::{self, DelegationState};
use crate::actors::shared::messages::ProbeOrder;
use crate::actors::shared::secrets::CallSecrets;
use crate::actors::shared::sleep::sleep_on;
use crate::actors::shared::tool_stores::ToolStores;
use crate::agent::card::Agent;
use crate::limits::CANCEL_GRACE;
use crate::tools::panics::{caught_in, caught_masked};
use crate::tools::secret::Mask;
use crate::tools::texts::short;
use crate::tools::tool::{Cancellation, ToolContext, ToolContextParts};

impl Handler<ProbeOrder> for Router {
    type Result = ();

    fn handle(&mut self, order: ProbeOrder, ctx: &mut Self::Context) {
        if self.halted {
            return;
        }
        let agent = Arc::clone(&self.agent);
        let stores = Arc::clone(&self.tool_stores);
        let ports = self.ports.clone();
        let (stream, call_id, attempt) = (order.stream.clone(), order.request.call_id.clone(), order.attempt);
        let bound = Duration::from_millis(order.request.timeout_ms);
        // An attempt interrupted a moment ago may still be ending.
        let wait = if order.interrupted { CANCEL_GRACE } else { Duration::ZERO };
        let clock = self.ports.clock.clone();
        // Taken now: once the call is settled, they are removed.
        let secrets = self.secrets.of_call(&order.stream, &order.request);
        let work = self.calls.spawn(async move {
            sleep_on(&clock, wait).await;
            let target = order.request.target.clone();
            let run = async {
                if order.request.kind == CallKind::Delegate {
                    return delegate::probe(&agent.peers, &order, ports).await;
                }
                DelegationState::Verdict(run_probe(&agent, &stores, secrets, Arc::clone(&clock), order).await)
            };
            let unsure = |why: String| DelegationState::Verdict(Verdict::Inconclusive(why));
            tokio::select! {
                answer = caught_in(run) => {
                    answer.unwrap_or_else(|panic| unsure(format!("the probe of {target} panicked: {panic}")))
                }
                () = sleep_on(&clock, bound) => {
                    unsure(format!("the probe did not answer within {} ms", bound.as_millis()))
                }
            }
        });
        let tell = work.into_actor(self).map(move |found, router: &mut Self, _: &mut Context<Self>| {
            if router.halted {
                return;
            }
            let found = found.unwrap_or_else(|error| {
                DelegationState::Verdict(Verdict::Inconclusive(format!("the probe was cut off: {error}")))
            });
            router.to_task.do_send(found.task_message(stream, call_id, attempt));
        });
        ctx.spawn(tell);
    }
}

async fn run_probe(
    agent: &Agent,
    stores: &ToolStores,
    secrets: CallSecrets,
    clock: Arc<dyn Clock>,
    order: ProbeOrder,
) -> Verdict {
    let tool = agent.tools.get(&order.request.target);
    let Some(probe) = tool.and_then(|tool| tool.spec().policy.probe()) else {
        return Verdict::Inconclusive("the tool has no probe any more".to_owned());
    };
    let (context, args, mask) = match context_of(stores, secrets, clock, &order).await {
        Ok(context) => context,
        Err(error) => return Verdict::Inconclusive(short(&error)),
    };
    let target = &order.request.target;
    let asked = caught_masked(async { probe.get().ask(context, args).await }, |text| mask.text(text)).await;
    match asked {
        Ok(Ok(Verdict::Landed(result))) => Verdict::Landed(mask.json(result)),
        Ok(Ok(Verdict::Inconclusive(why))) => Verdict::Inconclusive(mask.text(&why)),
        Ok(Ok(Verdict::DidNotHappen)) => Verdict::DidNotHappen,
        Ok(Err(error)) => Verdict::Inconclusive(short(&mask.text(&format!("the probe failed: {error}")))),
        Err(panic) => Verdict::Inconclusive(short(&format!("the probe of {target} panicked: {panic}"))),
    }
}

/// Returns the context and the arguments of an attempt, for code that asks about it, and the mask of its secrets.
pub(super) async fn context_of(
    stores: &ToolStores,
    secrets: CallSecrets,
    clock: Arc<dyn Clock>,
    order: &ProbeOrder,
) -> Result<(ToolContext, JsonText, Mask), String> {
    let request = &order.request;
    let (args, mask) = secrets.resolve(request, &order.task_id, order.attempt).await?;
    // It may read the writes of earlier calls; its own writes are dropped.
    let state = stores.state(&request.target).await;
    let state = state.map_err(|error| format!("the tool's state cannot be read: {error}"))?;
    let context = ToolContext::new(ToolContextParts {
        task_id: order.task_id.clone(),
        call_id: request.call_id.clone(),
        idempotency_key: request.idempotency_key.clone(),
        attempt: order.attempt,
        deadline: Some(clock.now().plus_millis(request.timeout_ms)),
        clock,
        cancellation: Cancellation::new(),
        state,
        ..ToolContextParts::default()
    });
    Ok((context, args, mask))
}
