//! The handles on a system's agents.

use std::sync::Arc;

use crate::system::handle::{Caller, System};
use crate::system::known_agent::KnownAgent;

impl System {
    /// Returns a handle on the same system that addresses this agent: its tasks, its sessions, its tools' states. It keeps
    /// the principal of this handle. `None` if the system has no agent of this name.
    ///
    /// ```
    /// # use taskreel::{Error, Part, System};
    /// # async fn ask(system: System) -> Result<(), Error> {
    /// if let Some(archive) = system.agent("archive") {
    ///     archive.submit(Part::infer("What did we decide in May?")).await?.finished().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn agent(&self, name: &str) -> Option<Self> {
        let agent = self.inner.agents.iter().find(|known| known.agent.name == name)?;
        let caller = Caller { agent: Arc::clone(agent), ..Caller::clone(&self.caller) };
        Some(Self { inner: Arc::clone(&self.inner), caller: Arc::new(caller) })
    }

    /// Returns the names of the system's agents, the first one first.
    pub fn agents(&self) -> Vec<String> {
        self.inner.agents.iter().map(|known| known.agent.name.clone()).collect()
    }

    /// The name of the agent that this handle addresses.
    pub fn agent_name(&self) -> &str {
        &self.caller.agent.agent.name
    }

    /// Returns the agent that this handle addresses.
    pub(crate) fn own_agent(&self) -> &KnownAgent {
        &self.caller.agent
    }
}
