//! An attempt of a question to an agent elsewhere, and what is asked about the one before: whether the agent has its task, and
//! that it is to stop.

use std::sync::Arc;

use taskreel::peer::{Delegation, PeerAnswer, PeerError, PeerErrorKind, PeerFound, RecalledTask};

use crate::a2a::client::card::Card;
use crate::a2a::client::error::{A2aError, ErrorKind};
use crate::a2a::client::line::pause;
use crate::a2a::client::request::{ListQuery, SendRequest};
use crate::a2a::client::work::Client;
use crate::a2a::model::Event;
use crate::a2a::remote::follow::DelegationFollower;
use crate::a2a::remote::line::{AgentTransport, passes};
use crate::a2a::remote::messages::{answer_in, message_of};
use crate::a2a::remote::start::{StartedTask, start};

/// Carries out an attempt: takes the task up that the agent has, or sends it, and waits for its end.
pub(crate) async fn carried_out(
    way: Arc<AgentTransport>,
    delegation: Delegation,
) -> Result<PeerAnswer, PeerError> {
    if let Some(id) = &delegation.handle {
        return DelegationFollower::new(&way, &delegation, id).run(None).await;
    }
    match start(&way, &delegation).await? {
        StartedTask::Task(id, events) => {
            delegation.accepted(&id).await?;
            DelegationFollower::new(&way, &delegation, &id).run(events).await
        }
        StartedTask::Answered(message) => {
            let client = way.client().await.ok();
            let is_lossless = client.as_ref().and_then(Client::card).is_some_and(Card::is_lossless);
            Ok(answer_in(&message, is_lossless))
        }
    }
}

/// Finds out whether the agent has the task of a lost attempt.
pub(crate) async fn found(way: Arc<AgentTransport>, delegation: Delegation) -> Result<PeerFound, PeerError> {
    let mut failed = 0;
    loop {
        match asked_after(&way, &delegation).await {
            Ok(found) => return Ok(found),
            // The caller has a time limit of its own.
            Err(error) if passes(&error) || matches!(error, A2aError::Card { .. }) => {
                way.record_failure(&error).await;
                failed += 1;
                tokio::time::sleep(pause(failed)).await;
            }
            Err(error) => return Ok(PeerFound::Unsure(error.to_string())),
        }
    }
}

async fn asked_after(way: &AgentTransport, delegation: &Delegation) -> Result<PeerFound, A2aError> {
    let client = way.client().await?;
    let card = client.card();
    if card.is_some_and(Card::sends_once) {
        // Under its key the agent carries it out once: what comes back is the task that it made, whenever that was.
        let message = message_of(&delegation.task, card.is_some_and(Card::is_lossless));
        let request = SendRequest::new(message).idempotency_key(&delegation.idempotency_key);
        return match client.send(&request.returning_immediately()).await? {
            Event::Task(task) => Ok(PeerFound::Accepted(task.id)),
            _ => Ok(PeerFound::Unsure("it answered with no task".to_owned())),
        };
    }
    Ok(match listed(&client, &delegation.task.id).await? {
        Some(id) => PeerFound::Accepted(id),
        None => PeerFound::Unsure(
            "it lists no task of this question, and carries out what is sent twice twice".to_owned(),
        ),
    })
}

/// Returns the task in the context of a question, which is the question's alone.
async fn listed(client: &Client, context: &str) -> Result<Option<String>, A2aError> {
    let page = client.list(&ListQuery::new().context(context)).await?;
    // Agents that do not know the filter list other tasks too.
    Ok(page.tasks.into_iter().find(|task| task.context_id == context).map(|task| task.id))
}

/// Has the agent stop its work on a task.
pub(crate) async fn recalled(way: Arc<AgentTransport>, recalled: RecalledTask) -> Result<(), PeerError> {
    let id = match recalled.handle.clone() {
        Some(id) => Some(id),
        None => way.sent(&recalled.task_id).await,
    };
    let canceled = async {
        let client = way.client().await?;
        let id = match id {
            Some(id) => Some(id),
            None => listed(&client, &recalled.task_id).await?,
        };
        match id {
            Some(id) => client.cancel(&id).await.map(|_| true),
            None => Ok(false),
        }
    };
    match canceled.await {
        Ok(true) => Ok(()),
        Ok(false) => Err(way.failed(PeerErrorKind::NotFound, "it has no such task")),
        Err(error) => match error.kind() {
            Some(ErrorKind::TaskNotCancelable) => Ok(()),
            Some(ErrorKind::TaskNotFound) => Err(way.failed(PeerErrorKind::NotFound, &error)),
            // The cancel is tried again, as that of a task that is not known yet.
            _ if passes(&error) => Err(way.failed(PeerErrorKind::NotFound, &error)),
            _ => Err(way.failed(PeerErrorKind::Failed, &error)),
        },
    }
}
