//! The way of an attempt to other agents: each request becomes a call of the same run, which the task's actor intends, sends
//! and closes like any other, and whose outcome the attempt is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proto_events::call::{CallQuestion, CallStatus, ParentCall, Verdict};
use proto_events::id::StreamId;
use proto_events::model::TaskState;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::actors::shared::delegation_update::DelegationUpdate;
use crate::actors::shared::messages::{Cause, Order, TaskOp, ToTask};
use crate::actors::shared::route::Route;
use crate::agent::peer::PeerAnswer;
use crate::run::delegation_request::{Refusal, WantedCall, action};
use crate::tools::agent_requests::{AgentAnswer, AgentDispatch, AgentWork};
use crate::tools::error::ToolError;
use crate::tools::future::BoxFuture;
use crate::tools::tool_questions::ToolQuestions;

/// The number of times that a request is made again because the actor that took it is gone.
const TRIES: u32 = 3;

/// The way of one attempt to other agents.
pub(crate) struct Agents {
    to_task: Route<Box<ToTask>>,
    stream: StreamId,
    call_id: String,
    attempt: u32,
    questions: Vec<CallQuestion>,
    /// The runtime for calls: a tool may poll its requests elsewhere.
    runtime: Handle,
    /// The number of requests sent, those that were sent again included: each is a command of its own.
    sent: AtomicU64,
    /// The place of the next request. It is held while one is made, so that requests are recorded in their order.
    place: Mutex<u32>,
}

/// A request, and its place among the requests of its call.
struct Request {
    agent: String,
    work: AgentWork,
    ordinal: u32,
}

impl Agents {
    /// Returns the way of an attempt that is carried out on the runtime for calls.
    pub(crate) fn new(order: &Order, to_task: Route<Box<ToTask>>) -> Arc<Self> {
        Arc::new(Self {
            to_task,
            stream: order.stream.clone(),
            call_id: order.request.call_id.clone(),
            attempt: order.attempt,
            questions: order.questions.clone(),
            runtime: Handle::current(),
            sent: AtomicU64::new(0),
            place: Mutex::new(1),
        })
    }

    fn send(&self, request: &Request) -> UnboundedReceiver<DelegationUpdate> {
        let (tell, told) = unbounded_channel();
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        let (call_id, attempt) = (self.call_id.clone(), self.attempt);
        let id = format!("{call_id}:{attempt}:{number}");
        let cause = Cause::from_system(format_args!("agent:{id}"), &call_id);
        let wanted = Box::new(WantedCall {
            id,
            parent: ParentCall { call_id, ordinal: request.ordinal },
            attempt,
            agent: request.agent.clone(),
            what: action(&request.work),
            is_recorded: false,
            refused: None,
        });
        let op = TaskOp::Delegate { wanted, tell };
        self.to_task.do_send(Box::new(ToTask { stream: self.stream.clone(), op, cause, reply: None }));
        told
    }

    /// Waits for the next word on a request, and makes it again if nobody is left to give one.
    async fn next_word(
        &self,
        request: &Request,
        told: &mut UnboundedReceiver<DelegationUpdate>,
    ) -> Result<DelegationUpdate, ToolError> {
        for _ in 0..TRIES {
            match told.recv().await {
                Some(word) => return Ok(word),
                None => *told = self.send(request),
            }
        }
        Err(ToolError::lost("the system has stopped"))
    }

    /// Makes a request, in its turn, and returns once it is on disk.
    async fn record(
        &self,
        (agent, work): (String, AgentWork),
        asking: &ToolQuestions,
    ) -> Result<(Request, UnboundedReceiver<DelegationUpdate>), ToolError> {
        let mut place = self.place.lock().await;
        let request = Request { agent, work, ordinal: *place };
        let mut told = self.send(&request);
        match self.next_word(&request, &mut told).await? {
            DelegationUpdate::Recorded { asked } => {
                asking.pass(&self.questions, &asked);
                *place = place.saturating_add(1);
                Ok((request, told))
            }
            DelegationUpdate::Refused { why: Refusal::Error(kind, text), asked } => {
                asking.pass(&self.questions, &asked);
                Err(ToolError::failed(text).with_type(kind).final_())
            }
            DelegationUpdate::Refused { why: Refusal::AskPerson(question), asked } => {
                asking.pass(&self.questions, &asked);
                let text = format!("waits for approval: {question}");
                asking.wait_for(question);
                Err(ToolError::failed(text).with_type("WaitsForApproval").final_())
            }
            DelegationUpdate::Waits(question) => Err(waits(question, asking)),
            DelegationUpdate::Ended(status) => Err(not_answered(&status)),
        }
    }

    /// Waits for the outcome of a request that is on disk.
    async fn outcome(
        &self,
        request: &Request,
        mut told: UnboundedReceiver<DelegationUpdate>,
        asking: &ToolQuestions,
    ) -> Result<AgentAnswer, ToolError> {
        loop {
            match self.next_word(request, &mut told).await? {
                DelegationUpdate::Recorded { .. } => {}
                DelegationUpdate::Refused { why: Refusal::Error(kind, text), .. } => {
                    return Err(ToolError::failed(text).with_type(kind).final_());
                }
                DelegationUpdate::Refused { why: Refusal::AskPerson(text), .. } => {
                    return Err(ToolError::failed(text).with_type("WaitsForApproval").final_());
                }
                DelegationUpdate::Waits(question) => return Err(waits(question, asking)),
                DelegationUpdate::Ended(status) => return answer(&status),
            }
        }
    }
}

impl AgentDispatch for Agents {
    fn delegate(
        self: Arc<Self>,
        agent: String,
        work: AgentWork,
        asking: Arc<ToolQuestions>,
    ) -> BoxFuture<'static, Result<AgentAnswer, ToolError>> {
        let agent = asking.masked_text(&agent);
        let work = match work {
            AgentWork::Prompt(prompt) => AgentWork::Prompt(asking.masked_text(&prompt)),
            AgentWork::ToolCall { tool, args } => {
                AgentWork::ToolCall { tool: asking.masked_text(&tool), args: asking.masked_json(args) }
            }
        };
        Box::pin(async move {
            // A request that is given up in the middle keeps its place: the next one must not take it.
            let (dispatch, of_call) = (Arc::clone(&self), Arc::clone(&asking));
            let recorded = self.runtime.spawn(async move { dispatch.record((agent, work), &of_call).await });
            let (request, told) = recorded
                .await
                .map_err(|error| ToolError::lost(format!("the request was cut off: {error}")))??;
            self.outcome(&request, told, &asking).await
        })
    }
}

/// Ends the attempt because the task of its request waits for a person.
fn waits(question: String, asking: &ToolQuestions) -> ToolError {
    let error = ToolError::failed(question.clone()).with_type("WaitsForTask").final_();
    asking.wait_for(question);
    error
}

/// Returns the answer in the outcome of a call.
fn answer(status: &CallStatus) -> Result<AgentAnswer, ToolError> {
    match status {
        CallStatus::Succeeded(kept) => {
            Ok(AgentAnswer { state: PeerAnswer::state_in(kept), result: PeerAnswer::result_in(kept) })
        }
        // A person found out what the other agent did.
        CallStatus::Reconciled(Verdict::Landed(result)) => {
            Ok(AgentAnswer { state: TaskState::Completed, result: result.clone() })
        }
        other => Err(not_answered(other)),
    }
}

/// Returns the error for an outcome without an answer. It is recorded: a retry would meet it again.
fn not_answered(status: &CallStatus) -> ToolError {
    let error = |kind: &str, text: String| ToolError::failed(text).with_type(kind).final_();
    match status {
        CallStatus::Failed(failure) => error(&failure.error_type, failure.message.clone()),
        CallStatus::Unknown(why) | CallStatus::Reconciled(Verdict::Inconclusive(why)) => {
            error("OutcomeUnknown", format!("the outcome of the request is unknown: {why}"))
        }
        CallStatus::Abandoned(why) => {
            error("OutcomeUnknown", format!("the outcome of the request stays unknown: {why}"))
        }
        CallStatus::Reconciled(Verdict::DidNotHappen) => {
            error("DidNotHappen", "a person found out that the request did not take effect".to_owned())
        }
        _ => error("Canceled", "the request was canceled".to_owned()),
    }
}
