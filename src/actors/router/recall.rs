//! The stop of work elsewhere whose call has its outcome: the task of another agent, or what a tool has begun.

use std::sync::Arc;

use actix::{ActorFutureExt, AsyncContext, Handler, WrapFuture};
use taskreel_log::ports::Clock;

use crate::actors::router::Router;
use crate::actors::router::delegate;
use crate::actors::router::probe::context_of;
use crate::actors::shared::messages::{ProbeOrder, Recall};
use crate::actors::shared::secrets::CallSecrets;
use crate::actors::shared::sleep::sleep_on;
use crate::actors::shared::tool_stores::ToolStores;
use crate::agent::card::Agent;
use crate::limits::RECALL_WITHIN;
use crate::tools::panics::caught_masked;
use crate::tools::texts::short;

impl Handler<Recall> for Router {
    type Result = ();

    fn handle(&mut self, message: Recall, ctx: &mut Self::Context) {
        let clock = Arc::clone(&self.ports.clock);
        let work = match message {
            Recall::Peer { peer, recalled } => {
                let Some(code) = self.agent.peers.code_of(&peer) else { return };
                self.calls.spawn(delegate::recall(code, peer, recalled, clock))
            }
            Recall::Tool(order) => {
                // Taken now: once the call is settled, they are removed.
                let secrets = self.secrets.of_call(&order.stream, &order.request);
                let (agent, stores) = (Arc::clone(&self.agent), Arc::clone(&self.tool_stores));
                self.calls.spawn(of_tool(agent, stores, secrets, clock, *order))
            }
        };
        self.recalls += 1;
        ctx.spawn(work.into_actor(self).map(|_ended, actor: &mut Self, _| {
            actor.recalls -= 1;
            actor.reply_drained();
        }));
    }
}

/// Has a tool stop what a call has begun that is given up. This is best effort, as the cancel of another agent's task is: the
/// call has its outcome already.
async fn of_tool(
    agent: Arc<Agent>,
    stores: Arc<ToolStores>,
    secrets: CallSecrets,
    clock: Arc<dyn Clock>,
    order: ProbeOrder,
) {
    let target = order.request.target.clone();
    let tool = agent.tools.get(&target);
    let Some(recall) = tool.and_then(|tool| tool.spec().policy.recall()) else { return };
    let asked = async {
        let (context, args, mask) = context_of(&stores, secrets, Arc::clone(&clock), &order).await?;
        let asked = caught_masked(async { recall.get().ask(context, args).await }, |text| mask.text(text));
        match asked.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(mask.text(&error.to_string())),
            Err(panic) => Err(format!("it panicked: {panic}")),
        }
    };
    let failed = tokio::select! {
        done = asked => match done {
            Ok(()) => return,
            Err(error) => short(&error),
        },
        () = sleep_on(&clock, RECALL_WITHIN) => "no answer in time".to_owned(),
    };
    let call = &order.request.call_id;
    tracing::warn!(tool = target, call, error = %failed, "the work of a tool's call could not be stopped");
}
