//! A question as a request of HTTP in an interface's binding and version, and the reading of its answer.

use http::{HeaderName, HeaderValue, Method};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use proto_events::id::Mint as _;
use proto_events::json::{JsonObject, JsonText};
use taskreel::Ports;

use crate::a2a::client::card::{Binding, Interface};
use crate::a2a::client::error::{A2aError, ErrorReply};
use crate::a2a::ops::operation::A2aOperation;
use crate::a2a::version::{HEADER, Version};
use crate::a2a::wire::DataForm;
use crate::a2a::wire::read::task_named;
use crate::client::error::ClientError;
use crate::client::exchange::{Exchange, WholeAnswer};

/// The characters of an id that stand in a path as they are.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A question.
#[derive(Debug, Clone)]
pub(crate) struct AgentQuestion {
    pub(crate) operation: A2aOperation,
    /// The parameters, without the id of the task.
    pub(crate) params: JsonObject,
    /// The task that the operation is about.
    pub(crate) task: Option<String>,
    /// The registration of a webhook that it is about.
    pub(crate) config: Option<String>,
    /// The key under which a message is sent once.
    pub(crate) key: Option<String>,
    /// The event after which a stream continues.
    pub(crate) after: Option<String>,
}

impl AgentQuestion {
    /// Returns a question about a task.
    pub(crate) fn about(operation: A2aOperation, task: &str) -> Self {
        Self { task: Some(task.to_owned()), ..Self::with(operation, JsonObject::new()) }
    }

    /// Returns a question with parameters.
    pub(crate) fn with(operation: A2aOperation, params: JsonObject) -> Self {
        Self { operation, params, task: None, config: None, key: None, after: None }
    }

    /// Whether it may be asked again where its answer is lost.
    pub(crate) fn may_repeat(&self) -> bool {
        match self.operation {
            A2aOperation::Get
            | A2aOperation::List
            | A2aOperation::Subscribe
            | A2aOperation::ExtendedCard
            | A2aOperation::GetPush
            | A2aOperation::ListPush
            | A2aOperation::DeletePush => true,
            A2aOperation::Send | A2aOperation::SendStream => self.key.is_some(),
            // Under its id it is the same registration.
            A2aOperation::CreatePush => self.config.is_some(),
            A2aOperation::Cancel => false,
        }
    }
}

/// A question, written: the request, and the id under which JSON-RPC answers it.
#[derive(Debug)]
pub(crate) struct WrittenQuestion {
    pub(crate) exchange: Exchange,
    pub(crate) id: Option<String>,
    /// Whether the answer may be empty.
    may_be_empty: bool,
}

impl Interface {
    /// Returns the form of the data.
    pub(crate) fn form(&self) -> DataForm {
        match (self.version, self.binding) {
            (Version::V1, _) => DataForm::V1,
            (Version::V03, Binding::JsonRpc) => DataForm::V03,
            (Version::V03, Binding::HttpJson) => DataForm::Rest03,
        }
    }

    /// Writes a question.
    ///
    /// # Errors
    /// [`A2aError::Request`] if it cannot be asked so.
    pub(crate) fn written(
        &self,
        asked: &AgentQuestion,
        more: &[(HeaderName, HeaderValue)],
    ) -> Result<WrittenQuestion, A2aError> {
        let headers = self.headers(asked, more)?;
        match self.binding {
            Binding::JsonRpc => self.over_rpc(asked, headers),
            Binding::HttpJson => self.over_rest(asked, headers),
        }
    }

    fn headers(
        &self,
        asked: &AgentQuestion,
        more: &[(HeaderName, HeaderValue)],
    ) -> Result<Vec<(HeaderName, HeaderValue)>, A2aError> {
        let version = match self.version {
            Version::V1 => "1.0",
            Version::V03 => "0.3",
        };
        let mut headers = vec![(HeaderName::from_static(HEADER), HeaderValue::from_static(version))];
        headers.extend_from_slice(more);
        let own = [("idempotency-key", asked.key.as_deref()), ("last-event-id", asked.after.as_deref())];
        for (name, value) in own {
            let Some(value) = value else { continue };
            let wrong = |_| A2aError::Request(format!("the value of `{name}` cannot stand in a header"));
            headers.push((HeaderName::from_static(name), HeaderValue::from_str(value).map_err(wrong)?));
        }
        Ok(headers)
    }

    fn over_rpc(
        &self,
        asked: &AgentQuestion,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<WrittenQuestion, A2aError> {
        let is_1 = self.version == Version::V1;
        if !is_1 && asked.operation == A2aOperation::List {
            return Err(A2aError::Request("0.3 lists no tasks over JSON-RPC".to_owned()));
        }
        let mut params = asked.params.clone();
        let is_of_1 = asked.operation.is_of_webhooks() && is_1;
        let (task, config) = if is_of_1 { ("taskId", "id") } else { ("id", "pushNotificationConfigId") };
        // What registers a webhook names both within itself.
        if asked.operation != A2aOperation::CreatePush {
            let named = [(task, &asked.task), (config, &asked.config)];
            for (name, value) in named.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
                params.set(name, JsonText::string(value));
            }
        }
        if let Some(tenant) = self.tenant.as_ref().filter(|_| is_1) {
            params.set("tenant", JsonText::string(tenant));
        }
        let id = Ports::default().uuid();
        let mut body = JsonObject::new();
        body.set("jsonrpc", JsonText::string("2.0"));
        body.set("id", JsonText::string(&id));
        body.set("method", JsonText::string(asked.operation.method(is_1)));
        body.set("params", params.to_text());
        let (url, body) = (self.url.clone(), Some(body.to_text()));
        let exchange = Exchange { method: Method::POST, url, query: Vec::new(), headers, body };
        Ok(WrittenQuestion {
            exchange,
            id: Some(id),
            may_be_empty: asked.operation == A2aOperation::DeletePush,
        })
    }

    fn over_rest(
        &self,
        asked: &AgentQuestion,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<WrittenQuestion, A2aError> {
        let is_1 = self.version == Version::V1;
        let (method, path) = match asked.operation {
            A2aOperation::Send => (Method::POST, "/message:send".to_owned()),
            A2aOperation::SendStream => (Method::POST, "/message:stream".to_owned()),
            A2aOperation::List => (Method::GET, "/tasks".to_owned()),
            A2aOperation::Get => (Method::GET, format!("/tasks/{}", segment(asked)?)),
            A2aOperation::Cancel => (Method::POST, format!("/tasks/{}:cancel", segment(asked)?)),
            // The SDKs of 0.3 serve the one, the official clients of 1.0 send the other.
            A2aOperation::Subscribe if is_1 => {
                (Method::POST, format!("/tasks/{}:subscribe", segment(asked)?))
            }
            A2aOperation::Subscribe => (Method::GET, format!("/tasks/{}:subscribe", segment(asked)?)),
            A2aOperation::ExtendedCard if is_1 => (Method::GET, "/extendedAgentCard".to_owned()),
            A2aOperation::ExtendedCard => (Method::GET, "/card".to_owned()),
            A2aOperation::CreatePush => (Method::POST, configs(asked)?),
            A2aOperation::ListPush => (Method::GET, configs(asked)?),
            A2aOperation::GetPush => (Method::GET, config(asked)?),
            A2aOperation::DeletePush => (Method::DELETE, config(asked)?),
        };
        let tenant = self.tenant.as_ref().filter(|_| is_1);
        let tenant = tenant.map(|tenant| format!("/{}", utf8_percent_encode(tenant, IN_PATH)));
        let at = if is_1 { tenant.unwrap_or_default() } else { "/v1".to_owned() };
        let url = format!("{}{at}{path}", self.url.trim_end_matches('/'));
        let (mut query, mut body) = (Vec::new(), None);
        if method == Method::POST {
            body = Some(asked.params.to_text());
        } else {
            let text = |value: &JsonText| value.to_str().unwrap_or_else(|| value.as_str().to_owned());
            query.extend(asked.params.iter().map(|(name, value)| (name.to_owned(), text(value))));
        }
        let may_be_empty = asked.operation == A2aOperation::DeletePush;
        Ok(WrittenQuestion {
            exchange: Exchange { method, url, query, headers, body },
            id: None,
            may_be_empty,
        })
    }
}

/// Returns the task's id as a part of a path.
fn segment(asked: &AgentQuestion) -> Result<String, A2aError> {
    part_of_path(asked.task.as_deref(), "the id of the task is none")
}

fn part_of_path(id: Option<&str>, wrong: &str) -> Result<String, A2aError> {
    match id {
        None | Some("" | "." | "..") => Err(A2aError::Request(wrong.to_owned())),
        Some(id) => Ok(utf8_percent_encode(id, IN_PATH).to_string()),
    }
}

/// Returns the path of a task's webhooks.
fn configs(asked: &AgentQuestion) -> Result<String, A2aError> {
    Ok(format!("/tasks/{}/pushNotificationConfigs", segment(asked)?))
}

/// Returns the path of a webhook.
fn config(asked: &AgentQuestion) -> Result<String, A2aError> {
    let id = part_of_path(asked.config.as_deref(), "the id of the registration is none")?;
    Ok(format!("{}/{id}", configs(asked)?))
}

/// Returns the error of an answer that cannot be read.
pub(crate) fn unreadable(url: &str, why: impl std::fmt::Display) -> A2aError {
    A2aError::Answer { url: url.to_owned(), why: why.to_string(), task: None }
}

/// Returns the error of JSON that cannot be read, with the id of the task that it is about: the sender of the message looks at
/// that task, and does not send it again.
pub(crate) fn misread(url: &str, why: impl std::fmt::Display, json: &JsonText) -> A2aError {
    let task = task_named(json);
    let why = match &task {
        Some(id) => format!("{why}; it is about the task `{id}`, which can be asked for"),
        None => why.to_string(),
    };
    A2aError::Answer { url: url.to_owned(), why, task }
}

/// Returns the JSON of an answer.
pub(crate) fn json(url: &str, body: &[u8]) -> Result<JsonText, A2aError> {
    let text = std::str::from_utf8(body).map_err(|error| unreadable(url, error))?;
    JsonText::parse(text).map_err(|error| unreadable(url, error))
}

impl WrittenQuestion {
    /// Returns the result in a whole answer.
    ///
    /// # Errors
    /// [`A2aError::Refused`] if the agent answers with an error, others if it is not an answer.
    pub(crate) fn result(&self, answered: &WholeAnswer) -> Result<JsonText, A2aError> {
        let WholeAnswer { status, body, .. } = answered;
        let url = &self.exchange.url;
        let failed = || A2aError::from(ClientError::of_status(url, *status, body));
        if self.may_be_empty && status.is_success() && body.is_empty() {
            return Ok(JsonText::null());
        }
        let read = json(url, body);
        if !status.is_success() {
            let json = read.map_err(|_| failed())?;
            let fields: JsonObject = json.read().map_err(|_| failed())?;
            let error = fields.get("error").filter(|error| !error.is_null());
            // SDKs of 0.3 have the words alone, and others the form of problem details.
            let has_words = ["message", "detail", "title"].iter().any(|name| fields.get(name).is_some());
            let error = error.or(has_words.then_some(&json)).ok_or_else(failed)?;
            return Err(refused(url, error, *status));
        }
        self.unwrapped(&read?, *status)
    }

    /// Returns the result in a frame of a stream, or in an answer.
    pub(crate) fn unwrapped(&self, json: &JsonText, status: http::StatusCode) -> Result<JsonText, A2aError> {
        let url = &self.exchange.url;
        let fields: Result<JsonObject, _> = json.read();
        let fields = fields.map_err(|_| unreadable(url, "it must be an object"))?;
        if let Some(error) = fields.get("error").filter(|error| !error.is_null()) {
            return Err(refused(url, error, status));
        }
        let Some(id) = &self.id else { return Ok(json.clone()) };
        // HTTP says to which request an answer belongs: an id that is left out says nothing else.
        let named = fields.get("id").filter(|named| !named.is_null());
        if named.is_some_and(|named| named.to_str().as_ref() != Some(id)) {
            return Err(misread(url, "its id is another than that of the request", json));
        }
        let none = self.may_be_empty.then(JsonText::null);
        fields
            .get("result")
            .cloned()
            .or(none)
            .ok_or_else(|| unreadable(url, "it has neither a result nor an error"))
    }
}

fn refused(url: &str, error: &JsonText, status: http::StatusCode) -> A2aError {
    A2aError::Refused { url: url.to_owned(), reply: Box::new(ErrorReply::read(error, status)) }
}
