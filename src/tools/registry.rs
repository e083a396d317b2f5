//! An agent's tools: the description and the code of each.

use std::fmt;
use std::sync::Arc;

use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::secret::references;

use crate::tools::append_only_list::AppendOnlyList;
use crate::tools::into_tool::{IntoTool, ToolParts};
use crate::tools::panics::caught;
use crate::tools::policy::ToolPolicy;
use crate::tools::revision::Revision;
use crate::tools::schema::{ArgsError, ArgsSchema, not_an_object};
use crate::tools::texts::short;
use crate::tools::tool::Tool;

/// The description of a tool, for the model and the runtime.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name by which the tool is called.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the arguments; `Null` accepts any object.
    pub input_schema: Arc<Value>,
    /// The recovery, retries, timeouts and capabilities of the tool's calls.
    pub policy: ToolPolicy,
}

impl ToolSpec {
    /// Returns the schema, if the tool has one.
    pub fn schema(&self) -> Option<&Value> {
        Some(&*self.input_schema).filter(|schema| !schema.is_null())
    }
}

/// A tool and its description.
#[derive(Clone)]
pub(crate) struct RegisteredTool {
    spec: ToolSpec,
    /// The schema of the description, read once.
    schema: Arc<ArgsSchema>,
    tool: Arc<dyn Tool>,
    /// Whether the code blocks its thread, as it said when it was registered.
    is_blocking: bool,
}

impl RegisteredTool {
    /// Creates a tool with a name. Its code is asked here, once, for what it says of itself.
    ///
    /// # Errors
    /// A text that names the tool, if its code panics.
    pub(crate) fn new<M>(
        name: impl Into<String>,
        description: impl Into<String>,
        policy: ToolPolicy,
        tool: impl IntoTool<M>,
    ) -> Result<Self, String> {
        let name = name.into();
        let parts = caught(|| {
            let parts = tool.into_tool();
            let is_blocking = parts.tool.is_blocking();
            (parts, is_blocking)
        });
        let (ToolParts { input_schema, tool }, is_blocking) =
            parts.map_err(|panic| format!("tool `{name}`: it panicked when it was registered: {panic}"))?;
        if let Some(kind) = not_an_object(&input_schema) {
            return Err(format!(
                "tool `{name}`: its arguments are of the type `{kind}`, but the arguments of a call are an object with \
                 named fields; give the tool a struct"
            ));
        }
        let (description, input_schema) = (description.into(), Arc::new(input_schema));
        let schema = Arc::new(ArgsSchema::from_schema(Some(&input_schema)));
        let spec = ToolSpec { name, description, input_schema, policy };
        Ok(Self { spec, schema, tool, is_blocking })
    }

    /// Creates a tool of another program from a complete description and its code.
    #[cfg(feature = "mcp")]
    pub(crate) fn of_parts(spec: ToolSpec, tool: Arc<dyn Tool>) -> Self {
        let schema = Arc::new(ArgsSchema::of_foreign(&spec.input_schema));
        Self { spec, schema, is_blocking: tool.is_blocking(), tool }
    }

    /// Returns the tool's description.
    pub(crate) fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Returns the arguments as the tool gets them and as they are recorded: coerced, with defaults filled
    /// in (a tool of another program has a rule of its own). The reference to a secret value is not checked: its value is,
    /// before it is sent.
    ///
    /// # Errors
    /// `ArgsError` with the text for the model.
    pub(crate) fn check(&self, args: &JsonText) -> Result<JsonText, ArgsError> {
        let referred = references(args, self.spec.policy.get_secret_args());
        let is_referred = |name: &str| referred.iter().any(|(argument, _)| argument == name);
        let checked = self.schema.check_but(&args.tree(), is_referred);
        checked.map(JsonText::from).map_err(|error| ArgsError(short(&error.0)))
    }

    /// Returns the arguments as the tool gets them, with the values of its secret arguments in place.
    ///
    /// # Errors
    /// `ArgsError`; its text may repeat a value, and is not cut before it is masked.
    pub(crate) fn check_in_clear(&self, args: &JsonText) -> Result<JsonText, ArgsError> {
        self.schema.check_but(&args.tree(), |_| false).map(JsonText::from)
    }

    /// Whether the tool blocks its thread, so that it cannot be dropped.
    pub(crate) fn is_blocking(&self) -> bool {
        self.is_blocking
    }

    /// Returns the tool's code.
    pub(crate) fn tool(&self) -> &Arc<dyn Tool> {
        &self.tool
    }
}

impl fmt::Debug for RegisteredTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegisteredTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// The longest name of a tool of the host, in bytes: the providers' own limit.
const NAME_BYTES_MAX: usize = 64;

/// Checks the name of a tool of the host.
///
/// # Errors
/// A text that names the tool, for a name that no provider takes.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(());
    }
    let name = short(name);
    Err(format!(
        "tool `{name}`: no provider of models takes this name; use 1 to {NAME_BYTES_MAX} ASCII letters, digits, `_`, `-`, \
         `.` or `:`"
    ))
}

/// An agent's tools, in the order of their registration, and the revisions of its definition that are in force since the
/// start. Tools that were registered before the start never change; the tools of a server that was late join them, and
/// stay. A revision without new tools is one with which other agents joined.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tools {
    own: Vec<RegisteredTool>,
    /// The revision of the agent's definition at the start.
    began: Revision,
    /// The tools and revisions that have joined since the start, in order.
    late: Arc<AppendOnlyList<JoinedTools>>,
    /// Held while something joins: one revision of the definition after the other.
    pub(crate) joining: Arc<tokio::sync::Mutex<()>>,
}

/// The tools that joined at once, and the revision of the agent's definition with which they did.
#[derive(Debug)]
struct JoinedTools {
    tools: Vec<RegisteredTool>,
    revision: Revision,
}

impl Tools {
    /// Creates an empty registry.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// A text that names the tool, if there is one of its name: neither may take the other's place and policy unseen.
    pub(crate) fn register(&mut self, tool: RegisteredTool) -> Result<(), String> {
        let name = &tool.spec.name;
        if self.own.iter().any(|other| other.spec.name == *name) {
            return Err(format!("two tools are named `{name}`; give each a name of its own"));
        }
        self.own.push(tool);
        Ok(())
    }

    /// Removes a tool of this name, if there is one. Only before the start.
    pub(crate) fn remove(&mut self, name: &str) {
        self.own.retain(|tool| tool.spec.name != name);
    }

    /// Adds tools with the revision that names them, or a revision alone. The tools' names must be new. One caller at a time.
    pub(crate) fn join(&self, tools: Vec<RegisteredTool>, revision: Revision) {
        self.late.push(JoinedTools { tools, revision });
    }

    /// Returns these tools and more.
    #[cfg(feature = "mcp")]
    pub(crate) fn with(&self, more: &[RegisteredTool]) -> Self {
        let own = self.all().chain(more).cloned().collect();
        Self { own, began: self.revision().clone(), ..Self::default() }
    }

    /// Notes the revision of the agent's definition that the tools registered so far are part of.
    pub(crate) fn set_revision(&mut self, revision: Revision) {
        self.began = revision;
    }

    /// Returns the newest revision of the agent's definition.
    pub(crate) fn revision(&self) -> &Revision {
        self.joined().last().map_or(&self.began, |joined| &joined.revision)
    }

    /// Returns a revision by its number, if it has been in force since the start.
    pub(crate) fn revision_of(&self, number: u32) -> Option<&Revision> {
        let mut all = std::iter::once(&self.began).chain(self.joined().map(|joined| &joined.revision));
        all.find(|revision| revision.number == number)
    }

    /// Returns the tools of a revision.
    pub(crate) fn as_of(&self, revision: u32) -> Vec<&ToolSpec> {
        let joined = self.joined().filter(|joined| joined.revision.number <= revision);
        self.own.iter().chain(joined.flat_map(|joined| &joined.tools)).map(RegisteredTool::spec).collect()
    }

    fn joined(&self) -> impl Iterator<Item = &JoinedTools> {
        self.late.iter()
    }

    fn all(&self) -> impl Iterator<Item = &RegisteredTool> {
        self.own.iter().chain(self.joined().flat_map(|joined| &joined.tools))
    }

    /// Wraps the code of each tool.
    #[cfg(feature = "testing")]
    pub(crate) fn wrap_each(&mut self, wrap: impl Fn(Arc<dyn Tool>) -> Arc<dyn Tool>) {
        for registered in &mut self.own {
            registered.tool = wrap(Arc::clone(&registered.tool));
        }
    }

    /// Whether a tool has secret arguments, or had them in an earlier definition.
    pub(crate) fn have_secrets(&self) -> bool {
        let declared = |tool: &RegisteredTool| !tool.spec.policy.get_secret_args().is_empty();
        !self.revision().secret_args.is_empty() || self.all().any(declared)
    }

    /// Returns the secret arguments of a tool: those that it declares, or declared when the agent still had it.
    pub(crate) fn secret_args(&self, name: &str) -> &[String] {
        let before = || self.revision().secret_args.get(name).map_or(&[][..], Vec::as_slice);
        self.get(name).map_or_else(before, |tool| tool.spec.policy.get_secret_args())
    }

    /// Returns the tool of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&RegisteredTool> {
        self.all().find(|tool| tool.spec.name == name)
    }

    /// Returns the names, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.all().map(|tool| tool.spec.name.as_str()).collect()
    }

    /// Returns the descriptions, in order.
    pub(crate) fn specs(&self) -> Vec<&ToolSpec> {
        self.all().map(RegisteredTool::spec).collect()
    }
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::tools::error::{ToolError, ToolErrorKind};
    use crate::tools::into_tool::DynTool;
    use crate::tools::tool::{ToolContext, ToolContextParts};

    #[derive(Deserialize, JsonSchema)]
    struct Forecast {
        /// City, as a person would say it.
        city: String,
        days: Option<u8>,
    }

    async fn forecast(ask: Forecast) -> Result<String, std::io::Error> {
        Ok(format!("{} {:?}", ask.city, ask.days))
    }

    async fn who(cx: ToolContext, _ask: Forecast) -> Result<String, ToolError> {
        Ok(cx.call_id().to_owned())
    }

    async fn run(tool: &RegisteredTool, args: &str) -> Result<JsonText, ToolError> {
        let cx =
            ToolContext::new(ToolContextParts { call_id: "c1".to_owned(), ..ToolContextParts::default() });
        tool.tool().call(cx, JsonText::parse(args).unwrap()).await
    }

    fn register<M>(tool: impl IntoTool<M>) -> RegisteredTool {
        RegisteredTool::new("t", "d", ToolPolicy::default(), tool).unwrap()
    }

    #[tokio::test]
    async fn functions_and_closures_of_both_shapes_are_tools() {
        let args = r#"{"city":"Oslo"}"#;
        assert_eq!(run(&register(forecast), args).await.unwrap().as_str(), r#""Oslo None""#);
        assert_eq!(run(&register(who), args).await.unwrap().as_str(), r#""c1""#);
        let closure = |ask: Forecast| async move { Ok::<_, String>(ask.city.len()) };
        assert_eq!(run(&register(closure), args).await.unwrap().as_str(), "4");
        let both = |cx: ToolContext, ask: Forecast| async move { Ok::<_, String>((cx.attempt(), ask.days)) };
        assert_eq!(run(&register(both), args).await.unwrap().as_str(), "[0,null]");
        let dynamic = DynTool::new(Value::Null, |_cx, args| async move { Ok(args) });
        assert_eq!(run(&register(dynamic), args).await.unwrap().as_str(), args);
    }

    #[tokio::test]
    async fn arguments_that_the_type_refuses_are_an_argument_error() {
        let error = run(&register(forecast), r#"{"city":"Oslo","days":-1}"#).await.unwrap_err();
        assert_eq!(error.kind(), ToolErrorKind::Arguments);
        assert!(error.message().starts_with("tool args: "), "{error}");
    }

    #[tokio::test]
    async fn a_tool_error_passes_through_and_others_keep_their_type_and_words() {
        let own = |_: Forecast| async { Err::<(), _>(ToolError::arguments("no such city")) };
        let error = run(&register(own), r#"{"city":"x"}"#).await.unwrap_err();
        assert_eq!(error, ToolError::arguments("no such city"));
        let other = |ask: Forecast| async move { ask.city.parse::<u8>() };
        let error = run(&register(other), r#"{"city":"x"}"#).await.unwrap_err();
        assert_eq!((error.kind(), error.type_name()), (ToolErrorKind::Failed, "ParseIntError"));
        assert_eq!(error.message(), "invalid digit found in string");
        let words = |_: Forecast| async { Err::<(), _>(String::new()) };
        assert_eq!(run(&register(words), r#"{"city":"x"}"#).await.unwrap_err().message(), "Error");
    }

    #[test]
    fn a_registry_keeps_its_order_and_refuses_a_second_tool_of_a_name() {
        let named = |name: &str, text: &str| {
            RegisteredTool::new(name, text, ToolPolicy::default(), forecast).unwrap()
        };
        let mut tools = Tools::new();
        tools.register(named("b", "1")).unwrap();
        tools.register(named("a", "2")).unwrap();
        let refused = tools.register(named("b", "3")).unwrap_err();
        assert_eq!(refused, "two tools are named `b`; give each a name of its own");
        assert_eq!(tools.names(), ["b", "a"]);
        assert_eq!(tools.get("b").unwrap().spec().description, "1");
        assert!(tools.get("c").is_none());
    }

    #[test]
    fn tools_of_a_late_server_join_and_an_earlier_list_can_still_be_named() {
        let named = |name: &str| RegisteredTool::new(name, "", ToolPolicy::default(), forecast).unwrap();
        let mut tools = Tools::new();
        tools.register(named("own")).unwrap();
        let revision = |number| Revision { number, ..Revision::default() };
        tools.set_revision(revision(3));
        let clone = tools.clone();
        assert_eq!(clone.revision().number, 3);
        tools.join(vec![named("b")], revision(4));
        tools.join(vec![named("a"), named("c")], revision(6));
        assert_eq!(clone.names(), ["own", "b", "a", "c"], "clones see them too, in the order of joining");
        assert_eq!(tools.get("c").unwrap().spec().name, "c");
        assert_eq!(clone.revision().number, 6);
        let as_of =
            |number| tools.as_of(number).into_iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>();
        assert_eq!(as_of(3), ["own"]);
        assert_eq!(as_of(4), ["own", "b"]);
        assert_eq!(as_of(6), ["own", "b", "a", "c"]);
        let known: Vec<u32> = (0..9).filter(|number| tools.revision_of(*number).is_some()).collect();
        assert_eq!(known, [3, 4, 6]);
    }

    #[test]
    fn optional_arguments_may_be_absent_or_null_and_the_schema_says_what_they_are() {
        let tool = register(forecast);
        let check = |args: &str| {
            let checked = tool.check(&JsonText::parse(args).unwrap());
            checked.map(|args| args.to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(check(r#"{"city":"Oslo"}"#).unwrap(), r#"{"city":"Oslo"}"#);
        assert_eq!(check(r#"{"days":"3","city":"Oslo"}"#).unwrap(), r#"{"city":"Oslo","days":3}"#);
        assert_eq!(check(r#"{"city":"Oslo","days":null}"#).unwrap(), r#"{"city":"Oslo","days":null}"#);
        assert_eq!(check("{}").unwrap_err(), "tool args.city is required");
        assert!(tool.spec().input_schema.to_string().contains("as a person would say it"));
    }
}
