//! The agents of a system as its builder describes them, and the checks of all of them before the log is opened.

use std::collections::HashSet;
use std::sync::Arc;

use proto_events::id::check_id;

use crate::agent::card::{Agent, check_shared_rates};
use crate::error::Error;
use crate::limits::{AGENTS_MAX, RESERVED_AGENT_NAMES};
use crate::system::builder::{Builder, OneAgent, WholeSystem};
use crate::system::card::{bound_of_card, card};
use crate::system::known_agent::KnownAgent;
use crate::system::local_peer::{LocalPeer, SystemLink};
use crate::system::once::OnceKeys;
use crate::system::session_index::SharedSessionIndex;
use crate::system::task_index::SharedTaskIndex;
#[cfg(feature = "mcp")]
use crate::tools::mcp::server::McpServer;
#[cfg(feature = "mcp")]
use crate::tools::mcp::servers::McpServers;
use crate::tools::revision::Revision;

/// An agent as it was described.
pub(super) struct AgentDescription {
    pub(super) agent: Agent,
    /// The faults of the description.
    pub(super) faults: Vec<String>,
    #[cfg(feature = "mcp")]
    pub(super) servers: Vec<McpServer>,
}

/// An agent that can start.
pub(super) struct CheckedAgent {
    pub(super) agent: Agent,
    #[cfg(feature = "mcp")]
    pub(super) mcp: McpServers,
}

/// Returns the agents of a system as they were described, and the settings of the whole system.
pub(super) fn described(builder: Builder) -> (Vec<AgentDescription>, WholeSystem) {
    let (first, mut of) = apart(builder);
    let further = std::mem::take(&mut of.agents).into_iter().map(|builder| {
        let (further, OneAgent(())) = apart(builder);
        let name = &further.agent.name;
        // A fault of a further agent says whose it is.
        let faults = further.faults.iter().map(|fault| format!("agent `{name}`: {fault}")).collect();
        AgentDescription { faults, ..further }
    });
    (std::iter::once(first).chain(further).collect(), of)
}

fn apart<Of>(builder: Builder<Of>) -> (AgentDescription, Of) {
    let described = AgentDescription {
        agent: builder.agent,
        faults: builder.faults,
        #[cfg(feature = "mcp")]
        servers: builder.mcp,
    };
    (described, builder.of)
}

impl CheckedAgent {
    /// Returns the agent once its definition is recorded as this revision.
    pub(super) fn into_known(mut self, revision: Revision) -> Arc<KnownAgent> {
        self.agent.tools.set_revision(revision);
        Arc::new(KnownAgent {
            agent: Arc::new(self.agent),
            once: OnceKeys::default(),
            tasks: SharedTaskIndex::default(),
            sessions: SharedSessionIndex::default(),
            #[cfg(feature = "mcp")]
            mcp: self.mcp,
        })
    }
}

/// Checks the agents of a system, and connects their servers of tools.
///
/// # Errors
/// [`Error::Builder`] with what is wrong, [`Error::Id`] if a name cannot be part of a stream's.
pub(super) async fn checked(
    all: Vec<AgentDescription>,
    #[cfg_attr(not(feature = "mcp"), expect(unused_variables, reason = "only servers of tools need it"))]
    calls: &tokio::runtime::Handle,
) -> Result<Vec<CheckedAgent>, Error> {
    if let Some(fault) = all.iter().flat_map(|described| &described.faults).next() {
        return Err(Error::Builder(fault.clone()));
    }
    check_names(&all)?;
    #[cfg(feature = "mcp")]
    let joining = Arc::default();
    let mut agents = Vec::with_capacity(all.len());
    for described in all {
        let mut agent = described.agent;
        #[cfg(feature = "mcp")]
        let mcp = McpServers::connect(described.servers, &mut agent.tools, calls, &joining)
            .await
            .map_err(|fault| of_agent(&agent, agents.is_empty(), fault))?;
        agent.peers.prepare(&agent.name).await;
        agent.check().map_err(|fault| of_agent(&agent, agents.is_empty(), fault))?;
        agent.max_concurrency = bound_of_card(&agent).or(agent.max_concurrency);
        agents.push(CheckedAgent {
            agent,
            #[cfg(feature = "mcp")]
            mcp,
        });
    }
    check_shared_rates(agents.iter().map(|own| &own.agent)).map_err(Error::Builder)?;
    Ok(agents)
}

/// Returns the error for a fault in the settings of an agent. That of the only or first one is named by its setting alone.
fn of_agent(agent: &Agent, is_first: bool, fault: String) -> Error {
    Error::Builder(if is_first { fault } else { format!("agent `{}`: {fault}", agent.name) })
}

/// Checks the names of a system's agents.
fn check_names(all: &[AgentDescription]) -> Result<(), Error> {
    if all.len() > AGENTS_MAX {
        let agents = all.len();
        return Err(Error::Builder(format!("the system has {agents} agents; it can have {AGENTS_MAX}")));
    }
    let mut names = HashSet::new();
    for AgentDescription { agent, .. } in all {
        let name = agent.name.as_str();
        check_id(name)?;
        if RESERVED_AGENT_NAMES.contains(&name) {
            return Err(Error::Builder(format!(
                "an agent cannot be named `{name}`: the name is part of the addresses under which agents are served; use \
                 another one"
            )));
        }
        if !names.insert(name) {
            return Err(Error::Builder(format!("two agents are named `{name}`; names must be unique")));
        }
    }
    Ok(())
}

/// Makes the agents of a system known to the agents that may ask others.
///
/// # Errors
/// [`Error::Builder`] if an agent is to ask one that the system does not have.
pub(super) fn introduce(agents: &mut [CheckedAgent], link: &SystemLink) -> Result<(), Error> {
    let all: Vec<LocalPeer> = agents.iter().map(|own| local_peer(&own.agent, link)).collect();
    for CheckedAgent { agent, .. } in agents {
        let is_unknown = |name: &&String| **name == agent.name || all.iter().all(|peer| peer.name != **name);
        if let Some(unknown) = agent.peers.chosen().iter().find(is_unknown) {
            let own = &agent.name;
            return Err(Error::Builder(format!(
                "agent `{own}` is to ask the agent `{unknown}`, which is no other agent of the system; add it with \
                 `Builder::agent`"
            )));
        }
        for peer in all.iter().filter(|peer| peer.name != agent.name) {
            agent.peers.introduce(peer.known());
        }
    }
    Ok(())
}

fn local_peer(agent: &Agent, link: &SystemLink) -> LocalPeer {
    LocalPeer {
        name: agent.name.clone(),
        description: agent.presented.description.clone().unwrap_or_default(),
        card: card(agent),
        skills: agent.tools.names().into_iter().map(str::to_owned).collect(),
        link: link.clone(),
    }
}
