//! The request to an approval handler. It runs outside the mailbox, so that a cancel is handled while the
//! handler works. The request is on disk before it is made, and the reply is an ordinary command. Where a
//! handler takes too long or panics, a person is asked.

use proto_events::id::StreamId;
use tokio::task::AbortHandle;

use crate::actors::shared::messages::{Cause, TaskOp, ToTask};
use crate::actors::shared::parts::Shared;
use crate::actors::shared::sleep::sleep_on;
use crate::agent::approval::{ApprovalRequest, ApprovalVerdict, Approvals};
use crate::tools::panics::caught_in;

/// A request to a handler; dropping it interrupts the handler.
pub(crate) struct RunningApprover {
    approval_id: String,
    handler: AbortHandle,
    waiting: actix_rt::task::JoinHandle<()>,
}

impl RunningApprover {
    /// Starts the request on the runtime for calls.
    pub(crate) fn start(shared: &Shared, stream: StreamId, request: ApprovalRequest) -> Self {
        let agent = std::sync::Arc::clone(&shared.agent);
        let approval_id = request.approval_id.clone();
        let asked = shared.calls.spawn(async move {
            let ask = async move {
                match &agent.approvals {
                    Approvals::Handler(handler) => handler.ask(request).await,
                    Approvals::Nobody | Approvals::Person => ApprovalVerdict::AskPerson,
                }
            };
            caught_in(ask).await
        });
        let (clock, bound) = (shared.ports.clock.clone(), shared.agent.approval_timeout);
        let (to_task, id) = (shared.to_task.clone(), approval_id.clone());
        let handler = asked.abort_handle();
        let stop = asked.abort_handle();
        let waiting = actix_rt::spawn(async move {
            let verdict = tokio::select! {
                answer = asked => match answer {
                    Ok(Ok(verdict)) => verdict,
                    Ok(Err(panic)) => left_to_person(&id, &format!("panicked: {panic}")),
                    Err(error) => left_to_person(&id, &error.to_string()),
                },
                () = sleep_on(&clock, bound) => {
                    stop.abort();
                    left_to_person(&id, "timed out")
                }
            };
            let cause = Cause::from_system(format_args!("approval:{id}"), &id);
            let op = TaskOp::Answered { approval_id: id, verdict };
            to_task.do_send(Box::new(ToTask { stream, op, cause, reply: None }));
        });
        Self { approval_id, handler, waiting }
    }

    /// Returns the id of the approval that is asked for.
    pub(crate) fn approval_id(&self) -> &str {
        &self.approval_id
    }
}

impl Drop for RunningApprover {
    fn drop(&mut self) {
        self.handler.abort();
        self.waiting.abort();
    }
}

fn left_to_person(approval_id: &str, why: &str) -> ApprovalVerdict {
    tracing::warn!(
        approval = approval_id,
        why,
        "the approval handler returned no decision; a person must decide"
    );
    ApprovalVerdict::AskPerson
}
