//! The MCP servers of a running system: one that was not ready at the start is tried again as long as the system
//! runs, and its tools join.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::agent::card::Agent;
use crate::error::Error;
use crate::limits::{MCP_RETRY_FIRST, MCP_RETRY_MAX};
use crate::system::handle::{Inner, System};
use crate::system::starts::{record_revision, record_tool_server};
use crate::tools::mcp::admission::{Admission, admit};
use crate::tools::mcp::connection::ListedTools;
use crate::tools::mcp::servers::{Entry, Listing, McpServerStatus, flatten};

impl System {
    /// Returns the MCP servers of the agent: whether their tools are known, and which tools are left out. A
    /// server that cannot be used is tried again, at most a minute later.
    pub fn mcp_servers(&self) -> Vec<McpServerStatus> {
        self.own().mcp.statuses()
    }

    /// Tries the servers again that were not ready when the system started, until they are or the system ends.
    pub(crate) fn keep_trying_mcp(&self) {
        let calls = self.inner.running().parts.calls.clone();
        for own in &self.inner.agents {
            for (entry, listing) in own.mcp.take_late() {
                let joining = Joining {
                    entry,
                    agent: Arc::clone(&own.agent),
                    alone: Arc::clone(&own.mcp.joining),
                    system: Arc::downgrade(&self.inner),
                };
                calls.spawn(until_listed(joining, listing));
            }
        }
    }
}

/// A server whose tools are to join an agent.
struct Joining {
    entry: Arc<Entry>,
    agent: Arc<Agent>,
    /// Held while tools join.
    alone: Arc<tokio::sync::Mutex<()>>,
    system: Weak<Inner>,
}

/// Asks a server for its tools until they have joined or the system has ended.
async fn until_listed(joining: Joining, listing: Option<Listing>) {
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
                Ok(()) => return,
                Err(error) => entry.failed(error),
            }
        }
        tokio::time::sleep(wait).await;
        wait = wait.saturating_mul(2).min(MCP_RETRY_MAX);
        if !is_running(system) {
            return;
        }
        let connection = Arc::clone(&entry.connection);
        listing = Some(tokio::spawn(async move { connection.list().await }));
    }
}

/// Adds the tools of a server to the running agent. The agent's new definition is on disk before any task can use
/// them.
async fn join(joining: &Joining, listed: ListedTools) -> Result<(), String> {
    let Joining { entry, agent, alone, system } = joining;
    let _alone = alone.lock().await;
    let _joining = agent.tools.joining.lock().await;
    // The system must not be kept alive while its log is written, and its log is not reopened meanwhile.
    let Some(gate) = system.upgrade().map(|inner| inner.gate.clone()) else { return Ok(()) };
    let _gate = gate.pass().await;
    if !is_running(system) {
        return Ok(());
    }
    let Some(parts) = system.upgrade().map(|inner| inner.running().parts.clone()) else { return Ok(()) };
    let Admission { tools, left_out } = admit(&entry.connection, listed, &agent.tools);
    let names: Vec<String> = tools.iter().map(|tool| tool.spec().name.clone()).collect();
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
