//! A system as another agent, for systems in the same process.

use proto_events::envelope::DELEGATED_COMMAND;
use proto_events::model::{AgentCard, BudgetScope, BudgetUsage};
use proto_events::task::Task;

use crate::actors::shared::messages::Cause;
use crate::agent::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind};
use crate::error::Error;
use crate::limits::DELEGATION_TIMEOUT;
use crate::run::spent::usage;
use crate::system::handle::System;
use crate::system::handles::{TaskHandle, TaskSnapshot};
use crate::tools::future::BoxFuture;
use crate::tools::policy::ToolPolicy;

/// A running system that another one's model may ask, see [`System::peer`]. A task that is sent again gets
/// the same answer, so a lost answer is requested again: its calls are idempotent.
#[derive(Debug, Clone)]
pub struct SystemPeer {
    system: System,
    name: String,
    description: String,
    skills: Vec<String>,
    card: AgentCard,
    policy: ToolPolicy,
}

impl System {
    /// Returns the agent of this handle as one that another one's model may ask, for
    /// [`Builder::peer`](crate::system::builder::Builder::peer). Its skills are its tools. It keeps the
    /// system running as any clone does.
    pub fn peer(&self) -> SystemPeer {
        let agent = &self.own_agent().agent;
        SystemPeer {
            system: self.clone(),
            name: agent.name.clone(),
            description: agent.presented.description.clone().unwrap_or_default(),
            card: self.card(),
            skills: agent.tools.names().into_iter().map(str::to_owned).collect(),
            policy: ToolPolicy::idempotent().timeout(DELEGATION_TIMEOUT).declared_by("peer"),
        }
    }
}

impl SystemPeer {
    /// Sets the description that models are shown.
    #[must_use]
    pub fn described(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// Replaces the policy, for example to set another timeout.
    #[must_use]
    pub fn with_policy(mut self, policy: ToolPolicy) -> Self {
        self.policy = policy;
        self
    }
}

impl Peer for SystemPeer {
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
        self.policy.clone()
    }

    fn send(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        let system = self.system.clone();
        Box::pin(async move {
            let Delegation { task, attempt, .. } = delegation;
            // The command's id is the task's, so a repeat gets the first answer, whatever state the task is
            // in by then.
            let command_id = format!("{DELEGATED_COMMAND}{}", task.id);
            let cause = Cause { command_id, may_repeat: true, ..Cause::from_system(format_args!(""), "") };
            let sent = system.submit_as(task, cause).await;
            let handle = sent.map_err(|error| not_taken(&error, attempt))?;
            let end = at_its_end(&handle).await.map_err(|error| lost(&error))?;
            Ok(answer_of(end.task()))
        })
    }

    fn cancel(&self, task_id: &str, reason: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        let (system, task_id, reason) = (self.system.clone(), task_id.to_owned(), reason.to_owned());
        Box::pin(async move {
            match system.cancel(&task_id, Some(&reason)).await {
                Ok(_) | Err(Error::TaskNotCancelable { .. }) => Ok(()),
                Err(error @ Error::TaskNotFound(_)) => {
                    Err(PeerError::new(PeerErrorKind::NotFound, error.to_string()))
                }
                Err(error) => Err(PeerError::new(PeerErrorKind::Failed, error.to_string())),
            }
        })
    }
}

impl TaskSnapshot {
    /// Returns what the task has used so far of a budget: all its runs, parts and calls, and the tasks of other agents that
    /// it asked, as far as these told it.
    pub fn used(&self) -> BudgetUsage {
        used_by(self.task())
    }
}

fn used_by(task: &Task) -> BudgetUsage {
    let used = usage(BudgetScope::Task, task, 0);
    BudgetUsage { runtime_seconds: task.worked().as_secs_f64(), ..used }
}

/// Returns the answer in a task that is at rest, with what it used.
pub(crate) fn answer_of(task: &Task) -> PeerAnswer {
    let used = used_by(task);
    let answer = PeerAnswer::new(task.state(), task.last_part_content(), task.artifacts(), task.error());
    answer.with_usage(used)
}

/// Waits until the task is over or waits for input. A task that waits as it is, since its agent has changed, has no answer
/// yet.
async fn at_its_end(handle: &TaskHandle) -> Result<TaskSnapshot, Error> {
    loop {
        let rests = handle.finished().await?;
        if !rests.task().is_held() {
            return Ok(rests);
        }
        let mut following = handle.events_after(rests.version());
        while let Some(event) = following.next().await {
            event?;
        }
    }
}

/// Returns the error for a task that was not accepted. The effect of an earlier attempt is unknown, so only a
/// first attempt certainly had none.
fn not_taken(error: &Error, attempt: u32) -> PeerError {
    let kind = match error {
        // Nothing was written of the task.
        Error::Stopped | Error::Overloaded { .. } | Error::FileNotKept { .. } if attempt == 1 => {
            PeerErrorKind::Unreachable
        }
        Error::Model(_) | Error::Id(_) => PeerErrorKind::Refused,
        Error::Task(_) | Error::CommandIdReused { .. } => PeerErrorKind::Failed,
        _ => PeerErrorKind::Lost,
    };
    PeerError::new(kind, error.to_string())
}

/// Returns the error for an accepted task whose end could not be waited for.
fn lost(error: &Error) -> PeerError {
    PeerError::new(PeerErrorKind::Lost, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_of_which_a_file_could_not_be_kept_was_not_taken_at_all() {
        let error = Error::FileNotKept { artifact: "a".to_owned(), why: "the disk is full".to_owned() };
        assert_eq!(not_taken(&error, 1).kind(), PeerErrorKind::Unreachable);
        assert_eq!(not_taken(&error, 2).kind(), PeerErrorKind::Lost, "an earlier attempt may have arrived");
    }
}
