//! The tools that a server lists, read one by one: a member that does not suit costs its own tool at most.

use proto_events::json::JsonValue;
use serde_json::Value;

use crate::tools::mcp::schema::normalized;

/// A tool as its server lists it.
#[derive(Debug, Clone)]
pub(crate) struct ListedTool {
    pub(crate) name: String,
    pub(crate) description: String,
    /// The schema in the form that providers take, or the reason why it is missing.
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
    /// A text, if the list cannot be read.
    pub(crate) fn read(page: &Value) -> Result<Self, String> {
        let tools = page.get("tools").and_then(Value::as_array).ok_or("its answer has no list `tools`")?;
        let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        Ok(Self { tools: tools.iter().map(ListedTool::read).collect(), next })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use serde_json::json;

    use super::*;

    /// The places of a tool that are replaced, as pointers; a member that is not there is added.
    const PLACES: [&str; 16] = [
        "/name",
        "/title",
        "/description",
        "/inputSchema",
        "/outputSchema",
        "/annotations",
        "/icons",
        "/execution",
        "/_meta",
        "/inputSchema/type",
        "/inputSchema/properties",
        "/inputSchema/properties/city",
        "/inputSchema/properties/city/type",
        "/inputSchema/required",
        "/inputSchema/additionalProperties",
        "/annotations/readOnlyHint",
    ];

    fn tool(name: &str) -> Value {
        json!({
            "name": name,
            "description": "Tells the weather",
            "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            "annotations": {"readOnlyHint": true},
        })
    }

    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z$/]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            let members = btree_map(
                "(type|properties|required|items|[$]ref|anyOf|enum|[a-z]{1,4})",
                inner.clone(),
                0..4,
            );
            prop_oneof![
                vec(inner, 0..4).prop_map(Value::from),
                members.prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Puts a value in a place, where that is possible; `None` takes away what is there.
    fn put(tool: &mut Value, place: &str, value: Option<Value>) {
        let Some((above, name)) = place.rsplit_once('/') else { return };
        let Some(fields) = tool.pointer_mut(above).and_then(Value::as_object_mut) else { return };
        match value {
            Some(value) => drop(fields.insert(name.to_owned(), value)),
            None => drop(fields.remove(name)),
        }
    }

    proptest! {
        #[test]
        fn whatever_stands_in_a_tool_costs_that_tool_at_most(
            changes in vec((0..PLACES.len(), proptest::option::of(anything())), 1..4),
            whole in proptest::option::weighted(0.1, anything()),
            at in 0..3_usize,
        ) {
            let mut odd = tool("odd");
            for (place, value) in changes {
                put(&mut odd, PLACES[place], value);
            }
            let mut tools = vec![tool("first"), tool("second")];
            tools.insert(at.min(2), whole.unwrap_or(odd));
            let page = ListedPage::read(&json!({"tools": tools, "nextCursor": "c"})).unwrap();
            prop_assert_eq!(page.tools.len(), 3);
            prop_assert_eq!(page.next.as_deref(), Some("c"));
            for (listed, sent) in page.tools.iter().zip(&tools) {
                match &listed.schema {
                    Ok(schema) => prop_assert!(schema.is_object(), "{}", sent),
                    Err(why) => prop_assert!(!why.is_empty(), "{}", sent),
                }
                if sent == &tool(&listed.name) {
                    prop_assert!(listed.schema.is_ok() && listed.hints.reads_only == Some(true), "{:?}", listed);
                }
            }
            let good = page.tools.iter().filter(|listed| ["first", "second"].contains(&listed.name.as_str()));
            prop_assert!(good.filter(|listed| listed.schema.is_ok()).count() >= 2);
        }
    }
}
