//! What a running tool is given beside its arguments, and the way back for an answer that comes too late.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{Handler, Message, Recipient};

use super::{Key, Router, tool_failed};
use crate::actors::messages::{AttemptEnd, Cause, Order, TaskOp, ToTask};
use crate::actors::tool_stores::ToolStores;
use crate::agent::tool::{Cancellation, LateSink, ToolContext, ToolContextParts};
use crate::agent::tool_state::ToolState;
use crate::error::Error;

/// Where it comes from. Cheap to clone.
#[derive(Clone)]
pub(super) struct Giver {
    pub(super) stores: Arc<ToolStores>,
    pub(super) late: Recipient<Late>,
}

/// A tool that could not be stopped has answered after its attempt was given up.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Late {
    key: Key,
    attempt: u32,
    end: AttemptEnd,
}

impl Giver {
    /// What the tool of this order is given, and its state, to see what it has written.
    pub(super) async fn context(
        &self,
        order: &Order,
        cancellation: Cancellation,
    ) -> Result<(ToolContext, ToolState), Error> {
        let state = self.stores.state(&order.request.target).await?;
        let context = ToolContext::new(ToolContextParts {
            task_id: order.task_id.clone(),
            call_id: order.request.call_id.clone(),
            idempotency_key: order.request.idempotency_key.clone(),
            attempt: order.attempt,
            deadline: Instant::now().checked_add(Duration::from_millis(order.request.timeout_ms)),
            cancellation,
            progress: None,
            state: state.clone(),
            late: Some(self.late(order, state.clone())),
        });
        Ok((context, state))
    }

    fn late(&self, order: &Order, state: ToolState) -> LateSink {
        let (router, attempt) = (self.late.clone(), order.attempt);
        let key = (order.stream.clone(), order.request.call_id.clone());
        Arc::new(move |answer| {
            let end = match answer {
                Ok(result) => AttemptEnd::Succeeded { result, usage: None, writes: state.close() },
                Err(error) => tool_failed(&error),
            };
            router.do_send(Late { key: key.clone(), attempt, end });
        })
    }
}

impl Handler<Late> for Router {
    type Result = ();

    /// The task decides what it is: evidence, mostly; the outcome, where the call is still open.
    fn handle(&mut self, Late { key, attempt, end }: Late, _: &mut Self::Context) {
        if self.halted {
            return;
        }
        let (stream, call_id) = key;
        // Not under the id of the attempt's outcome: that may have been that it took too long.
        let cause = Cause::own(format!("late:{call_id}:{attempt}"), &call_id);
        let op = TaskOp::Outcome { call_id, attempt, end };
        self.to_task.do_send(ToTask { stream, op, cause, reply: None });
    }
}
