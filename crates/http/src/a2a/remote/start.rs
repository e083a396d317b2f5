//! The sending of a task to an agent elsewhere. It goes on when the attempt that began it is given up: the id that the agent
//! gives the task is needed to cancel it.

use std::sync::Arc;

use taskreel::peer::{Delegation, PeerError, PeerErrorKind};
use tokio::sync::{oneshot, watch};

use crate::a2a::client::error::{A2aError, ErrorKind};
use crate::a2a::client::request::SendRequest;
use crate::a2a::client::stream::{EventStream, StreamItem};
use crate::a2a::client::work::Client;
use crate::a2a::model::{Event, Message};
use crate::a2a::remote::line::{AgentTransport, passes};
use crate::a2a::remote::messages::message_of;
use crate::client::error::ClientError;

/// The agent's first answer to a task that it was sent.
pub(crate) enum StartedTask {
    /// A task with this id; its events follow where the agent streams.
    Task(String, Option<EventStream>),
    /// A message alone, which is the answer.
    Answered(Box<Message>),
}

/// Sends the task of a question, and returns what the agent made of it.
///
/// # Errors
/// [`PeerError`].
pub(crate) async fn start(
    way: &Arc<AgentTransport>,
    delegation: &Delegation,
) -> Result<StartedTask, PeerError> {
    let (tell, told) = oneshot::channel();
    let known = way.sends(&delegation.task.id);
    let (own, question) = (Arc::clone(way), delegation.clone());
    tokio::spawn(async move {
        let begun = sent(&own, &question, &known).await;
        // The attempt may have been given up; the id is told all the same.
        let _heard = tell.send(begun);
    });
    let begun = told.await.map_err(|_| way.failed(PeerErrorKind::Lost, "the sending was cut off"))?;
    match begun {
        Ok(begun) => Ok(begun),
        Err(error) => {
            way.record_failure(&error).await;
            Err(way.failed(not_sent(&error, delegation.attempt), &error))
        }
    }
}

async fn sent(
    way: &AgentTransport,
    delegation: &Delegation,
    known: &watch::Sender<Option<String>>,
) -> Result<StartedTask, A2aError> {
    let client = way.client().await?;
    let card = client.card();
    let (is_lossless, once) = card.map_or((false, false), |card| (card.is_lossless(), card.sends_once()));
    let request = SendRequest::new(message_of(&delegation.task, is_lossless));
    let request = if once { request.idempotency_key(&delegation.idempotency_key) } else { request };
    let begun = if card.is_some_and(|card| card.streaming) {
        streamed(&client, &request).await
    } else {
        client.send(&request.returning_immediately()).await.and_then(|event| match event {
            Event::Task(task) => Ok(StartedTask::Task(task.id, None)),
            Event::Message(message) => Ok(StartedTask::Answered(message)),
            other => Err(client.unreadable(format_args!("{other:?} begins no task"))),
        })
    };
    let begun = match begun {
        // The agent has the task: it is looked at, and not sent again. Where that cannot be read either, nobody knows what
        // became of it.
        Err(A2aError::Answer { url, why, task: Some(id) }) => match client.get(&id, Some(0)).await {
            Err(error) if !passes(&error) => return Err(A2aError::Answer { url, why, task: Some(id) }),
            _ => StartedTask::Task(id, None),
        },
        begun => begun?,
    };
    if let StartedTask::Task(id, _) = &begun {
        known.send_replace(Some(id.clone()));
    }
    Ok(begun)
}

/// Sends a task, and returns its events behind the first one that names it.
async fn streamed(client: &Client, request: &SendRequest) -> Result<StartedTask, A2aError> {
    let mut events = client.stream(request).await?;
    loop {
        let item = events.next().await.ok_or_else(|| client.unreadable("the stream is empty"))??;
        let event = match item {
            StreamItem::Event(event) => event,
            StreamItem::Gap(gap) => return Ok(StartedTask::Task(gap.task.id, Some(events))),
        };
        match event {
            Event::Message(message) if message.task_id.is_none() => {
                return Ok(StartedTask::Answered(message));
            }
            event => {
                if let Some(id) = event.task_id() {
                    return Ok(StartedTask::Task(id.to_owned(), Some(events)));
                }
            }
        }
    }
}

/// Returns the kind of the failure to send a task. What an earlier attempt did is not known, so only a first one certainly
/// sent nothing.
pub(crate) fn not_sent(error: &A2aError, attempt: u32) -> PeerErrorKind {
    let kind = match error {
        A2aError::Card { .. } | A2aError::Credentials { .. } => PeerErrorKind::Unreachable,
        A2aError::Request(_) => PeerErrorKind::Refused,
        A2aError::Answer { .. } | A2aError::Observer(_) => PeerErrorKind::Lost,
        A2aError::Transport(error) => match error {
            ClientError::Status { status, .. } if status.as_u16() == 408 => PeerErrorKind::Lost,
            ClientError::Status { status, .. } if status.is_client_error() && status.as_u16() != 429 => {
                PeerErrorKind::Refused
            }
            error if error.is_before_effect() => PeerErrorKind::Unreachable,
            _ => PeerErrorKind::Lost,
        },
        A2aError::Refused { reply, .. } => match reply.kind {
            ErrorKind::Overloaded | ErrorKind::Unavailable => PeerErrorKind::Unreachable,
            // The agent has begun to work on it.
            ErrorKind::Internal | ErrorKind::InvalidAgentResponse | ErrorKind::Other => PeerErrorKind::Failed,
            _ => PeerErrorKind::Refused,
        },
    };
    match kind {
        PeerErrorKind::Unreachable | PeerErrorKind::Refused if attempt > 1 => PeerErrorKind::Lost,
        kind => kind,
    }
}
