//! A2A's data as the messages of answers.

use a2a_pb::{proto, protojson};
use prost::Message as _;
use proto_events::json::JsonText;

use crate::a2a::card::RESUME;
use crate::a2a::failure::{A2aFailure, FailureKind};
use crate::a2a::grpc::values;
use crate::a2a::model::{
    Artifact, ArtifactUpdate, Content, Event, Message, Part, PushConfig, Role, State, Status, StatusUpdate,
    Task,
};
use crate::a2a::ops::operation::OperationOutcome;
use crate::a2a::wire::fields::WireFields;
use crate::a2a::wire::{DataForm, read};

/// Returns the answer to a message: the task, or a message alone.
pub(crate) fn sent(outcome: OperationOutcome) -> Result<proto::SendMessageResponse, A2aFailure> {
    use proto::send_message_response::Payload;
    let payload = match outcome {
        OperationOutcome::Sent(Event::Task(one)) => Payload::Task(task(&one)),
        OperationOutcome::Sent(Event::Message(one)) => Payload::Message(message(&one)),
        _ => return Err(of_another()),
    };
    Ok(proto::SendMessageResponse { payload: Some(payload) })
}

/// Returns a task that an operation answered.
pub(crate) fn one_task(outcome: OperationOutcome) -> Result<proto::Task, A2aFailure> {
    if let OperationOutcome::Task(one) = outcome { Ok(task(&one)) } else { Err(of_another()) }
}

/// Returns the value that an operation answered.
fn value_of(outcome: OperationOutcome) -> Result<JsonText, A2aFailure> {
    if let OperationOutcome::Json(json) = outcome { Ok(json) } else { Err(of_another()) }
}

fn of_another() -> A2aFailure {
    A2aFailure::new(FailureKind::Internal, "the operation was answered as another one is")
}

/// Returns a page of tasks.
pub(crate) fn page(outcome: OperationOutcome) -> Result<proto::ListTasksResponse, A2aFailure> {
    let fields = WireFields::new(&value_of(outcome)?, "result")?;
    let tasks = fields.items("tasks", |json, path| read::task(DataForm::V1, json, path))?;
    let number = |name: &str| {
        let number = fields.number(name)?.unwrap_or_default();
        Ok::<_, A2aFailure>(i32::try_from(number).unwrap_or(i32::MAX))
    };
    Ok(proto::ListTasksResponse {
        tasks: tasks.iter().map(task).collect(),
        next_page_token: fields.word("nextPageToken")?.unwrap_or_default(),
        page_size: number("pageSize")?,
        total_size: number("totalSize")?,
    })
}

/// Returns a card. What only 0.3 reads of it is left out.
pub(crate) fn card(outcome: OperationOutcome) -> Result<proto::AgentCard, A2aFailure> {
    let wrong =
        |error: &dyn std::fmt::Display| A2aFailure::new(FailureKind::Internal, format!("the card: {error}"));
    let json = value_of(outcome)?;
    let read: protojson::AgentCard = serde_json::from_str(json.as_str()).map_err(|error| wrong(&error))?;
    // The two are the same message, generated with and without its JSON.
    proto::AgentCard::decode(read.encode_to_vec().as_slice()).map_err(|error| wrong(&error))
}

/// Returns the registration of a webhook.
pub(crate) fn push(outcome: OperationOutcome) -> Result<proto::TaskPushNotificationConfig, A2aFailure> {
    Ok(of_push(read::push_config(DataForm::V1, &value_of(outcome)?, "result")?))
}

/// Returns the registrations of a task.
pub(crate) fn pushes(
    outcome: OperationOutcome,
) -> Result<proto::ListTaskPushNotificationConfigsResponse, A2aFailure> {
    let fields = WireFields::new(&value_of(outcome)?, "result")?;
    let configs = fields.items("configs", |json, path| read::push_config(DataForm::V1, json, path))?;
    Ok(proto::ListTaskPushNotificationConfigsResponse {
        configs: configs.into_iter().map(of_push).collect(),
        next_page_token: fields.word("nextPageToken")?.unwrap_or_default(),
    })
}

fn of_push(config: PushConfig) -> proto::TaskPushNotificationConfig {
    let authentication = config.authentication.map(|(scheme, credentials)| proto::AuthenticationInfo {
        scheme,
        credentials: credentials.unwrap_or_default(),
    });
    proto::TaskPushNotificationConfig {
        tenant: String::new(),
        id: config.id,
        task_id: config.task_id,
        url: config.url,
        token: config.token.unwrap_or_default(),
        authentication,
    }
}

/// Returns an event of a stream. Its place stands in its metadata: gRPC has no other place for it.
pub(crate) fn event(event: &Event, place: Option<&str>) -> proto::StreamResponse {
    use proto::stream_response::Payload;
    let mut payload = match event {
        Event::Task(one) => Payload::Task(task(one)),
        Event::Message(one) => Payload::Message(message(one)),
        Event::Status(one) => Payload::StatusUpdate(status_update(one)),
        Event::Artifact(one) => Payload::ArtifactUpdate(artifact_update(one)),
    };
    if let Some(place) = place {
        let metadata = match &mut payload {
            Payload::Task(one) => &mut one.metadata,
            Payload::Message(one) => &mut one.metadata,
            Payload::StatusUpdate(one) => &mut one.metadata,
            Payload::ArtifactUpdate(one) => &mut one.metadata,
        };
        let place = values::value(&JsonText::string(place));
        metadata.get_or_insert_default().fields.insert(RESUME.to_owned(), place);
    }
    proto::StreamResponse { payload: Some(payload) }
}

/// Returns a task.
pub(crate) fn task(task: &Task) -> proto::Task {
    proto::Task {
        id: task.id.clone(),
        context_id: task.context_id.clone(),
        status: Some(status(&task.status)),
        artifacts: task.artifacts.iter().flatten().map(artifact).collect(),
        history: task.history.iter().map(message).collect(),
        metadata: values::object(&task.metadata),
    }
}

/// Returns a message.
pub(crate) fn message(message: &Message) -> proto::Message {
    let role = match message.role {
        Role::User => proto::Role::User,
        Role::Agent => proto::Role::Agent,
    };
    proto::Message {
        message_id: message.id.clone(),
        context_id: message.context_id.clone().unwrap_or_default(),
        task_id: message.task_id.clone().unwrap_or_default(),
        role: role.into(),
        parts: message.parts.iter().map(part).collect(),
        metadata: values::object(&message.metadata),
        extensions: message.extensions.clone(),
        reference_task_ids: message.references.clone(),
    }
}

fn part(part: &Part) -> proto::Part {
    use proto::part::Content as To;
    let content = match &part.content {
        Content::Text(text) => To::Text(text.clone()),
        Content::Raw(raw) => To::Raw(values::bytes(raw)),
        Content::Url(url) => To::Url(url.clone()),
        Content::Data(data) => To::Data(values::value(data)),
    };
    proto::Part {
        content: Some(content),
        metadata: values::object(&part.metadata),
        filename: part.filename.clone().unwrap_or_default(),
        media_type: part.media_type.clone().unwrap_or_default(),
    }
}

fn artifact(artifact: &Artifact) -> proto::Artifact {
    proto::Artifact {
        artifact_id: artifact.id.clone(),
        name: artifact.name.clone().unwrap_or_default(),
        description: artifact.description.clone().unwrap_or_default(),
        parts: artifact.parts.iter().map(part).collect(),
        metadata: values::object(&artifact.metadata),
        extensions: artifact.extensions.clone(),
    }
}

fn status(status: &Status) -> proto::TaskStatus {
    proto::TaskStatus {
        state: state(status.state).into(),
        message: status.message.as_ref().map(message),
        timestamp: status.timestamp.as_deref().and_then(values::time),
    }
}

const fn state(state: State) -> proto::TaskState {
    match state {
        State::Unspecified => proto::TaskState::Unspecified,
        State::Submitted => proto::TaskState::Submitted,
        State::Working => proto::TaskState::Working,
        State::Completed => proto::TaskState::Completed,
        State::Failed => proto::TaskState::Failed,
        State::Canceled => proto::TaskState::Canceled,
        State::InputRequired => proto::TaskState::InputRequired,
        State::Rejected => proto::TaskState::Rejected,
        State::AuthRequired => proto::TaskState::AuthRequired,
    }
}

fn status_update(update: &StatusUpdate) -> proto::TaskStatusUpdateEvent {
    proto::TaskStatusUpdateEvent {
        task_id: update.task_id.clone(),
        context_id: update.context_id.clone(),
        status: Some(status(&update.status)),
        metadata: values::object(&update.metadata),
    }
}

fn artifact_update(update: &ArtifactUpdate) -> proto::TaskArtifactUpdateEvent {
    proto::TaskArtifactUpdateEvent {
        task_id: update.task_id.clone(),
        context_id: update.context_id.clone(),
        artifact: Some(artifact(&update.artifact)),
        append: update.append,
        last_chunk: update.last_chunk,
        metadata: values::object(&update.metadata),
    }
}
