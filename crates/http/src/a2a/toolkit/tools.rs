//! The six tools: each takes its arguments and answers as JSON, an error too, since a model acts on both.

use std::sync::Arc;
use std::time::Duration;

use proto_events::json::{JsonMap, JsonValue as Value};
use taskreel_log::artifacts::{
    ArtifactSettings, ColumnSelection, DataSelection, KeyCase, RowSelection, TextSelection,
};

use crate::a2a::toolkit::agent_texts::AgentDetail;
use crate::a2a::toolkit::agents::A2aAgents;
use crate::a2a::toolkit::answers::{self, ToolWork};
use crate::a2a::toolkit::arguments::Arguments;
use crate::a2a::toolkit::error::SessionError;
use crate::a2a::toolkit::session::{A2aSession, OutgoingMessage, SessionAnswer, SessionTask, blocking};
use crate::a2a::toolkit::words::{listed, quoted};

/// The six tools of a session, for a model. [`A2aBuilder::a2a_tools`](crate::a2a::A2aBuilder::a2a_tools) registers them;
/// [`A2aTools::call`] calls one without a system.
///
/// ```no_run
/// use proto_events::json;
/// use taskreel_http::a2a::{A2aAgents, A2aTools};
///
/// # async fn run() {
/// let tools = A2aTools::from(A2aAgents::new().agent("weather", "http://127.0.0.1:8000"));
/// let asked = json!({"agent_id": "weather", "message": "Coat in Oslo?"});
/// println!("{}", tools.call("send_message", &asked).await);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct A2aTools {
    session: A2aSession,
    settings: ArtifactSettings,
    case: KeyCase,
    pub(crate) call_timeout: Option<Duration>,
}

impl From<A2aAgents> for A2aTools {
    fn from(agents: A2aAgents) -> Self {
        Self::new(A2aSession::new(agents))
    }
}

impl From<A2aSession> for A2aTools {
    fn from(session: A2aSession) -> Self {
        Self::new(session)
    }
}

impl A2aTools {
    /// Returns the tools of a session, with a2a-utils' limits.
    pub fn new(session: A2aSession) -> Self {
        Self { session, settings: ArtifactSettings::default(), case: KeyCase::Snake, call_timeout: None }
    }

    /// Sets the limits of what is shown of artifacts.
    #[must_use]
    pub fn settings(self, settings: ArtifactSettings) -> Self {
        Self { settings, ..self }
    }

    /// Sets the spelling of the parameters in the tools' schemas and of the keys in results. Arguments are read in both.
    #[must_use]
    pub fn keys(self, case: KeyCase) -> Self {
        Self { case, ..self }
    }

    /// Sets the longest time of one call, 120 s by default. A wait that a model asks for ends a little before.
    #[must_use]
    pub fn call_timeout(self, timeout: Duration) -> Self {
        Self { call_timeout: Some(timeout), ..self }
    }

    /// Returns the session.
    pub fn session(&self) -> &A2aSession {
        &self.session
    }

    pub(crate) fn case(&self) -> KeyCase {
        self.case
    }

    /// Calls a tool by its name. The result is what a model reads; an error is an object with `error` and `error_message`.
    pub async fn call(&self, tool: &str, args: &Value) -> Value {
        self.call_as(tool, args, &RecordedCall::default()).await
    }

    /// Calls a tool, with what only a recorded call knows.
    pub(crate) async fn call_as(&self, tool: &str, args: &Value, sending: &RecordedCall) -> Value {
        let args = Arguments(args);
        match tool {
            "get_agents" => self.get_agents().await,
            "get_agent" => self.get_agent(&args).await,
            "send_message" => match self.send_message(&args, sending).await {
                Ok(answer) => self.shown(answer).await,
                Err(error) => answers::refused(&error, ToolWork::Sending),
            },
            "get_task" => match self.get_task(&args, sending).await {
                Ok(told) => self.shown(SessionAnswer::Task(Box::new(told))).await,
                Err(error) => answers::refused(&error, ToolWork::Asking),
            },
            "view_text_artifact" => match self.view_text(&args).await {
                Ok(shown) => shown,
                Err(error) => answers::refused(&error, ToolWork::ViewingText),
            },
            "view_data_artifact" => match self.view_data(&args).await {
                Ok(shown) => shown,
                Err(error) => answers::refused(&error, ToolWork::ViewingData),
            },
            other => answers::error(format!("There is no tool '{}'.", quoted(other))),
        }
    }

    async fn get_agents(&self) -> Value {
        let agents = self.session.agents();
        let shown = agents.get_agents_for_llm(AgentDetail::Basic).await;
        let errors = agents.initialization_errors();
        let is_known = |id: &str| shown.get(id).is_some();
        let errors: JsonMap = errors
            .into_iter()
            .filter(|(id, _)| !is_known(id))
            .map(|(id, error)| (id, Value::from(format!("Failed to load agent: {error}"))))
            .collect();
        if errors.is_empty() {
            return shown;
        }
        JsonMap::from_iter([("agents", shown), ("errors", errors.into())]).into()
    }

    async fn get_agent(&self, args: &Arguments<'_>) -> Value {
        let id = match args.needed("agent_id") {
            Ok(id) => id,
            Err(error) => return answers::refused(&error, ToolWork::ShowingAgent),
        };
        let agents = self.session.agents();
        if let Some(shown) = agents.get_agent_for_llm(id, AgentDetail::Full).await {
            return shown;
        }
        let available = agents.ids().await;
        let available = if available.is_empty() { "(none)".to_owned() } else { listed(&available) };
        let id = quoted(id);
        answers::error(format!(
            "Agent '{id}' not found. Use get_agents to see available agents. Available: {available}"
        ))
    }

    async fn send_message(
        &self,
        args: &Arguments<'_>,
        sending: &RecordedCall,
    ) -> Result<SessionAnswer, SessionError> {
        let agent_id = args.needed("agent_id")?;
        let mut message = OutgoingMessage::new(args.needed("message")?);
        message.context_id =
            args.text("context_id")?.map(str::to_owned).or_else(|| sending.context_id.clone());
        message.task_id = args.text("task_id")?.map(str::to_owned);
        message.message_id.clone_from(&sending.message_id);
        message.timeout = sending.bounded(args.seconds("timeout")?);
        message.data = args.objects("data")?;
        message.files = args.texts("files")?;
        self.session.send(agent_id, message).await
    }

    pub(crate) async fn get_task(
        &self,
        args: &Arguments<'_>,
        sending: &RecordedCall,
    ) -> Result<SessionTask, SessionError> {
        let (agent_id, task_id) = (args.needed("agent_id")?, args.needed("task_id")?);
        let timeout = sending.bounded(args.seconds("timeout")?);
        self.session.get(agent_id, task_id, timeout, args.seconds("poll_interval")?).await
    }

    /// Returns an answer as a model reads it. Summaries of large ones take long, so they are made beside.
    pub(crate) async fn shown(&self, answer: SessionAnswer) -> Value {
        let (settings, case) = (self.settings, self.case);
        let shown = blocking(move || Ok(answers::answer(&answer, &settings, case))).await;
        shown.unwrap_or_else(|error| answers::error(error.to_string()))
    }

    async fn view_text(&self, args: &Arguments<'_>) -> Result<Value, SessionError> {
        let selection = TextSelection {
            line_start: args.integer("line_start")?,
            line_end: args.integer("line_end")?,
            character_start: args.integer("character_start")?,
            character_end: args.integer("character_end")?,
        };
        let (agent, task, artifact) = ids(args)?;
        let limit = self.settings.view_artifact_character_limit();
        let shown = self.session.view_text_artifact(agent, task, artifact, selection, limit).await?;
        Ok(shown.to_json(self.case))
    }

    async fn view_data(&self, args: &Arguments<'_>) -> Result<Value, SessionError> {
        let (json_path, columns) = (args.text("json_path")?, args.text("columns")?);
        let selection = DataSelection {
            json_path: json_path.map(str::to_owned),
            rows: args.text("rows")?.map(rows).transpose()?,
            columns: columns.map(ColumnSelection::from_text),
        };
        let (agent, task, artifact) = ids(args)?;
        let limit = self.settings.view_artifact_character_limit();
        let shown = self.session.view_data_artifact(agent, task, artifact, selection, limit).await?;
        Ok(shown.to_json(self.case))
    }
}

fn ids<'a>(args: &Arguments<'a>) -> Result<(&'a str, &'a str, &'a str), SessionError> {
    Ok((args.needed("agent_id")?, args.needed("task_id")?, args.needed("artifact_id")?))
}

/// Reads the rows that a model asks for.
fn rows(text: &str) -> Result<RowSelection, SessionError> {
    let text = text.trim();
    let selection = RowSelection::from_text(text);
    let is_list = text.contains(',');
    let is_wrong =
        matches!(&selection, RowSelection::Text(text) if text != "all" && (is_list || !text.contains('-')));
    if is_wrong { Err(SessionError::Rows { rows: text.to_owned(), is_list }) } else { Ok(selection) }
}

/// The knowledge of a recorded call besides its arguments.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordedCall {
    /// The id of the message that it sends.
    pub(crate) message_id: Option<String>,
    /// The conversation that it begins.
    pub(crate) context_id: Option<String>,
    /// The longest time that it may wait.
    pub(crate) at_most: Option<Duration>,
}

impl RecordedCall {
    fn bounded(&self, timeout: Option<Duration>) -> Option<Duration> {
        match (timeout, self.at_most) {
            (Some(timeout), Some(most)) => Some(timeout.min(most)),
            (timeout, _) => timeout,
        }
    }
}

/// Tools that are shared by what calls them.
pub(crate) type SharedTools = Arc<A2aTools>;
