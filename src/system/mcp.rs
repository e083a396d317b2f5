//! The MCP servers of a running system: one that was not ready at the start is tried again as long as the system
//! runs, and its tools join.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::agent::card::Agent;
use crate::error::Error;
use crate::limits::{MCP_LIST_TOOLS_MAX, MCP_RETRY_FIRST, MCP_RETRY_MAX};
use crate::system::handle::{Inner, System};
use crate::system::starts::{record_revision, record_tool_server};
use crate::tools::mcp::admission::{Admission, admit};
use crate::tools::mcp::connection::ListedTools;
use crate::tools::mcp::servers::{Listing, McpServerStatus, ServerEntry, flatten};

impl System {
    /// Returns the MCP servers of the agent: whether their tools are known, and which tools are left out. A
    /// server that cannot be used is tried again, at most a minute later.
    pub fn mcp_servers(&self) -> Vec<McpServerStatus> {
        self.own_agent().mcp.statuses()
    }

    /// Tries the servers again that were not ready when the system started, until they are or the system ends.
    pub(crate) fn keep_trying_mcp(&self) {
        let calls = self.inner.running().parts.calls.clone();
        for own in &self.inner.agents {
            let joining_of = |entry| ServerJoin {
                entry,
                agent: Arc::clone(&own.agent),
                alone: Arc::clone(&own.mcp.joining),
                system: Arc::downgrade(&self.inner),
            };
            for entry in own.mcp.listed() {
                calls.spawn(watch_list(joining_of(entry)));
            }
            for (entry, listing) in own.mcp.take_late() {
                let joining = joining_of(entry);
                calls.spawn(async move {
                    if let Some(joining) = until_listed(joining, listing).await {
                        watch_list(joining).await;
                    }
                });
            }
        }
    }
}

/// A server whose tools are to join an agent.
struct ServerJoin {
    entry: Arc<ServerEntry>,
    agent: Arc<Agent>,
    /// Held while tools join.
    alone: Arc<tokio::sync::Mutex<()>>,
    system: Weak<Inner>,
}

/// Asks a server for its tools each time that it says that they have changed, at most once a second, as long as the system runs.
/// New tools join; tools that are listed no more stay, and their calls fail.
async fn watch_list(joining: ServerJoin) {
    let changed = joining.entry.connection.list_changed();
    let (alone, system) = (Arc::clone(&joining.alone), Weak::clone(&joining.system));
    let (entry, agent) = (Arc::downgrade(&joining.entry), Arc::downgrade(&joining.agent));
    // The wait must not keep the connection open.
    drop(joining);
    loop {
        changed.notified().await;
        let (Some(entry), Some(agent)) = (entry.upgrade(), agent.upgrade()) else { return };
        if !is_running(&system) {
            return;
        }
        let joining = ServerJoin { entry, agent, alone: Arc::clone(&alone), system: Weak::clone(&system) };
        let joined = match joining.entry.connection.list().await {
            Ok(listed) => join(&joining, listed).await,
            Err(error) => Err(error),
        };
        if let Err(error) = joined {
            tracing::warn!(error, "the changed tools of an MCP server cannot be used");
        }
        drop(joining);
        tokio::time::sleep(MCP_RETRY_FIRST).await;
    }
}

/// Asks a server for its tools until they have joined, and returns it, or until the system has ended.
async fn until_listed(joining: ServerJoin, listing: Option<Listing>) -> Option<ServerJoin> {
    let (mut wait, mut listing) = (MCP_RETRY_FIRST, listing);
    let (entry, system) = (&joining.entry, &joining.system);
    loop {
        let asked = match listing.take() {
            Some(listing) => Some(flatten(listing.await)),
            // The failure of the start was noted.
            None => None,
        };
        if let Some(answer) = asked {
            let joined = match answer {
                Ok(listed) => join(&joining, listed).await,
                Err(error) => Err(error),
            };
            match joined {
                Ok(()) => return Some(joining),
                Err(error) => entry.failed(error),
            }
        }
        tokio::time::sleep(wait).await;
        wait = wait.saturating_mul(2).min(MCP_RETRY_MAX);
        if !is_running(system) {
            return None;
        }
        let connection = Arc::clone(&entry.connection);
        listing = Some(tokio::spawn(async move { connection.list().await }));
    }
}

/// Adds the tools of a server to the running agent. The agent's new definition is on disk before any task can use
/// them.
async fn join(joining: &ServerJoin, listed: ListedTools) -> Result<(), String> {
    let ServerJoin { entry, agent, alone, system } = joining;
    let _alone = alone.lock().await;
    let _joining = agent.tools.joining.lock().await;
    // The system must not be kept alive while its log is written, and its log is not reopened meanwhile.
    let Some(gate) = system.upgrade().map(|inner| inner.gate.clone()) else { return Ok(()) };
    let _gate = gate.pass().await;
    if !is_running(system) {
        return Ok(());
    }
    let Some(parts) = system.upgrade().map(|inner| inner.running().parts.clone()) else { return Ok(()) };
    let mut names = entry.brought();
    let Admission { tools, left_out } = admit(&entry.connection, listed, &agent.tools, &names);
    if tools.is_empty() && !names.is_empty() {
        return Ok(());
    }
    if names.len().saturating_add(tools.len()) > MCP_LIST_TOOLS_MAX {
        return Err(format!("it has brought more than {MCP_LIST_TOOLS_MAX} tools"));
    }
    names.extend(tools.iter().map(|tool| tool.spec().name.clone()));
    if !tools.is_empty() {
        let next = Agent { tools: agent.tools.with(&tools), ..Agent::clone(agent) };
        let recorded = record_revision(&parts.store, &parts.ports, &next, "mcp").await;
        let revision = recorded.map_err(|error: Error| format!("its tools cannot be recorded: {error}"))?;
        agent.tools.join(tools, revision);
    }
    tracing::info!(
        server = entry.status().name,
        tools = names.len(),
        "the tools of an MCP server have joined"
    );
    entry.listed(names, left_out);
    let seen = entry.status().seen(&agent.name);
    if let Err(error) = record_tool_server(&parts.store, &parts.ports, seen).await {
        // The tools can be used all the same; only a reader of the log does not hear of it.
        tracing::warn!(%error, "that an MCP server has joined could not be recorded");
    }
    Ok(())
}

fn is_running(system: &Weak<Inner>) -> bool {
    system.upgrade().is_some_and(|inner| !inner.stopping.load(Ordering::Acquire))
}
