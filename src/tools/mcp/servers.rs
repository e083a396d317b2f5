//! The servers of an agent: connected side by side at the start, with the status of each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto_events::system::{ToolLeftOut, ToolServerSeen};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, timeout_at};

use crate::tools::mcp::admission::{Admission, McpToolLeftOut, admit};
use crate::tools::mcp::connection::{Connection, ListedTools};
use crate::tools::mcp::server::McpServer;
use crate::tools::registry::Tools;
use crate::tools::texts::shorten;

/// The most tools that are named as left out in the log; `System::mcp_servers` has all.
const LEFT_OUT_MAX: usize = 100;

/// An MCP server of a running system, see `System::mcp_servers`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpServerStatus {
    /// The server's name.
    pub name: String,
    /// The state of the server: whether its tools are known.
    pub state: McpServerState,
    /// The tools that it lists, or that a policy names, and that are not used.
    pub left_out: Vec<McpToolLeftOut>,
}

/// The state of an MCP server: whether its tools are known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpServerState {
    /// The server has not answered yet.
    Connecting,
    /// The server cannot be used; it is tried again.
    Unavailable {
        /// The failure of the last attempt.
        why: String,
        /// The number of attempts so far.
        attempts: u32,
    },
    /// The server has listed its tools. A connection that is lost later is opened again by the next call.
    Listed {
        /// The names of the tools that are used.
        tools: Vec<String>,
    },
}

impl McpServerStatus {
    /// Returns the status as the log keeps it, of an epoch that is filled in later.
    pub(crate) fn seen(&self, agent: &str) -> ToolServerSeen {
        let (failure, tools) = match &self.state {
            McpServerState::Connecting => (Some("it has not answered yet".to_owned()), Vec::new()),
            McpServerState::Unavailable { why, .. } => (Some(cut_text(why)), Vec::new()),
            McpServerState::Listed { tools } => (None, tools.clone()),
        };
        let left_out = self.left_out.iter().take(LEFT_OUT_MAX);
        let left_out = left_out.map(|left| ToolLeftOut { tool: left.tool.clone(), why: cut_text(&left.why) });
        ToolServerSeen {
            epoch: 0,
            agent: agent.to_owned(),
            server: self.name.clone(),
            failure,
            tools,
            left_out: left_out.collect(),
        }
    }
}

/// Returns a text from outside, at most as long as an error's.
fn cut_text(text: &str) -> String {
    let mut text = text.to_owned();
    shorten(&mut text);
    text
}

/// A list of tools that is being asked for.
pub(crate) type Listing = JoinHandle<Result<ListedTools, String>>;

/// A server, and what is known of it.
pub(crate) struct ServerEntry {
    pub(crate) connection: Arc<Connection>,
    status: Mutex<McpServerStatus>,
}

/// The MCP servers of a system.
#[derive(Default)]
pub(crate) struct McpServers {
    entries: Vec<Arc<ServerEntry>>,
    /// The servers that had not answered in time, with the answer that is still awaited.
    late: Mutex<Vec<(Arc<ServerEntry>, Option<Listing>)>>,
    /// Held while tools join: one server of the system at a time.
    pub(crate) joining: Arc<tokio::sync::Mutex<()>>,
}

impl ServerEntry {
    pub(crate) fn status(&self) -> MutexGuard<'_, McpServerStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names of the tools that the server has brought.
    pub(crate) fn brought(&self) -> Vec<String> {
        match &self.status().state {
            McpServerState::Listed { tools } => tools.clone(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn failed(&self, error: String) {
        let mut status = self.status();
        tracing::warn!(server = status.name, error, "an MCP server cannot be used; it is tried again");
        let before = match &status.state {
            McpServerState::Unavailable { attempts, .. } => *attempts,
            _ => 0,
        };
        status.state = McpServerState::Unavailable { why: error, attempts: before.saturating_add(1) };
    }

    pub(crate) fn listed(&self, tools: Vec<String>, left_out: Vec<McpToolLeftOut>) {
        let mut status = self.status();
        for McpToolLeftOut { tool, why } in &left_out {
            tracing::warn!(server = status.name, ?tool, why, "a tool of an MCP server is left out");
        }
        status.state = McpServerState::Listed { tools };
        status.left_out = left_out;
    }
}

impl McpServers {
    /// Connects the servers on the runtime for calls, where their connections then live, and adds the tools of those
    /// that answer in time.
    ///
    /// # Errors
    /// A text, if a policy that the host sets for a tool contradicts itself.
    pub(crate) async fn connect(
        servers: Vec<McpServer>,
        known: &mut Tools,
        calls: &tokio::runtime::Handle,
        joining: &Arc<tokio::sync::Mutex<()>>,
    ) -> Result<Self, String> {
        for (tool, policy) in servers.iter().flat_map(|server| &server.policies) {
            if let Some(why) = policy.contradiction() {
                return Err(format!("tool `{tool}`: {why}"));
            }
        }
        let asked = servers.into_iter().map(|server| {
            let (name, until) = (server.name().to_owned(), Instant::now().checked_add(server.start_wait));
            let connection = Arc::new(Connection::new(server));
            let (asked, state) = (Arc::clone(&connection), McpServerState::Connecting);
            let listing = calls.spawn(async move { asked.list().await });
            let status = Mutex::new(McpServerStatus { name, state, left_out: Vec::new() });
            (Arc::new(ServerEntry { connection, status }), listing, until)
        });
        let asked: Vec<_> = asked.collect();
        // On the runtime for calls, which has timers.
        let waiting = calls.spawn(async move {
            let mut answers = Vec::with_capacity(asked.len());
            for (entry, mut listing, until) in asked {
                let answer = match until {
                    Some(until) => timeout_at(until, &mut listing).await.ok(),
                    None => Some((&mut listing).await),
                };
                answers.push((entry, answer.map(flatten), listing));
            }
            answers
        });
        let (mut entries, mut late) = (Vec::new(), Vec::new());
        // Without an answer the runtime has ended, and the start fails for that.
        for (entry, answer, listing) in waiting.await.unwrap_or_default() {
            entries.push(Arc::clone(&entry));
            match answer {
                Some(Ok(listed)) => {
                    let Admission { tools, left_out } = admit(&entry.connection, listed, known, &[]);
                    entry.listed(tools.iter().map(|tool| tool.spec().name.clone()).collect(), left_out);
                    for tool in tools {
                        if let Err(why) = known.register(tool) {
                            tracing::warn!(why, "a tool of an MCP server was left out");
                        }
                    }
                }
                Some(Err(error)) => {
                    entry.failed(error);
                    late.push((entry, None));
                }
                None => late.push((entry, Some(listing))),
            }
        }
        Ok(Self { entries, late: Mutex::new(late), joining: Arc::clone(joining) })
    }

    /// Returns the servers that have listed their tools.
    pub(crate) fn listed(&self) -> Vec<Arc<ServerEntry>> {
        let is_listed =
            |entry: &&Arc<ServerEntry>| matches!(entry.status().state, McpServerState::Listed { .. });
        self.entries.iter().filter(is_listed).cloned().collect()
    }

    /// Takes the servers that are to be tried again, with the answer that is still awaited.
    pub(crate) fn take_late(&self) -> Vec<(Arc<ServerEntry>, Option<Listing>)> {
        std::mem::take(&mut *self.late.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns what is seen of the servers that do not bring all their tools, for the log.
    pub(crate) fn seen(&self, agent: &str) -> Vec<ToolServerSeen> {
        let seen = self.entries.iter().map(|entry| entry.status().seen(agent));
        seen.filter(|seen| seen.failure.is_some() || !seen.left_out.is_empty()).collect()
    }

    /// Returns the status of each server.
    pub(crate) fn statuses(&self) -> Vec<McpServerStatus> {
        self.entries.iter().map(|entry| entry.status().clone()).collect()
    }
}

/// Returns the answer of a listing; one that panicked or was cut off is a failure.
pub(crate) fn flatten(listed: Result<Result<ListedTools, String>, JoinError>) -> Result<ListedTools, String> {
    listed.unwrap_or_else(|error| Err(format!("listing its tools was cut off: {error}")))
}
