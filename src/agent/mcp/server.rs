//! An MCP server as it is described before it is connected.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model;

use super::connection::Connection;
use crate::agent::policy::ToolPolicy;
use crate::agent::registry::{RegisteredTool, ToolSpec};

/// A server whose tools an agent uses. Given to `System::builder(..).mcp(server)`.
///
/// A child process gets the environment that it is given and, of ours, only what programs need to run at all (`PATH`,
/// `HOME` and their like): keys of other services stay here. What is given as environment, header or in the query of an
/// address is never printed.
#[derive(Clone)]
pub struct McpServer {
    pub(super) name: String,
    prefix: Option<String>,
    pub(super) door: Door,
    trust_hints: bool,
    timeout: Option<Duration>,
    policies: Vec<(String, ToolPolicy)>,
    pub(super) show_stderr: bool,
}

/// How a server is reached.
#[derive(Clone)]
pub(super) enum Door {
    /// A child process, over its standard streams.
    Stdio { program: OsString, args: Vec<OsString>, env: Vec<(OsString, OsString)>, dir: Option<PathBuf> },
    /// Streamable HTTP.
    Http { url: String, headers: Vec<(String, String)> },
}

impl McpServer {
    /// A server that is a program, started when it is first needed and again when it has died.
    pub fn stdio(name: impl Into<String>, program: impl Into<OsString>) -> Self {
        Self::new(
            name.into(),
            Door::Stdio { program: program.into(), args: Vec::new(), env: Vec::new(), dir: None },
        )
    }

    /// A server that listens at an address, such as `https://example.org/mcp`.
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self::new(name.into(), Door::Http { url: url.into(), headers: Vec::new() })
    }

    fn new(name: String, door: Door) -> Self {
        let (prefix, timeout, policies) = (None, None, Vec::new());
        Self { name, prefix, door, trust_hints: false, timeout, policies, show_stderr: false }
    }

    /// One more argument of the program. A server that is reached over HTTP has none.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        if let Door::Stdio { args, .. } = &mut self.door {
            args.push(arg.into());
        }
        self
    }

    /// A variable of the program's environment. Never printed.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        if let Door::Stdio { env, .. } = &mut self.door {
            env.push((name.into(), value.into()));
        }
        self
    }

    /// The folder in which the program runs; ours if nothing is said.
    #[must_use]
    pub fn dir(mut self, folder: impl Into<PathBuf>) -> Self {
        if let Door::Stdio { dir, .. } = &mut self.door {
            *dir = Some(folder.into());
        }
        self
    }

    /// Let the program write to our standard error; what it says there is dropped otherwise.
    #[must_use]
    pub fn show_stderr(mut self) -> Self {
        self.show_stderr = true;
        self
    }

    /// A header of every request, such as `Authorization`. Never printed.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Door::Http { headers, .. } = &mut self.door {
            headers.push((name.into(), value.into()));
        }
        self
    }

    /// What the names of its tools begin with here; the server's name and `_` if nothing is said. An empty one leaves
    /// the names as they are.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Believe what the server says of its tools: one that only reads may be called again after a crash, and so may one
    /// for which twice is as once. Only for servers whose makers you trust with that.
    #[must_use]
    pub fn trust_hints(mut self) -> Self {
        self.trust_hints = true;
        self
    }

    /// Longest time for one attempt of any of its tools that has no policy of its own.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// What may be done with the calls of one tool, by its name on the server. It stands above the server's hints.
    #[must_use]
    pub fn policy(mut self, tool: impl Into<String>, policy: ToolPolicy) -> Self {
        self.policies.push((tool.into(), policy));
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connects, and lists its tools. They hold the connection.
    ///
    /// # Errors
    /// Why there are none, in words.
    pub(crate) async fn tools(self) -> Result<Vec<RegisteredTool>, String> {
        let named = |error: String| format!("MCP server `{}`: {error}", self.name);
        let connection = Arc::new(Connection::new(self.clone()));
        let listed = connection.list().await.map_err(named)?;
        for (tool, _) in &self.policies {
            if !listed.iter().any(|known| known.name == tool.as_str()) {
                return Err(named(format!("a policy is given for `{tool}`, which is none of its tools")));
            }
        }
        let register = |tool: model::Tool| {
            let spec = self.spec(&tool);
            RegisteredTool::of_parts(spec, connection.tool(tool.name.into_owned()))
        };
        Ok(listed.into_iter().map(register).collect())
    }

    fn spec(&self, tool: &model::Tool) -> ToolSpec {
        let prefix = self.prefix.clone().unwrap_or_else(|| format!("{}_", self.name));
        let described = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        ToolSpec {
            name: format!("{prefix}{}", tool.name),
            description: described.to_owned(),
            input_schema: Arc::new(serde_json::Value::Object(tool.input_schema.as_ref().clone())),
            policy: self.policy_of(tool),
        }
    }

    /// The operator's word, else the server's where it is trusted, else the most careful.
    fn policy_of(&self, tool: &model::Tool) -> ToolPolicy {
        let own = self.policies.iter().rev().find(|(name, _)| tool.name == name.as_str());
        if let Some((_, policy)) = own {
            return policy.clone().declared_by("operator");
        }
        let policy = match tool.annotations.as_ref().filter(|_| self.trust_hints) {
            Some(hints) => trusted(hints).declared_by("mcp hints"),
            None => ToolPolicy::manual().declared_by("default"),
        };
        match self.timeout {
            Some(timeout) => policy.timeout(timeout),
            None => policy,
        }
    }
}

/// A tool that says of itself that it only reads and that it destroys is not believed in either.
fn trusted(hints: &model::ToolAnnotations) -> ToolPolicy {
    match (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) {
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
            .field("at", &self.door.shown())
            .finish_non_exhaustive()
    }
}

impl Door {
    /// Where it is, without anything that may be secret.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Stdio { program, .. } => program.to_string_lossy().into_owned(),
            Self::Http { url, .. } => {
                let plain = url.split(['?', '#']).next().unwrap_or_default();
                match plain.split_once("://") {
                    // What stands before the `@` is a name and a password.
                    Some((scheme, rest)) => {
                        let (host, path) =
                            rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
                        let host = host.rsplit('@').next().unwrap_or_default();
                        format!("{scheme}://{host}/{path}")
                    }
                    None => plain.to_owned(),
                }
            }
        }
    }

    /// The text without what may be secret: errors of others may repeat what they were given.
    pub(super) fn redact(&self, text: &str) -> String {
        let mut secrets: Vec<String> = match self {
            Self::Stdio { env, .. } => {
                env.iter().map(|(_, value)| value.to_string_lossy().into_owned()).collect()
            }
            Self::Http { url, headers } => {
                let query = url.split_once('?').map(|(_, query)| query.to_owned());
                let user =
                    url.split_once("://").and_then(|(_, rest)| rest.split('/').next()?.rsplit_once('@'));
                let values = headers.iter().map(|(_, value)| value);
                // Of `Bearer x`, the x alone too.
                let words = headers.iter().flat_map(|(_, value)| value.split(' ')).map(str::to_owned);
                let query_values = query.iter().flat_map(|query| query.split('&'));
                let query_values =
                    query_values.filter_map(|pair| pair.split_once('=')).map(|(_, value)| value.to_owned());
                values
                    .cloned()
                    .chain(words)
                    .chain(query_values)
                    .chain(user.map(|(user, _)| user.to_owned()))
                    .collect()
            }
        };
        // What is shorter is no secret, and would take harmless words away.
        secrets.retain(|secret| secret.len() >= SECRET_BYTES_MIN);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "[secret]"))
    }
}

/// Shortest text that counts as a secret.
const SECRET_BYTES_MIN: usize = 5;

#[cfg(test)]
mod tests {
    use proto_events::call::Recovery;

    use super::*;

    fn tool(hints: Option<model::ToolAnnotations>) -> model::Tool {
        let json = serde_json::json!({"name": "t", "inputSchema": {"type": "object"}});
        let mut tool: model::Tool = serde_json::from_value(json).unwrap();
        tool.annotations = hints;
        tool
    }

    #[test]
    fn hints_decide_nothing_unless_they_are_trusted() {
        let hints = model::ToolAnnotations::from_raw(None, Some(true), None, None, None);
        let server = McpServer::stdio("s", "p");
        let policy = server.policy_of(&tool(Some(hints.clone())));
        assert_eq!((policy.recovery(), policy.source()), (Recovery::Manual, "default"));
        let policy = server.clone().trust_hints().policy_of(&tool(Some(hints.clone())));
        assert_eq!((policy.recovery(), policy.source()), (Recovery::ReadOnly, "mcp hints"));
        let own = server.trust_hints().policy("t", ToolPolicy::idempotent());
        let policy = own.policy_of(&tool(Some(hints)));
        assert_eq!((policy.recovery(), policy.source()), (Recovery::Idempotent, "operator"));
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
            (None, None, None, Recovery::Manual),
        ] {
            let hints = model::ToolAnnotations::from_raw(None, reads, destroys, twice_as_once, None);
            assert_eq!(server.policy_of(&tool(Some(hints))).recovery(), mode);
        }
        assert_eq!(server.policy_of(&tool(None)).source(), "default", "a tool without hints says nothing");
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
        let told = http.door.redact(error);
        assert!(!told.contains("pa55word") && !told.contains("k3y") && !told.contains("t0ken"), "{told}");
        assert_eq!(stdio.door.redact("it said v4lue-v4lue"), "it said [secret]");
    }
}
