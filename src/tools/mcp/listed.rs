//! The tools that a server lists, read one by one: a member that does not suit costs its own tool at most.

use proto_events::json::JsonValue;
use serde_json::Value;

use crate::tools::mcp::schema::normalized;

/// A tool as its server lists it.
#[derive(Debug, Clone)]
pub(crate) struct ListedTool {
    pub(crate) name: String,
    pub(crate) description: String,
    /// The schema in the form that providers take, or the reason why there is none.
    pub(crate) schema: Result<JsonValue, String>,
    pub(crate) hints: ToolHints,
    /// Whether the tool can be called only as a task of MCP.
    pub(crate) needs_task: bool,
}

/// A server's statements about a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ToolHints {
    pub(crate) reads_only: Option<bool>,
    pub(crate) destroys: Option<bool>,
    pub(crate) is_idempotent: Option<bool>,
}

impl ToolHints {
    /// Whether the server says anything.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl ListedTool {
    /// Reads a tool. Members that are not used, and hints that are not booleans, do not count.
    pub(crate) fn read(tool: &Value) -> Self {
        let text = |name: &str| tool.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let hint = |name: &str| tool.get("annotations")?.get(name)?.as_bool();
        let support = tool.pointer("/execution/taskSupport").and_then(Value::as_str);
        Self {
            name: text("name").unwrap_or_default().to_owned(),
            description: text("description").or_else(|| text("title")).unwrap_or_default().to_owned(),
            schema: normalized(tool.get("inputSchema")),
            hints: ToolHints {
                reads_only: hint("readOnlyHint"),
                destroys: hint("destructiveHint"),
                is_idempotent: hint("idempotentHint"),
            },
            needs_task: support == Some("required"),
        }
    }
}

/// A page of a server's list.
pub(crate) struct ListedPage {
    pub(crate) tools: Vec<ListedTool>,
    pub(crate) next: Option<String>,
}

impl ListedPage {
    /// Reads a page.
    ///
    /// # Errors
    /// A text, if there is no list.
    pub(crate) fn read(page: &Value) -> Result<Self, String> {
        let tools = page.get("tools").and_then(Value::as_array).ok_or("its answer has no list `tools`")?;
        let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        Ok(Self { tools: tools.iter().map(ListedTool::read).collect(), next })
    }
}
