//! A script in the place of agents, for the tests that compare the toolkit with a2a-utils. Not part of the public surface: it has
//! no promise of staying.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::StatusCode;
use proto_events::json::JsonText;
use taskreel::BoxFuture;

use crate::a2a::client::card::Card;
use crate::a2a::client::error::{A2aError, ErrorReply};
use crate::a2a::client::request::SendRequest;
use crate::a2a::model::{Event, Task};
use crate::a2a::toolkit::agents::A2aAgents;
use crate::a2a::toolkit::way::{AgentAt, Asked, Followed, KnownAgent, ToolkitTransport};
use crate::a2a::wire::{DataForm, read};
use crate::client::error::ClientError;

/// A failure that a script tells.
#[derive(Debug, Clone)]
pub enum ScriptedFailure {
    /// The agent answers with an error of JSON-RPC.
    JsonRpc(JsonText),
    /// The server answers with a status and a text.
    Http(u16, String),
    /// No answer comes in time.
    TimedOut,
}

/// The headers that the host set for an agent.
pub type Headers = Vec<(String, String)>;

/// The frames of a stream.
pub type Frames = BoxStream<'static, Result<JsonText, ScriptedFailure>>;

/// A script: answers of A2A 0.3 over JSON-RPC.
pub trait Script: Send + Sync + 'static {
    /// Returns the card at an address.
    fn card(&self, url: &str, headers: &Headers) -> BoxFuture<'static, Result<JsonText, ScriptedFailure>>;

    /// Returns the result of a method.
    fn ask(
        &self,
        method: &str,
        params: JsonText,
        headers: &Headers,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<JsonText, ScriptedFailure>>;

    /// Returns the frames of a stream.
    fn follow(&self, params: JsonText, headers: &Headers, timeout: Duration) -> Frames;
}

/// Returns agents that answer by a script.
pub fn agents_by(agents: A2aAgents, script: Arc<dyn Script>) -> A2aAgents {
    agents.by(Arc::new(ScriptedTransport(script)))
}

/// Reads a task in the form of 0.3.
///
/// # Errors
/// A text if it is not valid.
pub fn task_of_0_3(json: &str) -> Result<Task, String> {
    let json = JsonText::parse(json).map_err(|error| error.to_string())?;
    read::task(DataForm::V03, &json, "").map_err(|wrong| wrong.to_string())
}

struct ScriptedTransport(Arc<dyn Script>);

fn failed(failed: ScriptedFailure) -> A2aError {
    let url = "http://scripted".to_owned();
    match failed {
        ScriptedFailure::JsonRpc(error) => {
            A2aError::Refused { url, reply: Box::new(ErrorReply::read(&error, StatusCode::OK)) }
        }
        ScriptedFailure::Http(status, text) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            ClientError::of_status(&url, status, text.as_bytes()).into()
        }
        ScriptedFailure::TimedOut => ClientError::TimedOut { url, after: Duration::ZERO }.into(),
    }
}

fn unreadable(why: impl std::fmt::Display) -> A2aError {
    A2aError::Answer { url: "http://scripted".to_owned(), why: why.to_string(), task: None }
}

fn about(task_id: &str) -> JsonText {
    let mut params = proto_events::json::JsonObject::new();
    params.set("id", JsonText::string(task_id));
    params.to_text()
}

fn event(json: &JsonText) -> Result<Event, A2aError> {
    read::event(DataForm::V03, json, "").map_err(unreadable)
}

impl ToolkitTransport for ScriptedTransport {
    fn card(&self, at: AgentAt, _: Duration) -> Asked<Card> {
        let headers = if at.card_headers { at.headers.clone() } else { Headers::new() };
        let asked = self.0.card(&at.url, &headers);
        Box::pin(async move { Card::read(&asked.await.map_err(failed)?, &at.url) })
    }

    fn send(&self, agent: &KnownAgent, request: SendRequest, timeout: Duration) -> Asked<Event> {
        let params = request.params(DataForm::V03).to_text();
        let asked = self.0.ask("message/send", params, &agent.at.headers, timeout);
        Box::pin(async move { event(&asked.await.map_err(failed)?) })
    }

    fn get(&self, agent: &KnownAgent, task_id: &str, timeout: Duration) -> Asked<Task> {
        let asked = self.0.ask("tasks/get", about(task_id), &agent.at.headers, timeout);
        Box::pin(async move {
            let json = asked.await.map_err(failed)?;
            read::task(DataForm::V03, &json, "").map_err(unreadable)
        })
    }

    fn cancel(&self, agent: &KnownAgent, task_id: &str, timeout: Duration) -> Asked<Task> {
        let asked = self.0.ask("tasks/cancel", about(task_id), &agent.at.headers, timeout);
        Box::pin(async move {
            let json = asked.await.map_err(failed)?;
            read::task(DataForm::V03, &json, "").map_err(unreadable)
        })
    }

    fn follow(&self, agent: &KnownAgent, task_id: &str, timeout: Duration) -> Asked<Followed> {
        let frames = self.0.follow(about(task_id), &agent.at.headers, timeout);
        let events = frames.map(|frame| frame.map_err(failed).and_then(|json| event(&json)));
        Box::pin(std::future::ready(Ok(events.boxed())))
    }

    fn of_context(&self, _: &KnownAgent, _: &str, _: Duration) -> Asked<Vec<Task>> {
        Box::pin(std::future::ready(Err(A2aError::Request("0.3 lists no tasks".to_owned()))))
    }
}
