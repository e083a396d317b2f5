//! The choice of the tools that a server may add to an agent. A list is not trusted: each tool that cannot be added
//! is left out, with the reason, and costs nothing else.

use std::sync::Arc;

use proto_events::id::check_id;

use crate::limits::{MCP_TOOL_BYTES_MAX, MCP_TOOLS_BYTES_MAX};
use crate::tools::mcp::connection::{Connection, ListedTools};
use crate::tools::mcp::tool_list::ListedTool;
use crate::tools::registry::{RegisteredTool, ToolSpec, Tools};

/// The longest part of a name that is shown, in characters: a name that is too long is one that is left out.
const NAME_CHARS_SHOWN: usize = 100;

/// A tool that a server lists and that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpToolLeftOut {
    /// The tool's name, as the agent would know it, or its beginning.
    pub tool: String,
    /// The reason.
    pub why: String,
}

/// The tools of a server that can be added, and those that cannot.
pub(crate) struct Admission {
    pub(crate) tools: Vec<RegisteredTool>,
    pub(crate) left_out: Vec<McpToolLeftOut>,
}

/// Chooses the tools of a server that can be added to these. Those that it has already brought are passed over.
pub(crate) fn admit(
    connection: &Arc<Connection>,
    listed: ListedTools,
    known: &Tools,
    brought: &[String],
) -> Admission {
    let server = connection.server();
    let mut admission = Admission { tools: Vec::with_capacity(listed.len()), left_out: Vec::new() };
    for (tool, _) in &server.policies {
        if !listed.iter().any(|listed| listed.name == tool.as_str()) {
            let why = "a policy is set for it, but the server has no such tool".to_owned();
            let tool = format!("{}{tool}", server.prefix_of_names());
            admission.left_out.push(McpToolLeftOut { tool, why });
        }
    }
    let mut bytes = 0_usize;
    for tool in listed {
        let spec = server.spec(&tool);
        if brought.contains(&spec.name) {
            continue;
        }
        let needs = size(&spec);
        let too_large = || oversize(needs, bytes.saturating_add(needs));
        let unusable = || unusable(&tool);
        match hindrance(&spec.name, &admission.tools, known).or_else(unusable).or_else(too_large) {
            None => {
                bytes = bytes.saturating_add(needs);
                let code = connection.tool(tool.name);
                admission.tools.push(RegisteredTool::of_parts(spec, code));
            }
            Some(why) => {
                let tool = spec.name.chars().take(NAME_CHARS_SHOWN).collect();
                admission.left_out.push(McpToolLeftOut { tool, why });
            }
        }
    }
    admission
}

/// Returns the bytes that a tool adds to each prompt.
fn size(spec: &ToolSpec) -> usize {
    spec.name.len().saturating_add(spec.description.len()).saturating_add(spec.input_schema.to_string().len())
}

/// Returns why a tool of this size cannot be added, where the server's tools have so many bytes with it.
fn oversize(tool: usize, together: usize) -> Option<String> {
    if tool > MCP_TOOL_BYTES_MAX {
        return Some(format!(
            "its description and schema have {tool} bytes; at most {MCP_TOOL_BYTES_MAX} are allowed"
        ));
    }
    let is_over = together > MCP_TOOLS_BYTES_MAX;
    is_over.then(|| format!("the server's tools together have more than {MCP_TOOLS_BYTES_MAX} bytes with it"))
}

/// Returns why a tool cannot be offered to a model.
fn unusable(tool: &ListedTool) -> Option<String> {
    if tool.name.is_empty() {
        return Some("it has no name".to_owned());
    }
    let task = tool.needs_task.then(|| "it can be called only as a task, which is not supported".to_owned());
    tool.schema.as_ref().err().cloned().or(task)
}

/// Returns why a tool of this name cannot be added.
fn hindrance(name: &str, admitted: &[RegisteredTool], known: &Tools) -> Option<String> {
    if let Err(error) = check_id(name) {
        return Some(error.to_string());
    }
    if admitted.iter().any(|tool| tool.spec().name == name) {
        return Some("the server lists the name twice; the first is used".to_owned());
    }
    let in_use = known.get(name).is_some();
    in_use.then(|| "the name is already in use; set a prefix for the server".to_owned())
}
