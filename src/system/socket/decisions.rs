//! A person's decisions that come through the socket: each is carried out as a handle of the system does it. The person is
//! the user of the process at the other end, as the operating system states it; a name that a client gives is not taken.

use std::sync::{Arc, Weak};

use proto_events::call::{Answer, CallRejection, Verdict};
use proto_events::envelope::{Committed, Principal};
use proto_events::id::{Mint as _, StreamId, Version};
use proto_events::json::JsonText;
use proto_events::task::{ApprovalRejection, TaskRejection};
use taskreel_log::socket::{OperatorRefusal, OperatorReply, OperatorRequest, Peer, RefusalKind};

use crate::error::Error;
use crate::system::handle::{Caller, Inner, System};
use crate::system::handles::TaskHandle;
use crate::system::socket_registry::AgentOperator;

/// The operator handler of a running system.
pub(crate) struct Decisions {
    agents: Vec<String>,
    /// Weak, so that the socket does not keep a system that its host has dropped.
    system: Weak<Inner>,
}

impl Decisions {
    pub(crate) fn from_system(system: &System) -> Self {
        Self { agents: system.agents(), system: Arc::downgrade(&system.inner) }
    }
}

impl AgentOperator for Decisions {
    fn agents(&self) -> &[String] {
        &self.agents
    }

    fn carry_out(
        &self,
        peer: &Peer,
        stream: &StreamId,
        request: OperatorRequest,
    ) -> Result<OperatorReply, OperatorRefusal> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| failed(format!("no runtime could be created: {error}")))?;
        let inner = self.system.upgrade().ok_or_else(|| refusal(&Error::Stopped))?;
        let name = stream.agent();
        let own = inner.agents.iter().find(|known| known.agent.name == name).cloned();
        let own = own.ok_or_else(|| wrong(RefusalKind::Rejected, format!("there is no agent `{name}`")))?;
        let system = System { inner, caller: Arc::new(Caller::from_agent(own)) };
        let by = Principal::authenticated(peer.user());
        tracing::info!(
            by = by.name,
            pid = peer.pid,
            task = request.task(),
            "a decision came through the socket"
        );
        let decided = runtime.block_on(decide(&system, stream, by, request));
        drop_elsewhere(system);
        decided
    }
}

/// Drops a handle of the system on another thread. It is the last one if the host has dropped its own meanwhile: the end of the
/// system closes the socket, which waits for this very connection to send its reply.
fn drop_elsewhere(system: System) {
    let dropping = std::thread::Builder::new().name("log-socket-drop".to_owned());
    if let Err(error) = dropping.spawn(move || drop(system)) {
        tracing::warn!(%error, "a handle of the system was dropped on the thread of a connection");
    }
}

fn failed(why: String) -> OperatorRefusal {
    OperatorRefusal { kind: RefusalKind::Failed, why }
}

fn wrong(kind: RefusalKind, why: impl std::fmt::Display) -> OperatorRefusal {
    OperatorRefusal { kind, why: why.to_string() }
}

/// Returns a refusal with an error's text.
fn refusal(error: &Error) -> OperatorRefusal {
    let cause = match error {
        Error::InDoubt { source, .. } => source,
        other => other,
    };
    let kind = match cause {
        Error::TaskNotFound(_)
        | Error::Task(
            TaskRejection::NotFound
            | TaskRejection::Approval(ApprovalRejection::Unknown(_))
            | TaskRejection::Call(CallRejection::NotRequested(_)),
        ) => RefusalKind::Unknown,
        Error::Task(_) | Error::TaskNotCancelable { .. } => RefusalKind::Rejected,
        Error::Id(_) => RefusalKind::Input,
        _ => RefusalKind::Failed,
    };
    wrong(kind, error)
}

async fn decide(
    system: &System,
    stream: &StreamId,
    by: Principal,
    request: OperatorRequest,
) -> Result<OperatorReply, OperatorRefusal> {
    // An id of our own, by which the log tells whether this decision was the one that was written.
    let command_id = system.inner.ports.clone().uuid();
    let acting = system.acting_as(by.clone()).once(&command_id);
    let task = acting.task(&stream.id()).map_err(|error| refusal(&error))?;
    let before = system.log().stream_version(stream).map_err(|error| failed(error.to_string()))?;
    let name = by.name.clone();
    let committed = carry_out(&task, by, request).await?;
    // From here on the decision is on disk, and no failure to look at it makes it a refusal.
    let is_new = is_written(system, stream, (before, committed.version), &command_id).unwrap_or(true);
    let state = task.snapshot().await.map_or("unknown", |task| task.state().as_str());
    Ok(OperatorReply { state: state.to_owned(), version: committed.version.0, is_new, by: name })
}

async fn carry_out(
    task: &TaskHandle,
    by: Principal,
    request: OperatorRequest,
) -> Result<Committed, OperatorRefusal> {
    let done = match request {
        OperatorRequest::Approve { approval, .. } => task.approve(&approval, by).await,
        OperatorRequest::Deny { approval, reason, .. } => task.deny(&approval, reason.as_deref(), by).await,
        OperatorRequest::Reconcile { call, landed, .. } => {
            let landed = landed.map(|text| JsonText::parse(&text)).transpose();
            let landed = landed.map_err(|error| wrong(RefusalKind::Input, error))?;
            let verdict = landed.map_or(Verdict::DidNotHappen, Verdict::Landed);
            task.reconcile(&call, verdict, by).await
        }
        OperatorRequest::Abandon { call, reason, .. } => task.abandon(&call, &reason, by).await,
        OperatorRequest::Answer { question, answer, .. } => {
            task.answer_call(&question, answer.map_or_else(Answer::Declined, Answer::Given), by).await
        }
        OperatorRequest::Cancel { reason, .. } => task.cancel(reason.as_deref()).await,
        _ => return Err(wrong(RefusalKind::Input, "this release does not know the decision")),
    };
    done.map_err(|error| refusal(&error))
}

/// Whether the command with this id wrote a record between these versions.
fn is_written(
    system: &System,
    stream: &StreamId,
    (before, after): (Version, Version),
    command_id: &str,
) -> Result<bool, OperatorRefusal> {
    let log = system.log();
    let mut next = Version(before.0.saturating_add(1));
    while next <= after {
        let read = log.read_stream(stream, next, 64).map_err(|error| failed(error.to_string()))?;
        if read.iter().any(|stored| stored.record.metadata.command_id == command_id) {
            return Ok(true);
        }
        let Some(last) = read.last() else { break };
        next = Version(last.record.last_version().0.saturating_add(1));
    }
    Ok(false)
}
