//! Sending a message: it becomes an ordinary command, on a new task or on one that goes on.

use proto_events::envelope::{Basis, Principal};
use proto_events::id::{Digest, Mint as _, Version, check_id};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{self, PostedTask, TaskState};
use proto_events::task::{Task, TaskCommand};
use taskreel::{Error, LiveFeed, Ports, System, TaskHandle, TaskSnapshot};

use crate::a2a::a2a_request::A2aRequest;
use crate::a2a::events::{Begin, Events};
use crate::a2a::failure::{A2aFailure, FailureKind};
use crate::a2a::mapping::message;
use crate::a2a::mapping::notes::{Notes, RUN};
use crate::a2a::mapping::task::context_of;
use crate::a2a::model::{Event, Message, PushConfig, Role};
use crate::a2a::ops::modes;
use crate::a2a::ops::push;
use crate::a2a::ops::tasks::history;
use crate::a2a::pieces::AnswerPieces;
use crate::a2a::task_projection::{Extent, reply_of, show_now};
use crate::a2a::wire::fields::{Invalid, WireFields};
use crate::a2a::wire::{DataForm, read, write};

/// The most bytes of the key under which a message is sent once.
const KEY_MAX: usize = 200;

/// The beginning of the keys of metadata that are the system's own.
const OWN: &str = "taskreel.";

/// A request to send a message.
struct SendCommand {
    message: Message,
    extent: Extent,
    /// Whether the answer waits until the task is over or waits for its client.
    is_blocking: bool,
    /// The webhook that is told what happens to the task.
    push: Option<PushConfig>,
}

/// A message that was taken.
struct AcceptedMessage {
    task: TaskHandle,
    /// A version that the task's stream has with the message, and had not before.
    from: Version,
    /// The live events of the task since before the message, where the answer is a stream.
    feed: Option<LiveFeed>,
    /// The task at its end, where that was awaited with the message.
    ended: Option<TaskSnapshot>,
}

/// The form in which a message is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResponseMode {
    /// The task, once it has the message.
    Taken,
    /// The task at its end.
    End,
    /// The events that follow.
    Events,
}

impl SendCommand {
    fn read(asking: &A2aRequest, fields: &WireFields) -> Result<Self, A2aFailure> {
        // REST in 0.3 names it after its definition in some SDKs.
        let name = if asking.form == DataForm::Rest03 && fields.get("request").is_some() {
            "request"
        } else {
            "message"
        };
        let json = fields.get(name).ok_or_else(|| fields.wrong(name, "is required"))?;
        let message = read::message(asking.form, json, name)?;
        if message.role == Role::Agent {
            return Err(Invalid::new(format!("{name}.role"), "must be the user's").into());
        }
        modes::check_parts(&asking.settings, &message.parts, name)?;
        let mut sending = Self { message, extent: Extent::ALL, is_blocking: true, push: None };
        let Some(configuration) = fields.inner("configuration")? else { return Ok(sending) };
        modes::check_accepted(&asking.settings, &configuration.texts("acceptedOutputModes")?)?;
        sending.extent.history = history(&configuration)?;
        // 0 is what an SDK of 0.3 writes over REST where its caller names no length.
        if asking.form == DataForm::Rest03 {
            sending.extent.history = sending.extent.history.filter(|shown| *shown > 0);
        }
        sending.is_blocking = match asking.form {
            DataForm::V1 => !configuration.flag("returnImmediately")?.unwrap_or(false),
            // ProtoJSON leaves a false out.
            DataForm::Rest03 => configuration.flag("blocking")?.unwrap_or(false),
            DataForm::V03 => configuration.flag("blocking")?.unwrap_or(true),
        };
        let names = ["taskPushNotificationConfig", "pushNotificationConfig", "pushNotification"];
        if let Some(name) = names.into_iter().find(|name| configuration.get(name).is_some()) {
            let json = configuration.get(name).cloned().unwrap_or_default();
            sending.push = Some(read::push_config(asking.form, &json, &configuration.at(name))?);
        }
        Ok(sending)
    }
}

/// Sends a message, and returns the task, or only the message that answers it.
pub(crate) async fn send(asking: &A2aRequest, fields: &WireFields) -> Result<Event, A2aFailure> {
    let SendCommand { message, extent, is_blocking, push } = SendCommand::read(asking, fields)?;
    let wanted = if is_blocking { ResponseMode::End } else { ResponseMode::Taken };
    let AcceptedMessage { task, ended, .. } = accept(asking, message, push, wanted).await?;
    let snapshot = match ended {
        Some(ended) => ended,
        None if is_blocking => task.finished().await?,
        None => task.snapshot().await?,
    };
    if let Some(reply) = reply_of(snapshot.task()).filter(|_| is_blocking) {
        return Ok(Event::Message(Box::new(reply)));
    }
    Ok(Event::Task(Box::new(show_now(&snapshot, extent))))
}

/// Sends a message, and returns the events that follow: first the task with the message, or only the message that answers it.
pub(crate) async fn stream(asking: &A2aRequest, fields: &WireFields) -> Result<Events, A2aFailure> {
    let SendCommand { message, extent, push, .. } = SendCommand::read(asking, fields)?;
    let AcceptedMessage { task, from, feed, .. } =
        accept(asking, message, push, ResponseMode::Events).await?;
    if let Some(wait) = asking.settings.reply_wait
        && let Ok(ended) = tokio::time::timeout(wait, task.finished()).await
        && let Some(reply) = reply_of(ended?.task())
    {
        return Ok(Events::of_message(&asking.system, &task, reply));
    }
    let events = Events::new(&asking.system, &task, Begin::With(from), true, asking.stopping.clone());
    let events = events.showing(extent);
    Ok(match feed {
        Some(feed) => events.with_pieces(AnswerPieces::new(task, feed, None)),
        None => events,
    })
}

/// Takes a message, whatever happens to the client meanwhile.
async fn accept(
    asking: &A2aRequest,
    message: Message,
    push: Option<PushConfig>,
    wanted: ResponseMode,
) -> Result<AcceptedMessage, A2aFailure> {
    // Nothing is begun where its webhook cannot be told.
    let webhook = push::of_message(asking, push, &message.id).await?;
    if wanted == ResponseMode::End && webhook.is_none() && message.task_id.is_none() && asking.key.is_none() {
        // One command and nothing behind it: a client that goes away before it is sent has begun nothing, and none later.
        return start_task(asking, message, wanted).await;
    }
    let asking = asking.clone();
    let taken = tokio::spawn(async move {
        let Some(id) = message.task_id.clone() else {
            // Its webhook is registered before the end.
            let wanted =
                if webhook.is_some() && wanted == ResponseMode::End { ResponseMode::Taken } else { wanted };
            let sent = start_task(&asking, message, wanted).await?;
            if let Some(webhook) = webhook {
                push::set_of_message(&asking, &sent.task, webhook, true).await?;
            }
            return Ok(sent);
        };
        if let Some(webhook) = webhook {
            let (task, _) = asking.task(&id).await?;
            push::set_of_message(&asking, &task, webhook, false).await?;
        }
        continued(&asking, &id, message, wanted).await
    });
    taken.await.map_err(|error| Error::Internal(error.to_string()))?
}

/// Makes a task of a message.
async fn start_task(
    asking: &A2aRequest,
    message: Message,
    wanted: ResponseMode,
) -> Result<AcceptedMessage, A2aFailure> {
    let mut ports = Ports::default();
    let mut metadata = run_context(&message);
    let (has_run, context) = (!metadata.is_empty(), message.context_id.clone());
    if let Some(context) = &context {
        check_context(asking, context).await?;
        metadata.set("session_id", JsonText::string(context));
    }
    let now = ports.timestamp();
    let mut posted = PostedTask {
        id: format!("task_{}", ports.uuid()),
        state: TaskState::Submitted,
        messages: vec![ours(message, asking.system.needs_prompts(), &now)?],
        artifacts: Vec::new(),
        metadata,
        flow_state: JsonText::empty_object(),
        created_at: Some(now.clone()),
        // What a repetition of the same message gets anew.
        filled_in: vec![now],
        source: None,
    };
    if let Some(key) = asking.key.as_deref() {
        posted.id = format!("task_{}", digest_of(asking.owner(), key)?);
    }
    if has_run {
        check_session(asking, context.as_deref(), &posted).await?;
    }
    // Listened to before the task begins, so that no piece of an answer is missed.
    let task = asking.system.task(&posted.id)?;
    let feed = (wanted == ResponseMode::Events).then(|| task.live());
    let mut ended = None;
    match asking.key.as_deref() {
        Some(key) => drop(once(&asking.system, asking.owner(), key, posted).await?),
        None if wanted == ResponseMode::End => ended = Some(asking.system.try_run(posted).await?),
        None => drop(asking.system.try_submit(posted).await?),
    }
    Ok(AcceptedMessage { task, from: Version(1), feed, ended })
}

/// Returns the run context that an agent sends along which asks this one, as one of Protolink's does in the metadata of a task:
/// its budget, its deadline, and the agents that wait already. What names streams of this log is not taken from outside.
fn run_context(message: &Message) -> JsonObject {
    let notes = Notes::extract(&mut message.metadata.clone());
    let sent = notes.object(RUN).unwrap_or_default();
    sent.iter()
        .filter(|(key, _)| !key.starts_with(OWN))
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .collect()
}

/// Submits a task under a key of the caller's: the same message under the same key is the same task.
async fn once(
    system: &System,
    owner: Option<&Principal>,
    key: &str,
    posted: PostedTask,
) -> Result<TaskHandle, A2aFailure> {
    let digest = digest_of(owner, key)?;
    Ok(system.submit_once(&format!("a2a-{digest}"), posted).await?)
}

/// Returns what a key of a caller's is known by.
fn digest_of(owner: Option<&Principal>, key: &str) -> Result<Digest, Invalid> {
    if key.is_empty() || key.len() > KEY_MAX {
        return Err(Invalid::new("Idempotency-Key", "must have 1 to 200 bytes"));
    }
    let (name, basis) = owner.map_or(("", Basis::default()), |owner| (owner.name.as_str(), owner.basis));
    Ok(Digest::of_parts(&[name.as_bytes(), b"\0", basis.as_str().as_bytes(), b"\0", key.as_bytes()]))
}

/// Refuses a context that cannot be a session, or in which somebody else's tasks are.
async fn check_context(asking: &A2aRequest, context: &str) -> Result<(), A2aFailure> {
    check_id(context).map_err(|error| Invalid::new("message.contextId", error.to_string()))?;
    check_opener(asking, context, "message.contextId").await
}

/// Refuses a run context by which the task would be of a session in which somebody else's tasks are. The run context may name
/// a session too, and the one that it holds inside wins over the context of the message once the run begins.
async fn check_session(
    asking: &A2aRequest,
    context: Option<&str>,
    posted: &PostedTask,
) -> Result<(), A2aFailure> {
    if asking.owner().is_none() {
        return Ok(());
    }
    let attached = model::attach(&posted.metadata, &posted.id, "", None, &mut Ports::default());
    // One that cannot be read is refused with the submission, which reads it in the same way.
    let Ok(attached) = attached else { return Ok(()) };
    let mut metadata = posted.metadata.clone();
    metadata.merge(&attached);
    let session = context_of(&posted.id, &metadata);
    if context == Some(session.as_str()) {
        return Ok(());
    }
    check_opener(asking, &session, "message.metadata").await
}

/// Refuses a session in which somebody else's tasks are; `member` is the one of the request that names it.
async fn check_opener(asking: &A2aRequest, session: &str, member: &str) -> Result<(), A2aFailure> {
    let Some(owner) = asking.owner() else { return Ok(()) };
    match asking.system.conversation_opened_by(session).await? {
        Some(opened_by) if opened_by != *owner => Err(Invalid::new(member, "cannot be used").into()),
        _ => Ok(()),
    }
}

/// Adds a message to a task.
async fn continued(
    asking: &A2aRequest,
    id: &str,
    message: Message,
    wanted: ResponseMode,
) -> Result<AcceptedMessage, A2aFailure> {
    let _taking = match &asking.key {
        Some(_) => asking.settings.taking.lock(id).await,
        None => None,
    };
    let (task, snapshot) = asking.task(id).await?;
    let known = snapshot.task();
    let key = asking.key.as_deref().map(|key| digest_of(asking.owner(), key)).transpose()?;
    let digest = Digest::compute(write::message(DataForm::V1, &message).as_str().as_bytes());
    let key = key.map(|key| (format!("{key}:"), digest));
    if let Some((key, digest)) = &key
        && let Some(sent) =
            known.messages().iter().filter_map(message::key_of).find(|sent| sent.starts_with(key))
    {
        if sent != format!("{key}{digest}") {
            return Err(Invalid::new("Idempotency-Key", "was used with another message").into());
        }
        let feed = (wanted == ResponseMode::Events).then(|| task.live());
        return Ok(AcceptedMessage { feed, task, from: snapshot.version(), ended: None });
    }
    if snapshot.state().is_terminal() {
        let text = format!("the task is {}; it takes no further message", snapshot.state());
        return Err(A2aFailure::new(FailureKind::UnsupportedOperation, text).with("taskId", id));
    }
    if known.awaited_approvals().next().is_some() {
        // A message would begin another run, and the call that waits would be lost.
        let text = "the task waits for an approval, which an operator gives and no message";
        return Err(A2aFailure::new(FailureKind::UnsupportedOperation, text).with("taskId", id));
    }
    if let Some(lost) = known.lost_calls().next().filter(|_| snapshot.state() == TaskState::InputRequired) {
        // A message would begin another run, which would end the task as if that were known.
        let target = &lost.request.target;
        let text = format!(
            "the outcome of the call of {target} is unknown, and a message does not decide it: a person must first record what \
             happened"
        );
        return Err(A2aFailure::new(FailureKind::UnsupportedOperation, text).with("taskId", id));
    }
    let context = context_of(id, known.metadata());
    if message.context_id.as_ref().is_some_and(|named| *named != context) {
        return Err(Invalid::new("message.contextId", "must be the context of the task").into());
    }
    let now = Ports::default().timestamp();
    // The answer to a question is a text; a message to a running task is shown to its model as it is.
    let waits = snapshot.state() == TaskState::InputRequired;
    let asks = waits && known.open_questions().next().is_none() && asking.system.needs_prompts();
    let mut message = ours(message, asks, &now)?;
    if let Some((key, digest)) = key {
        message::set_key(&mut message, format!("{key}{digest}"));
    }
    let acting = match asking.owner() {
        Some(owner) => task.acting_as(owner.clone()),
        None => task.clone(),
    };
    let feed = (wanted == ResponseMode::Events).then(|| task.live());
    if waits {
        // One command: the message is the answer, or begins the next run.
        asking.system.try_submit(with(known, message)).await?;
    } else {
        acting.command(TaskCommand::AppendMessage(message)).await?;
    }
    Ok(AcceptedMessage { task, from: Version(snapshot.version().0 + 1), feed, ended: None })
}

/// Returns a task as it is, with a message more.
fn with(task: &Task, message: model::Message) -> PostedTask {
    PostedTask {
        id: task.id().to_owned(),
        state: task.state(),
        messages: task.messages().iter().cloned().chain([message]).collect(),
        artifacts: task.artifacts().iter().cloned().collect(),
        metadata: task.metadata().clone(),
        flow_state: task.flow_state().clone(),
        created_at: task.created_at().map(str::to_owned),
        filled_in: Vec::new(),
        source: None,
    }
}

/// Returns a message as ours, with its content in the form of its kinds.
fn ours(message: Message, asks: bool, now: &str) -> Result<model::Message, A2aFailure> {
    let mut ours = message::to_ours(message, asks);
    ours.timestamp = ours.timestamp.or_else(|| Some(now.to_owned()));
    let mut ports = Ports::default();
    let read = std::mem::take(&mut ours.parts).into_iter().map(|part| part.hydrated(&mut ports));
    ours.parts = read.collect::<Result<_, _>>().map_err(Error::from)?;
    Ok(ours)
}
