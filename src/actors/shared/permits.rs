//! Permits for concurrent calls, of each tool and of the whole agent. A permit is taken before a call is
//! sent, and kept until the call is closed and its work has ended.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::agent::card::Agent;

/// All permits of an agent.
pub(crate) struct CallPermits {
    agent: Option<Arc<Semaphore>>,
    tools: HashMap<String, Arc<Semaphore>>,
}

/// A permit; given back when its last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct CallPermit {
    _permits: Arc<[Option<OwnedSemaphorePermit>; 2]>,
}

impl CallPermits {
    pub(crate) fn of(agent: &Agent) -> Self {
        let semaphore = |calls: usize| Arc::new(Semaphore::new(calls.clamp(1, Semaphore::MAX_PERMITS)));
        let limited = |spec: &crate::tools::registry::ToolSpec| {
            Some((spec.name.clone(), semaphore(spec.policy.get_concurrency()?)))
        };
        Self {
            agent: agent.max_concurrency.map(semaphore),
            tools: agent.tools.specs().into_iter().filter_map(limited).collect(),
        }
    }

    /// Returns a permit for a call of this target, if one is free now.
    pub(crate) fn try_acquire(&self, target: &str) -> Option<CallPermit> {
        let take = |semaphore: Option<&Arc<Semaphore>>| match semaphore {
            None => Some(None),
            Some(semaphore) => Arc::clone(semaphore).try_acquire_owned().ok().map(Some),
        };
        let tool = take(self.tools.get(target))?;
        let agent = take(self.agent.as_ref())?;
        Some(CallPermit { _permits: Arc::new([tool, agent]) })
    }

    /// Waits for a permit for a call of this target, first come first served: the tool's first, then the
    /// agent's. A holder of the agent's permit never waits for a tool's, so there is no deadlock.
    pub(crate) async fn acquire(&self, target: &str) -> CallPermit {
        let tool = Self::wait(self.tools.get(target)).await;
        let agent = Self::wait(self.agent.as_ref()).await;
        CallPermit { _permits: Arc::new([tool, agent]) }
    }

    /// Waits for a permit of the semaphore, if there is one. Semaphores are never closed.
    async fn wait(semaphore: Option<&Arc<Semaphore>>) -> Option<OwnedSemaphorePermit> {
        Arc::clone(semaphore?).acquire_owned().await.ok()
    }
}
