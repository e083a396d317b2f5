//! Asking a tool's probe whether a lost attempt took effect. It only reads, so nothing about it is written before.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use futures_util::FutureExt;
use proto_events::call::Verdict;

use super::{Router, short};
use crate::actors::messages::{Cause, ProbeOrder, TaskOp, ToTask};
use crate::actors::tool_stores::ToolStores;
use crate::agent::Agent;
use crate::agent::tool::{Cancellation, ToolContext, ToolContextParts};
use crate::limits::CANCEL_GRACE;

impl Handler<ProbeOrder> for Router {
    type Result = ();

    fn handle(&mut self, order: ProbeOrder, ctx: &mut Self::Context) {
        if self.halted {
            return;
        }
        let agent = std::sync::Arc::clone(&self.agent);
        let stores = std::sync::Arc::clone(&self.tool_stores);
        let (stream, call_id, attempt) = (order.stream.clone(), order.request.call_id.clone(), order.attempt);
        let bound = Duration::from_millis(order.request.timeout_ms);
        // What was interrupted a moment ago may still be coming to its end.
        let wait = if order.interrupted { CANCEL_GRACE } else { Duration::ZERO };
        let clock = self.ports.clock.clone();
        let work = self.calls.spawn(async move {
            clock.sleep(wait).await;
            let asked = AssertUnwindSafe(ask(&agent, &stores, order)).catch_unwind();
            tokio::select! {
                answer = asked => answer.unwrap_or_else(|_| Verdict::Inconclusive("the probe panicked".to_owned())),
                () = clock.sleep(bound) => Verdict::Inconclusive(format!("the probe did not answer within {} ms", bound.as_millis())),
            }
        });
        let tell = work.into_actor(self).map(move |verdict, router: &mut Self, _: &mut Context<Self>| {
            if router.halted {
                return;
            }
            let verdict = verdict
                .unwrap_or_else(|error| Verdict::Inconclusive(format!("the probe was cut off: {error}")));
            let cause = Cause::own(format!("probe:{call_id}:{attempt}"), &call_id);
            let op = TaskOp::Probed { call_id, attempt, verdict };
            router.to_task.do_send(ToTask { stream, op, cause, reply: None });
        });
        ctx.spawn(tell);
    }
}

async fn ask(agent: &Agent, stores: &ToolStores, order: ProbeOrder) -> Verdict {
    let tool = agent.tools.get(&order.request.target);
    let Some(probe) = tool.and_then(|tool| tool.spec().policy.probe()) else {
        return Verdict::Inconclusive("the tool has no probe any more".to_owned());
    };
    // It may look at what earlier calls have written; what it writes itself goes nowhere.
    let state = match stores.state(&order.request.target).await {
        Ok(state) => state,
        Err(error) => {
            return Verdict::Inconclusive(short(&format!("the tool's state cannot be read: {error}")));
        }
    };
    let context = ToolContext::new(ToolContextParts {
        task_id: order.task_id,
        call_id: order.request.call_id.clone(),
        idempotency_key: order.request.idempotency_key.clone(),
        attempt: order.attempt,
        deadline: Instant::now().checked_add(Duration::from_millis(order.request.timeout_ms)),
        cancellation: Cancellation::new(),
        state,
        ..ToolContextParts::default()
    });
    match probe.get().ask(context, order.request.args).await {
        Ok(verdict) => verdict,
        Err(error) => Verdict::Inconclusive(short(&format!("the probe failed: {error}"))),
    }
}
