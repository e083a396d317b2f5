//! The operations asked of an agent, and their parameters in the form of each version.

use proto_events::json::{JsonObject, JsonText, JsonValue};

use crate::a2a::model::{Message, PushConfig, State, Task};
use crate::a2a::wire::{CANCELED_03, DataForm, write};

/// A message to send, and how it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendRequest {
    message: Message,
    history_length: Option<u32>,
    returns_immediately: bool,
    output_modes: Vec<String>,
    metadata: JsonObject,
    key: Option<String>,
    push: Option<PushConfig>,
}

impl SendRequest {
    /// Returns the request to send a message, and to answer once the task is over or waits for its client.
    pub fn new(message: Message) -> Self {
        Self {
            message,
            history_length: None,
            returns_immediately: false,
            output_modes: Vec::new(),
            metadata: JsonObject::new(),
            key: None,
            push: None,
        }
    }

    /// Asks for an answer as soon as there is a task.
    #[must_use]
    pub fn returning_immediately(self) -> Self {
        Self { returns_immediately: true, ..self }
    }

    /// Asks for this many messages of the history at most.
    #[must_use]
    pub fn history_length(self, messages: u32) -> Self {
        Self { history_length: Some(messages), ..self }
    }

    /// Names the media types that the answer may have.
    #[must_use]
    pub fn output_modes(self, modes: &[&str]) -> Self {
        Self { output_modes: modes.iter().map(|mode| (*mode).to_owned()).collect(), ..self }
    }

    /// Sets further data of the request.
    #[must_use]
    pub fn metadata(self, metadata: JsonObject) -> Self {
        Self { metadata, ..self }
    }

    /// Sends the message under a key (`Idempotency-Key`), for agents that carry out once what comes twice under one key, as
    /// ours do. Only then it is sent again where its answer is lost.
    #[must_use]
    pub fn idempotency_key(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }

    /// Registers a webhook that is told what happens to the task.
    #[must_use]
    pub fn push_config(self, config: PushConfig) -> Self {
        Self { push: Some(config), ..self }
    }

    /// Returns the key.
    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Returns the task to which the message belongs.
    pub(crate) fn task_id(&self) -> Option<&str> {
        self.message.task_id.as_deref()
    }

    /// Returns the parameters in a form.
    pub(crate) fn params(&self, form: DataForm) -> JsonObject {
        let mut configuration = JsonObject::new();
        if let Some(length) = self.history_length {
            configuration.set("historyLength", JsonText::of_model(&length));
        }
        if !self.output_modes.is_empty() {
            configuration.set("acceptedOutputModes", JsonText::of_model(&self.output_modes));
        }
        let flag = |flag: bool| JsonText::from(JsonValue::from(flag));
        match form {
            DataForm::V1 if self.returns_immediately => configuration.set("returnImmediately", flag(true)),
            DataForm::V1 => {}
            DataForm::V03 | DataForm::Rest03 => {
                configuration.set("blocking", flag(!self.returns_immediately));
            }
        }
        if let Some(config) = &self.push {
            let (name, written) = write::push_config_of_message(form, config);
            configuration.set(name, written);
        }
        let mut params = JsonObject::new();
        params.set("message", write::message(form, &self.message));
        if !configuration.is_empty() {
            params.set("configuration", configuration.to_text());
        }
        if !self.metadata.is_empty() {
            params.set("metadata", self.metadata.to_text());
        }
        params
    }
}

/// The tasks to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListQuery {
    context_id: Option<String>,
    state: Option<State>,
    page_size: Option<u32>,
    page_token: Option<String>,
    history_length: Option<u32>,
    since: Option<String>,
    includes_artifacts: bool,
}

impl ListQuery {
    /// Returns the query for all tasks of the caller.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for the tasks of a context alone.
    #[must_use]
    pub fn context(self, context_id: &str) -> Self {
        Self { context_id: Some(context_id.to_owned()), ..self }
    }

    /// Asks for the tasks in a state alone.
    #[must_use]
    pub fn state(self, state: State) -> Self {
        Self { state: Some(state), ..self }
    }

    /// Sets the most tasks of a page, from 1 to 100.
    #[must_use]
    pub fn page_size(self, tasks: u32) -> Self {
        Self { page_size: Some(tasks), ..self }
    }

    /// Asks for the page that another one names as the next.
    #[must_use]
    pub fn page_token(self, token: &str) -> Self {
        Self { page_token: Some(token.to_owned()), ..self }
    }

    /// Asks for this many messages of each history at most.
    #[must_use]
    pub fn history_length(self, messages: u32) -> Self {
        Self { history_length: Some(messages), ..self }
    }

    /// Asks for the tasks whose state changed after a time, ISO 8601.
    #[must_use]
    pub fn since(self, time: &str) -> Self {
        Self { since: Some(time.to_owned()), ..self }
    }

    /// Asks for the results as well.
    #[must_use]
    pub fn with_artifacts(self) -> Self {
        Self { includes_artifacts: true, ..self }
    }

    /// Returns the parameters in a form.
    pub(crate) fn params(&self, form: DataForm) -> JsonObject {
        let mut params = JsonObject::new();
        let state = self.state.map(|state| match form {
            DataForm::V03 => state.words().1,
            DataForm::Rest03 if state == State::Canceled => CANCELED_03,
            DataForm::V1 | DataForm::Rest03 => state.words().0,
        });
        let since = if form == DataForm::V1 { "statusTimestampAfter" } else { "lastUpdatedAfter" };
        let texts = [
            ("contextId", self.context_id.as_deref()),
            ("status", state),
            ("pageToken", self.page_token.as_deref()),
            (since, self.since.as_deref()),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                params.set(name, JsonText::string(text));
            }
        }
        for (name, number) in [("pageSize", self.page_size), ("historyLength", self.history_length)] {
            if let Some(number) = number {
                params.set(name, JsonText::of_model(&number));
            }
        }
        if self.includes_artifacts {
            params.set("includeArtifacts", JsonText::from(JsonValue::from(true)));
        }
        params
    }
}

/// A page of tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskPage {
    /// The tasks, the one whose state changed last first.
    pub tasks: Vec<Task>,
    /// The token of the next page; `None` on the last one.
    pub next: Option<String>,
    /// The number of tasks on all pages, where the agent says it.
    pub total: Option<u64>,
    /// The most tasks of a page, where the agent says it.
    pub size: Option<u64>,
}

impl TaskPage {
    /// Returns the page in the form of 1.0, in which all four members are always there.
    pub fn to_json(&self) -> JsonText {
        let tasks: Vec<JsonText> = self.tasks.iter().map(Task::to_json).collect();
        let count = |known: Option<u64>| JsonText::of_model(&known.unwrap_or(self.tasks.len() as u64));
        let mut page = JsonObject::new();
        page.set("tasks", JsonText::of_model(&tasks));
        page.set("nextPageToken", JsonText::string(self.next.as_deref().unwrap_or_default()));
        page.set("pageSize", count(self.size));
        page.set("totalSize", count(self.total));
        page.to_text()
    }
}
