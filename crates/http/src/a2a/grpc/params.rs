//! The messages of calls as the parameters of operations. What a field must be is checked where every binding's parameters are.

use a2a_pb::proto::{self, part::Content};
use prost_types::Struct;
use proto_events::json::JsonText;

use crate::a2a::grpc::values;
use crate::a2a::wire::fields::Invalid;
use crate::a2a::wire::write::Members;

/// A message of a call that is an operation's parameters.
pub(crate) trait Params {
    /// Returns the parameters.
    ///
    /// # Errors
    /// [`Invalid`] for a value that JSON does not have.
    fn params(&self) -> Result<JsonText, Invalid>;
}

impl Params for proto::SendMessageRequest {
    fn params(&self) -> Result<JsonText, Invalid> {
        let mut members =
            with_object(word(Members::default(), "tenant", &self.tenant), self.metadata.as_ref(), "")?;
        if let Some(said) = &self.message {
            members = members.json("message", message(said, "message")?);
        }
        if let Some(configuration) = &self.configuration {
            members = members.json("configuration", of_configuration(configuration));
        }
        Ok(members.end())
    }
}

impl Params for proto::GetTaskRequest {
    fn params(&self) -> Result<JsonText, Invalid> {
        let members = word(word(Members::default(), "tenant", &self.tenant), "id", &self.id);
        Ok(number(members, "historyLength", self.history_length).end())
    }
}

impl Params for proto::ListTasksRequest {
    fn params(&self) -> Result<JsonText, Invalid> {
        let members = word(Members::default(), "tenant", &self.tenant);
        let members = word(members, "contextId", &self.context_id);
        let members = word(members, "pageToken", &self.page_token);
        // Some clients send each number, and zero for the one that they do not set.
        let size = self.page_size.filter(|size| *size != 0);
        let members = number(members, "pageSize", size);
        let members = number(members, "historyLength", self.history_length);
        let members = if self.status == 0 { members } else { members.text("status", state(self.status)) };
        let members = match &self.status_timestamp_after {
            Some(time) => members.text("statusTimestampAfter", &values::iso(time, "statusTimestampAfter")?),
            None => members,
        };
        Ok(match self.include_artifacts {
            Some(flag) => members.flag("includeArtifacts", flag),
            None => members,
        }
        .end())
    }
}

impl Params for proto::CancelTaskRequest {
    fn params(&self) -> Result<JsonText, Invalid> {
        let members = word(word(Members::default(), "tenant", &self.tenant), "id", &self.id);
        Ok(with_object(members, self.metadata.as_ref(), "")?.end())
    }
}

impl Params for proto::SubscribeToTaskRequest {
    fn params(&self) -> Result<JsonText, Invalid> {
        Ok(word(word(Members::default(), "tenant", &self.tenant), "id", &self.id).end())
    }
}

impl Params for proto::GetExtendedAgentCardRequest {
    fn params(&self) -> Result<JsonText, Invalid> {
        Ok(word(Members::default(), "tenant", &self.tenant).end())
    }
}

impl Params for proto::TaskPushNotificationConfig {
    fn params(&self) -> Result<JsonText, Invalid> {
        Ok(of_push(self))
    }
}

impl Params for proto::GetTaskPushNotificationConfigRequest {
    fn params(&self) -> Result<JsonText, Invalid> {
        Ok(of_named(&self.tenant, &self.task_id, &self.id))
    }
}

impl Params for proto::DeleteTaskPushNotificationConfigRequest {
    fn params(&self) -> Result<JsonText, Invalid> {
        Ok(of_named(&self.tenant, &self.task_id, &self.id))
    }
}

impl Params for proto::ListTaskPushNotificationConfigsRequest {
    fn params(&self) -> Result<JsonText, Invalid> {
        let members = word(word(Members::default(), "tenant", &self.tenant), "taskId", &self.task_id);
        let size = Some(self.page_size).filter(|size| *size != 0);
        Ok(word(number(members, "pageSize", size), "pageToken", &self.page_token).end())
    }
}

fn of_named(tenant: &str, task: &str, id: &str) -> JsonText {
    let members = word(Members::default(), "tenant", tenant);
    word(word(members, "taskId", task), "id", id).end()
}

fn of_push(config: &proto::TaskPushNotificationConfig) -> JsonText {
    let members = word(Members::default(), "tenant", &config.tenant);
    let members = word(word(members, "id", &config.id), "taskId", &config.task_id);
    let members = word(word(members, "url", &config.url), "token", &config.token);
    match &config.authentication {
        Some(named) => {
            let named =
                word(word(Members::default(), "scheme", &named.scheme), "credentials", &named.credentials);
            members.json("authentication", named.end())
        }
        None => members,
    }
    .end()
}

fn of_configuration(configuration: &proto::SendMessageConfiguration) -> JsonText {
    let members = Members::default()
        .texts("acceptedOutputModes", &configuration.accepted_output_modes)
        .flag("returnImmediately", configuration.return_immediately);
    let members = number(members, "historyLength", configuration.history_length);
    match &configuration.task_push_notification_config {
        Some(config) => members.json("taskPushNotificationConfig", of_push(config)),
        None => members,
    }
    .end()
}

/// Returns a message.
pub(crate) fn message(said: &proto::Message, path: &str) -> Result<JsonText, Invalid> {
    let role = proto::Role::try_from(said.role).unwrap_or_default().as_str_name();
    let parts = said.parts.iter().enumerate().map(|(at, one)| part(one, &format!("{path}.parts[{at}]")));
    let members = word(Members::default(), "messageId", &said.message_id);
    let members = word(word(members, "contextId", &said.context_id), "taskId", &said.task_id);
    let members =
        members.text("role", role).json("parts", JsonText::of_model(&parts.collect::<Result<Vec<_>, _>>()?));
    let members = with_object(members, said.metadata.as_ref(), path)?;
    Ok(members
        .texts("extensions", &said.extensions)
        .texts("referenceTaskIds", &said.reference_task_ids)
        .end())
}

fn part(one: &proto::Part, path: &str) -> Result<JsonText, Invalid> {
    let members = match &one.content {
        // What is missing is told where every binding's parts are checked.
        None => Members::default(),
        Some(Content::Text(text)) => Members::default().text("text", text),
        Some(Content::Raw(raw)) => Members::default().text("raw", &values::base64(raw)),
        Some(Content::Url(url)) => Members::default().text("url", url),
        Some(Content::Data(data)) => {
            Members::default().json("data", values::json(data, &format!("{path}.data"))?)
        }
    };
    let members = with_object(members, one.metadata.as_ref(), path)?;
    Ok(word(word(members, "filename", &one.filename), "mediaType", &one.media_type).end())
}

/// Returns the name of a state; a name that no state has for an unknown number.
fn state(number: i32) -> &'static str {
    proto::TaskState::try_from(number).map_or("none", |state| state.as_str_name())
}

fn word(members: Members, name: &str, text: &str) -> Members {
    if text.is_empty() { members } else { members.text(name, text) }
}

fn number(members: Members, name: &str, number: Option<i32>) -> Members {
    match number {
        Some(number) => members.json(name, JsonText::of_model(&number)),
        None => members,
    }
}

fn with_object(members: Members, metadata: Option<&Struct>, path: &str) -> Result<Members, Invalid> {
    let Some(fields) = metadata else { return Ok(members) };
    let path = if path.is_empty() { "metadata".to_owned() } else { format!("{path}.metadata") };
    Ok(members.json("metadata", values::json_object(fields, &path)?))
}
