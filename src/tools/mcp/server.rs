//! The description of an MCP server, before it is connected.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use proto_events::json::JsonValue;

use crate::limits::MCP_START_WAIT;
use crate::tools::mcp::tool_list::{ListedTool, ToolHints};
use crate::tools::mcp::transport::Transport;
use crate::tools::policy::ToolPolicy;
use crate::tools::registry::ToolSpec;

/// A server whose tools an agent uses. Pass it to `System::builder(..).mcp(server)`.
///
/// A server is not trusted: one that is down, lists too much or lists a bad name costs its own tools only
/// (`System::mcp_servers` tells), and is tried again.
///
/// A child process gets the environment set here and, of this process's environment, only the variables that
/// programs need to run (`PATH`, `HOME` and the like): keys of other services are not passed on. Values of
/// the environment, of headers and in the query of a URL are never printed.
#[derive(Clone)]
pub struct McpServer {
    pub(crate) name: String,
    prefix: Option<String>,
    pub(crate) transport: Transport,
    trust_hints: bool,
    timeout: Option<Duration>,
    pub(crate) start_wait: Duration,
    pub(crate) policies: Vec<(String, ToolPolicy)>,
    pub(crate) show_stderr: bool,
}

impl McpServer {
    /// Describes a server that is a program, started when it is first needed and again when it has died.
    pub fn stdio(name: impl Into<String>, program: impl Into<OsString>) -> Self {
        Self::new(
            name.into(),
            Transport::Stdio { program: program.into(), args: Vec::new(), env: Vec::new(), dir: None },
        )
    }

    /// Describes a server at a URL, such as `https://example.org/mcp`.
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self::new(name.into(), Transport::Http { url: url.into(), headers: Vec::new() })
    }

    fn new(name: String, transport: Transport) -> Self {
        let (prefix, timeout, policies) = (None, None, Vec::new());
        let (trust_hints, start_wait, show_stderr) = (false, MCP_START_WAIT, false);
        Self { name, prefix, transport, trust_hints, timeout, start_wait, policies, show_stderr }
    }

    /// Adds an argument of the program. Without effect on a server that is reached over HTTP.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        if let Transport::Stdio { args, .. } = &mut self.transport {
            args.push(arg.into());
        }
        self
    }

    /// Sets a variable of the program's environment. Never printed.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        if let Transport::Stdio { env, .. } = &mut self.transport {
            env.push((name.into(), value.into()));
        }
        self
    }

    /// Sets the working directory of the program; that of this process by default.
    #[must_use]
    pub fn dir(mut self, folder: impl Into<PathBuf>) -> Self {
        if let Transport::Stdio { dir, .. } = &mut self.transport {
            let folder = folder.into();
            // Whole: the program is started again later, when this one may have another working directory.
            *dir = Some(std::path::absolute(&folder).unwrap_or(folder));
        }
        self
    }

    /// Lets the program write to this process's standard error; its output is dropped by default.
    #[must_use]
    pub fn show_stderr(mut self) -> Self {
        self.show_stderr = true;
        self
    }

    /// Adds a header to every request, such as `Authorization`. Never printed.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Transport::Http { headers, .. } = &mut self.transport {
            headers.push((name.into(), value.into()));
        }
        self
    }

    /// Sets the prefix of the tools' names; the server's name and `_` by default. An empty prefix leaves the
    /// names unchanged.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Trusts the server's hints about its tools: a tool that only reads may be called again after a crash,
    /// and so may an idempotent one. Only for servers whose makers you trust with that.
    #[must_use]
    pub fn trust_hints(mut self) -> Self {
        self.trust_hints = true;
        self
    }

    /// Sets the longest time for one attempt of the tools without a policy of their own.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets how long the start of a system waits for the server; 10 s by default. A server that needs longer, or
    /// cannot be used, does not keep the system from starting: it is tried again, and its tools join later. Set a
    /// longer time if open work of an earlier process may need the tools at once.
    #[must_use]
    pub fn start_wait(mut self, time: Duration) -> Self {
        self.start_wait = time;
        self
    }

    /// Sets the policy of one tool, by its name on the server. It overrides the server's hints.
    #[must_use]
    pub fn policy(mut self, tool: impl Into<String>, policy: ToolPolicy) -> Self {
        self.policies.push((tool.into(), policy));
        self
    }

    /// Returns the server's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the names of the server's tools begin with.
    pub(crate) fn prefix_of_names(&self) -> String {
        self.prefix.clone().unwrap_or_else(|| format!("{}_", self.name))
    }

    pub(crate) fn spec(&self, tool: &ListedTool) -> ToolSpec {
        ToolSpec {
            name: format!("{}{}", self.prefix_of_names(), tool.name),
            description: tool.description.clone(),
            input_schema: Arc::new(tool.schema.clone().unwrap_or(JsonValue::Bool(false))),
            policy: self.policy_of(tool),
        }
    }

    /// Returns the operator's policy, else the one of the server's hints if they are trusted, else the most
    /// careful.
    fn policy_of(&self, tool: &ListedTool) -> ToolPolicy {
        let own = self.policies.iter().rev().find(|(name, _)| tool.name == name.as_str());
        if let Some((_, policy)) = own {
            return policy.clone().declared_by("operator");
        }
        let policy = if self.trust_hints && !tool.hints.is_empty() {
            trusted(tool.hints).declared_by("mcp hints")
        } else {
            ToolPolicy::manual().declared_by("default")
        };
        match self.timeout {
            Some(timeout) => policy.timeout(timeout),
            None => policy,
        }
    }
}

/// Returns the policy of trusted hints. A tool that claims both to only read and to destroy stays Manual.
fn trusted(hints: ToolHints) -> ToolPolicy {
    match (hints.reads_only, hints.destroys, hints.is_idempotent) {
        (Some(true), Some(true), _) => ToolPolicy::manual(),
        (Some(true), _, _) => ToolPolicy::read_only(),
        (_, _, Some(true)) => ToolPolicy::idempotent(),
        _ => ToolPolicy::manual(),
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer")
            .field("name", &self.name)
            .field("at", &self.transport.shown())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proto_events::call::Recovery;

    use super::*;

    fn tool(hints: Option<ToolHints>) -> ListedTool {
        let tool = serde_json::json!({"name": "t", "inputSchema": {"type": "object"}});
        ListedTool { hints: hints.unwrap_or_default(), ..ListedTool::read(&tool) }
    }

    #[test]
    fn hints_decide_nothing_unless_they_are_trusted() {
        let hints = ToolHints { reads_only: Some(true), ..ToolHints::default() };
        let server = McpServer::stdio("s", "p");
        let policy = server.policy_of(&tool(Some(hints)));
        assert_eq!((policy.recovery(), policy.get_declared_by()), (Recovery::Manual, "default"));
        let policy = server.clone().trust_hints().policy_of(&tool(Some(hints)));
        assert_eq!((policy.recovery(), policy.get_declared_by()), (Recovery::ReadOnly, "mcp hints"));
        let own = server.trust_hints().policy("t", ToolPolicy::idempotent());
        let policy = own.policy_of(&tool(Some(hints)));
        assert_eq!((policy.recovery(), policy.get_declared_by()), (Recovery::Idempotent, "operator"));
    }

    #[test]
    fn each_hint_leads_to_the_mode_that_it_allows_and_no_further() {
        let server = McpServer::stdio("s", "p").trust_hints();
        for (reads, destroys, twice_as_once, mode) in [
            (Some(true), None, None, Recovery::ReadOnly),
            (Some(true), Some(false), None, Recovery::ReadOnly),
            (Some(true), Some(true), Some(true), Recovery::Manual),
            (Some(false), Some(true), Some(true), Recovery::Idempotent),
            (None, Some(false), None, Recovery::Manual),
        ] {
            let hints = ToolHints { reads_only: reads, destroys, is_idempotent: twice_as_once };
            assert_eq!(server.policy_of(&tool(Some(hints))).recovery(), mode);
        }
        assert_eq!(
            server.policy_of(&tool(None)).get_declared_by(),
            "default",
            "a tool without hints says nothing"
        );
    }

    #[test]
    fn nothing_that_may_be_secret_is_printed() {
        let http = McpServer::http("s", "https://user:pa55word@example.org/mcp?key=k3y-of-mine")
            .header("Authorization", "Bearer t0ken-t0ken");
        let stdio = McpServer::stdio("s", "server").arg("--token=x1y2z3").env("TOKEN", "v4lue-v4lue");
        let shown = format!("{http:?} {stdio:?}");
        assert!(shown.contains("https://example.org/mcp") && shown.contains("server"), "{shown}");
        for secret in ["pa55word", "k3y-of-mine", "t0ken-t0ken", "x1y2z3", "v4lue-v4lue"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        let error = "cannot reach https://user:pa55word@example.org/mcp?key=k3y-of-mine with t0ken-t0ken";
        let told = http.transport.redact(error);
        assert!(!told.contains("pa55word") && !told.contains("k3y") && !told.contains("t0ken"), "{told}");
        assert_eq!(stdio.transport.redact("it said v4lue-v4lue"), "it said [secret]");
    }
}
