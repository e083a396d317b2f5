//! The connection to an MCP server: opened on first use, kept, reopened when it is lost.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use proto_events::json::JsonText;
use reqwest::StatusCode;
use reqwest::redirect::Policy;
use rmcp::service::ServiceError;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::{ServiceExt, model};
use tokio::sync::{Mutex, Notify};

use crate::http_client;
use crate::limits::{MCP_CONNECT_TIMEOUT, MCP_LIST_PAGES_MAX, MCP_LIST_TIMEOUT, MCP_LIST_TOOLS_MAX};
use crate::tools::error::ToolError;
use crate::tools::future::BoxFuture;
use crate::tools::mcp::call::{Live, NotificationReceiver, call, raw_result};
use crate::tools::mcp::process::{ServerProcess, in_own_group};
use crate::tools::mcp::server::McpServer;
use crate::tools::mcp::stdio::{StdioTransport, UNREADABLE};
use crate::tools::mcp::tool_list::{ListedPage, ListedTool};
use crate::tools::mcp::transport::Transport;
use crate::tools::texts::short;
use crate::tools::tool::{Tool, ToolContext};

/// The variables of this process's environment that a program needs to run.
const ENV_KEPT: [&str; 11] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "LANG", "LC_ALL", "SYSTEMROOT", "TEMP"];

/// The number of redirects that one request follows.
const REDIRECTS_MAX: usize = 10;

/// The tools that a server lists.
pub(crate) type ListedTools = Vec<ListedTool>;

/// The connection to one server.
pub(crate) struct Connection {
    server: McpServer,
    live: Mutex<Option<Arc<Live>>>,
    list_changed: Arc<Notify>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A task that waits for a changed list ends.
        self.list_changed.notify_one();
    }
}

/// A tool of the server.
struct McpTool {
    connection: Arc<Connection>,
    name: String,
}

impl Connection {
    pub(crate) fn new(server: McpServer) -> Self {
        Self { server, live: Mutex::default(), list_changed: Arc::default() }
    }

    /// Returns what is notified when the server's list of tools has changed, or the connection is dropped.
    pub(crate) fn list_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.list_changed)
    }

    /// Returns the tools that the server lists. After a failure the connection is opened anew.
    ///
    /// # Errors
    /// A description of the failure, without secrets.
    pub(crate) async fn list(&self) -> Result<ListedTools, String> {
        let live = self.live().await?;
        let listed = tokio::time::timeout(MCP_LIST_TIMEOUT, list_tools(&live)).await;
        let listed = listed.unwrap_or_else(|_| Err(too_slow("list its tools", MCP_LIST_TIMEOUT)));
        if listed.is_err() {
            self.drop_connection(&live).await;
        }
        listed.map_err(|error| {
            short(&self.server.transport.redact(&format!("listing its tools failed: {error}")))
        })
    }

    /// Returns the server's description.
    pub(crate) fn server(&self) -> &McpServer {
        &self.server
    }

    /// Returns the tool of this name on the server.
    pub(crate) fn tool(self: &Arc<Self>, name: String) -> Arc<dyn Tool> {
        Arc::new(McpTool { connection: Arc::clone(self), name })
    }

    /// Returns the open connection, or a new one. Concurrent callers wait for it.
    async fn live(&self) -> Result<Arc<Live>, String> {
        let mut held = self.live.lock().await;
        if let Some(live) = held.as_ref().filter(|live| !is_gone(live)) {
            return Ok(Arc::clone(live));
        }
        *held = None;
        let connecting = tokio::time::timeout(MCP_CONNECT_TIMEOUT, self.connect());
        let live = Arc::new(connecting.await.map_err(|_| too_slow("connect", MCP_CONNECT_TIMEOUT))??);
        *held = Some(Arc::clone(&live));
        Ok(live)
    }

    async fn connect(&self) -> Result<Live, String> {
        let listener = NotificationReceiver::new(self.list_changed());
        let connected = match &self.server.transport {
            Transport::Stdio { program, args, env, dir } => {
                let mut command = tokio::process::Command::new(program);
                command.args(args).env_clear();
                in_own_group(&mut command);
                let kept = ENV_KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
                command.envs(kept).envs(env.iter().map(|(name, value)| (name, value)));
                if let Some(dir) = dir {
                    command.current_dir(dir);
                }
                let stderr = if self.server.show_stderr { Stdio::inherit() } else { Stdio::null() };
                let started = command.stderr(stderr).spawn();
                let mut child = started.map_err(|error| self.describe("cannot be started", &error))?;
                let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
                let process = ServerProcess::new(child);
                let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
                    return Err("its standard streams cannot be used".to_owned());
                };
                listener.serve(StdioTransport::new(stdin, stdout, process)).await
            }
            Transport::Http { url, headers } => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                for (name, value) in headers {
                    let wrong = |what: &str| format!("invalid header `{name}`: its {what} is malformed");
                    let header = name.parse().map_err(|_| wrong("name"))?;
                    config.custom_headers.insert(header, value.parse().map_err(|_| wrong("value"))?);
                }
                config.custom_headers.values_mut().for_each(|value| value.set_sensitive(true));
                let client = http_client().map_err(|error| self.describe("cannot be reached", &error))?;
                listener.serve(StreamableHttpClientTransport::with_client(client, config)).await
            }
        };
        connected.map_err(|error| self.describe("does not answer as an MCP server", &error))
    }

    fn describe(&self, what: &str, error: &dyn std::error::Error) -> String {
        short(&self.server.transport.redact(&format!("{} {what}: {error}", self.server.transport.shown())))
    }

    async fn call(&self, tool: &str, cx: ToolContext, args: &JsonText) -> Result<JsonText, ToolError> {
        let live = match self.live().await {
            Ok(live) => live,
            Err(why) => {
                let words = format!("MCP server `{}`: {why}", self.server.name);
                return Err(ToolError::not_sent(words).with_type("McpUnavailable"));
            }
        };
        match call(&live, tool, &cx, args).await {
            Ok(answer) => answer.map_err(|error| self.redacted(&error)),
            Err(error) => {
                if matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_)) {
                    self.drop_connection(&live).await;
                }
                Err(self.broken(&error))
            }
        }
    }

    /// Drops a lost connection; the next call opens another.
    async fn drop_connection(&self, gone: &Arc<Live>) {
        let mut held = self.live.lock().await;
        held.take_if(|live| Arc::ptr_eq(live, gone));
    }

    fn broken(&self, error: &ServiceError) -> ToolError {
        let name = &self.server.name;
        match error {
            ServiceError::McpError(error) => {
                let words = self.server.transport.redact(&error.message);
                if error.code == UNREADABLE {
                    return ToolError::lost(format!("MCP server `{name}`: {words}")).with_type("McpError");
                }
                if error.code == model::ErrorCode::INVALID_PARAMS {
                    return ToolError::arguments(words).with_type("InvalidParams");
                }
                ToolError::failed(format!("MCP server `{name}`: {words} (code {})", error.code.0))
                    .with_type("McpError")
            }
            ServiceError::TransportClosed => ToolError::lost(format!(
                "MCP server `{name}` closed the connection while the call was in flight; it is started again for the next call"
            ))
            .with_type("McpGone"),
            error => {
                let words = self.server.transport.redact(&format!("MCP server `{name}`: {error}"));
                let made = if never_connected(error) { ToolError::not_sent(words) } else { ToolError::lost(words) };
                made.with_type("McpError")
            }
        }
    }

    fn redacted(&self, error: &ToolError) -> ToolError {
        error.reworded(self.server.transport.redact(error.message()))
    }
}

/// Whether no connection was made, so that the server cannot have seen the call.
fn never_connected(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => error.is_connect(),
        _ => false,
    }
}

/// The client of a server's address, as `rmcp` makes its own but for the TLS provider.
fn http_client() -> reqwest::Result<reqwest::Client> {
    // Reusing a connection whose last answer was not read to its end stalls for 40 ms on Linux.
    http_client::client().pool_max_idle_per_host(0).redirect(redirects()).build()
}

/// Redirects that keep the message and lead to the same server are followed, for example from `/mcp` to
/// `/mcp/`. Others would lose the message, or send the headers to a stranger.
fn redirects() -> Policy {
    Policy::custom(|attempt| {
        let keeps_message =
            matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let same_server =
            attempt.previous().last().is_some_and(|from| from.origin() == attempt.url().origin());
        if !keeps_message || !same_server {
            attempt.stop()
        } else if attempt.previous().len() > REDIRECTS_MAX {
            attempt.error("too many redirects")
        } else {
            attempt.follow()
        }
    })
}

fn is_gone(live: &Live) -> bool {
    live.is_closed() || live.peer().is_transport_closed()
}

fn too_slow(what: &str, limit: Duration) -> String {
    format!("it did not {what} within {} s", limit.as_secs())
}

/// Reads the pages of a server's tool list, as many as are allowed. A cursor that was used before ends the list.
async fn list_tools(live: &Live) -> Result<ListedTools, String> {
    let (mut tools, mut cursors): (ListedTools, Vec<String>) = (Vec::new(), Vec::new());
    for _ in 0..MCP_LIST_PAGES_MAX {
        let asked = model::PaginatedRequestParams::default().with_cursor(cursors.last().cloned());
        let request = model::ClientRequest::ListToolsRequest(model::ListToolsRequest::with_param(asked));
        let answered = live.peer().send_request(request).await.and_then(|page| raw_result(&page));
        let page = ListedPage::read(&answered.map_err(|error| error.to_string())?)?;
        tools.extend(page.tools);
        if tools.len() > MCP_LIST_TOOLS_MAX {
            return Err(format!("there are more than {MCP_LIST_TOOLS_MAX}"));
        }
        let Some(cursor) = page.next else { return Ok(tools) };
        if cursors.contains(&cursor) {
            tracing::warn!(cursor, "an MCP server names a page of its tools twice; its list ends there");
            return Ok(tools);
        }
        cursors.push(cursor);
    }
    Err(format!("the list has more than {MCP_LIST_PAGES_MAX} pages"))
}

impl Tool for McpTool {
    fn call(&self, cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<JsonText, ToolError>> {
        let (connection, name) = (Arc::clone(&self.connection), self.name.clone());
        Box::pin(async move { connection.call(&name, cx, &args).await })
    }
}
