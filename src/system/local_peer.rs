//! Another agent of the same system as an agent that may be asked. Its task is an ordinary task of that agent, in the same
//! log; an attempt that finds it there takes it up, and sends nothing again.

use std::sync::{Arc, Weak};

use proto_events::envelope::DELEGATED_COMMAND;
use proto_events::id::{StreamId, Version};
use proto_events::model::{AgentCard, TaskState};
use tokio::sync::{oneshot, watch};

use crate::actors::shared::awaited_tasks::AwaitedCall;
use crate::actors::shared::messages::{Cause, TaskOp, TaskReply, ToTask};
use crate::agent::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind};
use crate::agent::peers::KnownPeer;
use crate::error::Error;
use crate::limits::DELEGATION_TIMEOUT;
use crate::system::handle::{Caller, Inner, System};
use crate::system::peer::answer_of;
use crate::tools::future::BoxFuture;
use crate::tools::policy::ToolPolicy;

/// The way from the agents of a system to the system, which is started after they are described. It does not keep the
/// system running.
#[derive(Clone)]
pub(crate) struct SystemLink(watch::Receiver<Option<Weak<Inner>>>);

/// The end of the link that the start holds.
pub(crate) type LinkEnd = watch::Sender<Option<Weak<Inner>>>;

impl SystemLink {
    /// Returns a link that leads nowhere until its end is given a system.
    pub(crate) fn new() -> (LinkEnd, Self) {
        let (end, link) = watch::channel(None);
        (end, Self(link))
    }

    /// Waits for the system's start, and returns the handle on this agent.
    async fn agent(&self, name: &str) -> Result<System, Error> {
        let mut link = self.0.clone();
        let inner = link.wait_for(Option::is_some).await.ok().and_then(|link| link.as_ref()?.upgrade());
        let inner = inner.ok_or(Error::Stopped)?;
        let own = inner.agents.iter().find(|known| known.agent.name == name).cloned();
        let own = own.ok_or_else(|| Error::Internal(format!("the system has no agent `{name}`")))?;
        Ok(System { inner, caller: Arc::new(Caller::from_agent(own)) })
    }
}

/// Another agent of the same system.
#[derive(Clone)]
pub(crate) struct LocalPeer {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) skills: Vec<String>,
    pub(crate) card: AgentCard,
    pub(crate) link: SystemLink,
}

impl LocalPeer {
    /// Returns the agent as another one of its system knows it.
    pub(crate) fn known(&self) -> KnownPeer {
        KnownPeer {
            code: Arc::new(self.clone()),
            name: self.name.clone(),
            description: self.description.clone(),
            skills: self.skills.clone(),
            detailed: Some(self.card.skills.clone()).filter(|skills| !skills.is_empty()),
            policy: Self::policy(),
            is_local: true,
            is_found: false,
        }
    }

    /// Returns the policy of calls to agents of the same system: a task that was sent is found again.
    fn policy() -> ToolPolicy {
        ToolPolicy::idempotent().timeout(DELEGATION_TIMEOUT).declared_by("agent")
    }
}

impl Peer for LocalPeer {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn skills(&self) -> Vec<String> {
        self.skills.clone()
    }

    fn card(&self) -> Option<AgentCard> {
        Some(self.card.clone())
    }

    fn policy(&self) -> ToolPolicy {
        Self::policy()
    }

    fn send(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        let (link, name) = (self.link.clone(), self.name.clone());
        Box::pin(async move {
            let attempt = delegation.attempt;
            let not_taken = |error: Error| PeerError::new(kind_of(&error, attempt), error.to_string());
            let sent = sent(&link, &name, delegation).await.map_err(not_taken)?;
            let (ended, _attended) = sent;
            let lost = |error: Error| PeerError::new(PeerErrorKind::Lost, error.to_string());
            let reply = ended.await.map_err(|_| lost(Error::Stopped))?;
            let view = reply.map_err(|not_done| lost(not_done.error))?;
            let task = view.task.ok_or_else(|| lost(Error::TaskNotFound(String::new())))?;
            let mut answer = answer_of(&task);
            if task.is_held() {
                // It waits for a person as it is.
                answer.state = TaskState::InputRequired;
            }
            Ok(answer)
        })
    }

    fn cancel(&self, task_id: &str, reason: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        let (link, name) = (self.link.clone(), self.name.clone());
        let (task_id, reason) = (task_id.to_owned(), reason.to_owned());
        Box::pin(async move {
            let canceled = async { link.agent(&name).await?.cancel(&task_id, Some(&reason)).await };
            match canceled.await {
                Ok(_) | Err(Error::TaskNotCancelable { .. }) => Ok(()),
                Err(error @ Error::TaskNotFound(_)) => {
                    Err(PeerError::new(PeerErrorKind::NotFound, error.to_string()))
                }
                Err(error) => Err(PeerError::new(PeerErrorKind::Failed, error.to_string())),
            }
        })
    }
}

/// Sends the task, unless an earlier attempt did, and asks for its end. The system is not held while that is awaited.
async fn sent(
    link: &SystemLink,
    name: &str,
    delegation: Delegation,
) -> Result<(oneshot::Receiver<TaskReply>, AwaitedCall), Error> {
    let system = link.agent(name).await?;
    let Delegation { mut task, attempt, .. } = delegation;
    let stream = StreamId::task(name, &task.id)?;
    let attended = system.inner.running().parts.attended.attend(stream.clone());
    let is_known = attempt > 1 && system.log().stream_version(&stream)? > Version(0);
    if !is_known {
        system.add_defaults(&mut task);
        // The command's id is the task's: a caller that sends it twice gets the first answer.
        let command_id = format!("{DELEGATED_COMMAND}{}", task.id);
        let correlation_id = command_id.clone();
        let cause = Cause {
            command_id,
            correlation_id,
            may_repeat: true,
            ..Cause::from_system(format_args!(""), "")
        };
        let op = TaskOp::Submit(Box::new(task));
        let taken = tell(&system, stream.clone(), op, cause).await?;
        taken.await.map_err(|_| Error::Stopped)?.map_err(|not_done| not_done.error)?;
    }
    let ended =
        tell(&system, stream, TaskOp::AwaitEnd, Cause::from_system(format_args!("await"), "")).await?;
    Ok((ended, attended))
}

/// Sends an operation of the system's own, which is carried out while the system shuts down too: a call in flight waits
/// for it.
async fn tell(
    system: &System,
    stream: StreamId,
    op: TaskOp,
    cause: Cause,
) -> Result<oneshot::Receiver<TaskReply>, Error> {
    let (reply, answer) = oneshot::channel();
    let send = || {
        let message = ToTask { stream, op, cause, reply: Some(reply) };
        system.inner.running().actors()?.to_task.do_send(Box::new(message));
        Ok(answer)
    };
    system.inner.gate.when_open(send).await
}

/// Returns the kind of the failure to send a task: only a first attempt certainly had no effect.
fn kind_of(error: &Error, attempt: u32) -> PeerErrorKind {
    match error {
        Error::Overloaded { .. } if attempt == 1 => PeerErrorKind::Unreachable,
        Error::Model(_) | Error::Id(_) => PeerErrorKind::Refused,
        Error::Task(_) | Error::CommandIdReused { .. } => PeerErrorKind::Failed,
        _ => PeerErrorKind::Lost,
    }
}
