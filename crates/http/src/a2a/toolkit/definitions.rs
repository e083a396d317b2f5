//! The six tools as data: names, descriptions and parameters, in both spellings.

use proto_events::json;
use proto_events::json::{JsonMap, JsonValue as Value};
use taskreel_log::artifacts::KeyCase;

/// A parameter of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolParameter {
    /// The name, as in a2a-utils for Python.
    pub name: &'static str,
    /// The name, as in a2a-utils for TypeScript.
    pub camel_name: &'static str,
    /// The type in JSON Schema: `string`, `number`, `integer`, `objects` or `strings`, the last two of which are lists.
    pub kind: &'static str,
    /// Whether it must be given.
    pub is_required: bool,
    /// The description for the model.
    pub description: &'static str,
}

/// A tool of the toolkit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolDefinition {
    /// The name.
    pub name: &'static str,
    /// The description for the model.
    pub description: &'static str,
    /// The parameters.
    pub parameters: &'static [ToolParameter],
}

const fn parameter(
    names: (&'static str, &'static str),
    kind: &'static str,
    is_required: bool,
    description: &'static str,
) -> ToolParameter {
    ToolParameter { name: names.0, camel_name: names.1, kind, is_required, description }
}

const AGENT_ID: ToolParameter =
    parameter(("agent_id", "agentId"), "string", true, "The id of the agent, as get_agents lists it.");
const TASK_ID: ToolParameter =
    parameter(("task_id", "taskId"), "string", true, "The id of the task, from an answer of the agent.");
const ARTIFACT_ID: ToolParameter = parameter(
    ("artifact_id", "artifactId"),
    "string",
    true,
    "The id of the artifact, from the task's artifacts.",
);

/// The six tools.
pub static A2A_TOOLS: [ToolDefinition; 6] = [
    ToolDefinition {
        name: "get_agents",
        description: "Lists the agents that can be asked, by their ids, with names and descriptions. Agents that could not be \
reached are listed under errors. Call it before any other of these tools.",
        parameters: &[],
    },
    ToolDefinition {
        name: "get_agent",
        description: "Shows one agent with its skills.",
        parameters: &[AGENT_ID],
    },
    ToolDefinition {
        name: "send_message",
        description: "Sends a message to an agent and returns its answer: a message, or a task with its state and its \
artifacts. A task that is still at work when the time is up is returned as it is: continue with get_task. Long artifacts are \
shortened; keys that begin with _ say what is left out, and view_text_artifact and view_data_artifact show it.",
        parameters: &[
            AGENT_ID,
            parameter(("message", "message"), "string", true, "The text of the message."),
            parameter(
                ("context_id", "contextId"),
                "string",
                false,
                "The id of the conversation to continue; a new one begins without it.",
            ),
            parameter(
                ("task_id", "taskId"),
                "string",
                false,
                "The id of the task to which the message belongs, such as one that waits for input.",
            ),
            parameter(("timeout", "timeout"), "number", false, "The seconds to wait for the task."),
            parameter(
                ("data", "data"),
                "objects",
                false,
                "Data to send beside the text, each item an object.",
            ),
            parameter(
                ("files", "files"),
                "strings",
                false,
                "Files to send: https addresses, which the agent fetches, or paths of files that may be sent, of 1 MB at most.",
            ),
        ],
    },
    ToolDefinition {
        name: "get_task",
        description: "Returns a task of an agent, and waits until it is over, needs input, or the time is up. Call it again \
where it is still at work.",
        parameters: &[
            AGENT_ID,
            TASK_ID,
            parameter(("timeout", "timeout"), "number", false, "The seconds to wait for the task."),
            parameter(("poll_interval", "pollInterval"), "number", false, "The seconds between two checks."),
        ],
    },
    ToolDefinition {
        name: "view_text_artifact",
        description: "Shows the text of an agent's artifact: all of it, a range of lines, or a range of characters.",
        parameters: &[
            AGENT_ID,
            TASK_ID,
            ARTIFACT_ID,
            parameter(("line_start", "lineStart"), "integer", false, "The first line, from 1."),
            parameter(("line_end", "lineEnd"), "integer", false, "The last line, included."),
            parameter(
                ("character_start", "characterStart"),
                "integer",
                false,
                "The first character, from 0.",
            ),
            parameter(
                ("character_end", "characterEnd"),
                "integer",
                false,
                "The character after the last one.",
            ),
        ],
    },
    ToolDefinition {
        name: "view_data_artifact",
        description: "Shows the data of an agent's artifact: a field by its path, and rows and columns of a list.",
        parameters: &[
            AGENT_ID,
            TASK_ID,
            ARTIFACT_ID,
            parameter(("json_path", "jsonPath"), "string", false, "The keys to enter, separated by dots."),
            parameter(
                ("rows", "rows"),
                "string",
                false,
                "The rows of a list, from 0: '0' (one row), '0-10' (the end is not included), '0,2,5', or 'all'.",
            ),
            parameter(
                ("columns", "columns"),
                "string",
                false,
                "The columns of a list of objects: 'name', 'name,age', or 'all'.",
            ),
        ],
    },
];

impl ToolDefinition {
    /// Returns the JSON Schema of the arguments, with names in this spelling.
    pub fn schema(&self, case: KeyCase) -> Value {
        let mut properties = JsonMap::new();
        let mut required: Vec<Value> = Vec::new();
        for parameter in self.parameters {
            let name = parameter.name_in(case);
            properties.insert(name, parameter.schema());
            if parameter.is_required {
                required.push(name.into());
            }
        }
        json!({"type": "object", "properties": Value::from(properties), "required": Value::from(required)})
    }
}

impl ToolParameter {
    /// Returns the name in a spelling.
    pub fn name_in(&self, case: KeyCase) -> &'static str {
        match case {
            KeyCase::Snake => self.name,
            KeyCase::Camel => self.camel_name,
        }
    }

    fn schema(&self) -> Value {
        let (kind, item) = match self.kind {
            "objects" => ("array", Some("object")),
            "strings" => ("array", Some("string")),
            kind => (kind, None),
        };
        let mut schema = JsonMap::new();
        // What need not be given may be null.
        if self.is_required {
            schema.insert("type", kind.into());
        } else {
            schema.insert("type", json!([kind, "null"]));
        }
        if let Some(item) = item {
            schema.insert("items", json!({"type": item}));
        }
        schema.insert("description", self.description.into());
        schema.into()
    }
}
