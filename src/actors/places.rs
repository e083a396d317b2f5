//! How many calls may be under way at once, of each tool and of the whole agent. A place is taken before a call is
//! sent, and kept until it is closed and its work has ended.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::agent::Agent;

/// All places of an agent.
pub(crate) struct Places {
    agent: Option<Arc<Semaphore>>,
    tools: HashMap<String, Arc<Semaphore>>,
}

/// A place that is taken; given back when its last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    _permits: Arc<[Option<OwnedSemaphorePermit>; 2]>,
}

impl Places {
    pub(crate) fn of(agent: &Agent) -> Self {
        let semaphore = |calls: usize| Arc::new(Semaphore::new(calls.clamp(1, Semaphore::MAX_PERMITS)));
        let limited = |spec: &crate::agent::registry::ToolSpec| {
            Some((spec.name.clone(), semaphore(spec.policy.concurrency_max()?)))
        };
        Self {
            agent: agent.max_concurrency.map(semaphore),
            tools: agent.tools.specs().into_iter().filter_map(limited).collect(),
        }
    }

    /// A place for a call of this target, if one is free now.
    pub(crate) fn try_take(&self, target: &str) -> Option<Place> {
        let take = |semaphore: Option<&Arc<Semaphore>>| match semaphore {
            None => Some(None),
            Some(semaphore) => Arc::clone(semaphore).try_acquire_owned().ok().map(Some),
        };
        let tool = take(self.tools.get(target))?;
        let agent = take(self.agent.as_ref())?;
        Some(Place { _permits: Arc::new([tool, agent]) })
    }

    /// A place for a call of this target, in the order of asking: the tool's first, then the agent's. Whoever has an
    /// agent's place waits for no tool's, so nobody waits in a circle.
    pub(crate) async fn take(&self, target: &str) -> Place {
        let tool = Self::wait(self.tools.get(target)).await;
        let agent = Self::wait(self.agent.as_ref()).await;
        Place { _permits: Arc::new([tool, agent]) }
    }

    /// Semaphores are never closed.
    async fn wait(semaphore: Option<&Arc<Semaphore>>) -> Option<OwnedSemaphorePermit> {
        Arc::clone(semaphore?).acquire_owned().await.ok()
    }
}
