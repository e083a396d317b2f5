//! The connection to an MCP server: made at the first need, kept, made anew when it is gone.

use std::process::Stdio;
use std::sync::Arc;

use proto_events::json::JsonText;
use rmcp::model;
use rmcp::service::{RunningService, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{RoleClient, ServiceExt};
use tokio::sync::Mutex;

use super::call::{Listener, call};
use super::server::{Door, McpServer};
use crate::agent::tool::{BoxFuture, Tool, ToolContext, ToolError};
use crate::limits::MCP_CONNECT_TIMEOUT;

/// A connection that was made.
pub(super) type Live = RunningService<RoleClient, Listener>;

/// What a program needs of our environment to run at all.
const ENV_KEPT: [&str; 11] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "LANG", "LC_ALL", "SYSTEMROOT", "TEMP"];

/// The connection to one server.
pub(super) struct Connection {
    server: McpServer,
    live: Mutex<Option<Arc<Live>>>,
}

/// One of the server's tools.
struct McpTool {
    connection: Arc<Connection>,
    name: String,
}

impl Connection {
    pub(super) fn new(server: McpServer) -> Self {
        Self { server, live: Mutex::default() }
    }

    /// The server's tools.
    pub(super) async fn list(&self) -> Result<Vec<model::Tool>, String> {
        let live = self.live().await?;
        let listed = tokio::time::timeout(MCP_CONNECT_TIMEOUT, live.list_all_tools()).await;
        let listed = listed.map_err(|_| too_slow("list its tools"))?;
        listed.map_err(|error| self.server.door.redact(&format!("its tools cannot be listed: {error}")))
    }

    /// The tool of this name on the server.
    pub(super) fn tool(self: &Arc<Self>, name: String) -> Arc<dyn Tool> {
        Arc::new(McpTool { connection: Arc::clone(self), name })
    }

    /// The connection that there is, or a new one. Whoever comes meanwhile waits for it.
    async fn live(&self) -> Result<Arc<Live>, String> {
        let mut held = self.live.lock().await;
        if let Some(live) = held.as_ref().filter(|live| !is_gone(live)) {
            return Ok(Arc::clone(live));
        }
        *held = None;
        let connecting = tokio::time::timeout(MCP_CONNECT_TIMEOUT, self.connect());
        let live = Arc::new(connecting.await.map_err(|_| too_slow("connect"))??);
        *held = Some(Arc::clone(&live));
        Ok(live)
    }

    async fn connect(&self) -> Result<Live, String> {
        let listener = Listener::default();
        let connected = match &self.server.door {
            Door::Stdio { program, args, env, dir } => {
                let mut command = tokio::process::Command::new(program);
                command.args(args).env_clear().kill_on_drop(true);
                let kept = ENV_KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
                command.envs(kept).envs(env.iter().map(|(name, value)| (name, value)));
                if let Some(dir) = dir {
                    command.current_dir(dir);
                }
                let stderr = if self.server.show_stderr { Stdio::inherit() } else { Stdio::null() };
                let started = TokioChildProcess::builder(command).stderr(stderr).spawn();
                let (child, _no_stderr) = started.map_err(|error| self.told("cannot be started", &error))?;
                listener.serve(child).await
            }
            Door::Http { url, headers } => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                for (name, value) in headers {
                    let wrong = |what: &str| format!("`{name}` cannot be a header: its {what} is not one");
                    let header = name.parse().map_err(|_| wrong("name"))?;
                    config.custom_headers.insert(header, value.parse().map_err(|_| wrong("value"))?);
                }
                config.custom_headers.values_mut().for_each(|value| value.set_sensitive(true));
                listener.serve(StreamableHttpClientTransport::from_config(config)).await
            }
        };
        connected.map_err(|error| self.told("does not answer as an MCP server", &error))
    }

    fn told(&self, what: &str, error: &dyn std::error::Error) -> String {
        self.server.door.redact(&format!("{} {what}: {error}", self.server.door.shown()))
    }

    async fn call(&self, tool: &str, cx: ToolContext, args: &JsonText) -> Result<JsonText, ToolError> {
        let live = match self.live().await {
            Ok(live) => live,
            Err(why) => {
                let words = format!("MCP server `{}`: {why}", self.server.name);
                return Err(ToolError::failed(words).with_type("McpUnavailable"));
            }
        };
        match call(&live, tool, &cx, args).await {
            Ok(answer) => answer.map_err(|error| self.redacted(&error)),
            Err(error) => {
                if matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_)) {
                    self.let_go(&live).await;
                }
                Err(self.broken(&error))
            }
        }
    }

    /// The connection is of no use any more: the next call makes another.
    async fn let_go(&self, gone: &Arc<Live>) {
        let mut held = self.live.lock().await;
        held.take_if(|live| Arc::ptr_eq(live, gone));
    }

    fn broken(&self, error: &ServiceError) -> ToolError {
        let name = &self.server.name;
        match error {
            ServiceError::McpError(error) => {
                let words = self.server.door.redact(&error.message);
                if error.code == model::ErrorCode::INVALID_PARAMS {
                    return ToolError::arguments(words).with_type("InvalidParams");
                }
                ToolError::failed(format!("MCP server `{name}`: {words} (code {})", error.code.0))
                    .with_type("McpError")
            }
            ServiceError::TransportClosed => ToolError::failed(format!(
                "MCP server `{name}` went away while the call was in flight; it is started again for the next call"
            ))
            .with_type("McpGone"),
            error => {
                let words = self.server.door.redact(&format!("MCP server `{name}`: {error}"));
                ToolError::failed(words).with_type("McpError")
            }
        }
    }

    fn redacted(&self, error: &ToolError) -> ToolError {
        error.reworded(self.server.door.redact(error.message()))
    }
}

fn is_gone(live: &Live) -> bool {
    live.is_closed() || live.peer().is_transport_closed()
}

fn too_slow(what: &str) -> String {
    format!("it did not {what} within {} s", MCP_CONNECT_TIMEOUT.as_secs())
}

impl Tool for McpTool {
    fn call(&self, cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<JsonText, ToolError>> {
        let (connection, name) = (Arc::clone(&self.connection), self.name.clone());
        Box::pin(async move { connection.call(&name, cx, &args).await })
    }
}
