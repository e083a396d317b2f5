//! An agent elsewhere, as one that a system may ask: at an address, or by its name in a registry.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use http::StatusCode;
use proto_events::json::JsonObject;
use proto_events::model::{AgentCard, BudgetUsage, PostedTask, TaskCancellationRequest};
use taskreel::BoxFuture;
use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind};
use taskreel::tool::ToolPolicy;

use crate::client::error::ClientError;
use crate::client::transport::Client;
use crate::limits::{DISCOVERY_KEPT, REPEAT_FIRST, REPEAT_LONGEST};
use crate::registry::filter::AgentFilter;

/// An agent that is reached over HTTP, for `Builder::peer` of a system. A question to it is a recorded call like any
/// other: its intent, with the whole task, is on disk before the task is sent.
///
/// Its policy is Manual: Protolink carries out a task that comes twice twice, so that one whose answer is lost is not
/// sent again, and its outcome is unknown. For a server that answers a known task with its first answer, as ours does,
/// say [`Remote::answers_again`].
#[derive(Debug, Clone)]
pub struct Remote {
    inner: Arc<Inner>,
    policy: ToolPolicy,
}

#[derive(Debug)]
struct Inner {
    client: Client,
    card: AgentCard,
    /// The registry that is asked for the agent's address; `None` if the card's holds.
    registry: Option<String>,
    /// The address that the registry named last.
    found: Mutex<Option<(String, Instant)>>,
}

impl Remote {
    /// Returns the agent of this card, at the address that stands there.
    pub fn with_card(client: &Client, card: AgentCard) -> Self {
        Self::new(client, card, None)
    }

    fn new(client: &Client, card: AgentCard, registry: Option<&str>) -> Self {
        let found = Mutex::new(Some((card.url.clone(), Instant::now())));
        let registry = registry.map(str::to_owned);
        let inner = Inner { client: client.clone(), card, registry, found };
        let timeout = client.bounds().1;
        Self { inner: Arc::new(inner), policy: ToolPolicy::manual().timeout(timeout).declared_by("peer") }
    }

    /// Returns the agent at an address, with the card that it shows there.
    ///
    /// # Errors
    /// [`ClientError`] if it shows none.
    pub async fn at(client: &Client, agent_url: &str) -> Result<Self, ClientError> {
        let card = client.get_agent_card(agent_url).await?;
        // The card may name an address that is another one from where it stands.
        Ok(Self::with_card(client, AgentCard { url: agent_url.to_owned(), ..card }))
    }

    /// Returns the agent of this name: one that begins with `http://`, `https://`, `ws://` or `wss://` is an address, any
    /// other stands in the registry, which is asked again where the agent has moved.
    ///
    /// # Errors
    /// [`ClientError::UnknownAgent`] if the registry knows none of this name; other errors of the requests.
    pub async fn find(client: &Client, registry_url: &str, name: &str) -> Result<Self, ClientError> {
        if is_address(name) {
            return Self::at(client, name).await;
        }
        Self::named(client, registry_url, name).await
    }

    /// Returns the agent of this name in a registry.
    pub(crate) async fn named(client: &Client, registry_url: &str, name: &str) -> Result<Self, ClientError> {
        let card = named(client, registry_url, name).await?;
        Ok(Self::new(client, card, Some(registry_url)))
    }

    /// Returns the agents of a registry that fit the filter.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn discover(
        client: &Client,
        registry_url: &str,
        filter: &AgentFilter,
    ) -> Result<Vec<Self>, ClientError> {
        let cards = client.discover(registry_url, filter).await?;
        Ok(cards.into_iter().map(|card| Self::new(client, card, Some(registry_url))).collect())
    }

    /// Replaces the policy, for example to set another timeout.
    #[must_use]
    pub fn with_policy(self, policy: ToolPolicy) -> Self {
        Self { policy, ..self }
    }

    /// Says that the server answers a task that it knows with its first answer, as ours does: a task whose answer is
    /// lost is sent again, and waited for where it still runs.
    #[must_use]
    pub fn answers_again(self) -> Self {
        let policy = ToolPolicy::idempotent().timeout(self.policy.get_timeout()).declared_by("peer");
        self.with_policy(policy)
    }
}

/// Whether a name is an address, as Protolink tells them apart.
fn is_address(name: &str) -> bool {
    ["http://", "https://", "ws://", "wss://"].iter().any(|scheme| name.starts_with(scheme))
}

/// Returns the card of the agent of this name in a registry: the first one where several bear it.
async fn named(client: &Client, registry_url: &str, name: &str) -> Result<AgentCard, ClientError> {
    let found = client.discover(registry_url, &AgentFilter::new().name(name)).await?;
    let unknown = || ClientError::UnknownAgent { registry: registry_url.to_owned(), name: name.to_owned() };
    found.into_iter().next().ok_or_else(unknown)
}

impl Inner {
    /// Returns the agent's address: as the registry says, which is asked again after a while.
    async fn address(&self) -> Result<String, ClientError> {
        let Some(registry) = &self.registry else { return Ok(self.card.url.clone()) };
        let known = self.lock_address().clone();
        if let Some((url, at)) = known
            && at.elapsed() < DISCOVERY_KEPT
        {
            return Ok(url);
        }
        let card = named(&self.client, registry, &self.card.name).await?;
        *self.lock_address() = Some((card.url.clone(), Instant::now()));
        Ok(card.url)
    }

    /// Sends a task. Where the agent is not at its address any more, the registry is asked once more.
    async fn send(
        &self,
        task: &PostedTask,
        may_repeat: bool,
    ) -> Result<(PostedTask, BudgetUsage), ClientError> {
        let mut wait = REPEAT_FIRST;
        let mut has_moved = false;
        loop {
            let url = self.address().await?;
            match self.client.send_task_used(&url, task).await {
                Err(ClientError::Unreachable { .. }) if self.registry.is_some() && !has_moved => {
                    has_moved = true;
                    *self.lock_address() = None;
                }
                // It works on this task since an earlier attempt: its answer is that of this one.
                Err(error) if may_repeat && error.code().as_deref() == Some("already_running") => {
                    tokio::time::sleep(wait).await;
                    wait = wait.saturating_mul(2).min(REPEAT_LONGEST);
                }
                done => return done,
            }
        }
    }

    /// Ignores poisoning: the address is whole between any two steps.
    fn lock_address(&self) -> MutexGuard<'_, Option<(String, Instant)>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peer for Remote {
    fn name(&self) -> &str {
        &self.inner.card.name
    }

    fn description(&self) -> &str {
        &self.inner.card.description
    }

    fn skills(&self) -> Vec<String> {
        self.inner.card.skills.iter().map(|skill| skill.id.clone()).collect()
    }

    fn card(&self) -> Option<AgentCard> {
        Some(self.inner.card.clone())
    }

    fn policy(&self) -> ToolPolicy {
        self.policy.clone()
    }

    fn send(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        let inner = Arc::clone(&self.inner);
        let may_repeat = self.policy.recovery() == proto_events::call::Recovery::Idempotent;
        Box::pin(async move {
            let Delegation { task, attempt, .. } = delegation;
            let answer = inner.send(&task, may_repeat).await;
            answer
                .map(|(task, used)| PeerAnswer::of_posted(&task).with_usage(used))
                .map_err(|error| not_answered(&error, attempt))
        })
    }

    fn cancel(&self, task_id: &str, reason: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        let inner = Arc::clone(&self.inner);
        let request = TaskCancellationRequest::new(task_id, Some(reason), JsonObject::new());
        Box::pin(async move {
            let failed = |kind, text: String| PeerError::new(kind, text);
            let request = request.map_err(|error| failed(PeerErrorKind::Refused, error.to_string()))?;
            let url =
                inner.address().await.map_err(|error| failed(PeerErrorKind::Failed, error.to_string()))?;
            match inner.client.cancel_task(&url, &request).await {
                Ok(_) => Ok(()),
                Err(error) if error.code().as_deref() == Some("not_cancelable") => Ok(()),
                // Protolink's word for it.
                Err(ClientError::Refused { kind, .. }) if kind == "TaskNotCancelableError" => Ok(()),
                Err(error) => Err(failed(not_canceled(&error), error.to_string())),
            }
        })
    }
}

/// Returns the kind of failure of a cancel. Protolink answers 500 for a task that it does not know and for one that is
/// over.
fn not_canceled(error: &ClientError) -> PeerErrorKind {
    match error {
        ClientError::Status { status, .. }
            if matches!(*status, StatusCode::NOT_FOUND | StatusCode::INTERNAL_SERVER_ERROR) =>
        {
            PeerErrorKind::NotFound
        }
        ClientError::Refused { kind, .. } if kind == "TaskNotFoundError" => PeerErrorKind::NotFound,
        _ => PeerErrorKind::Failed,
    }
}

/// Returns the error of a task that was not answered. The effect of an earlier attempt is unknown, so only a first attempt
/// certainly had none.
fn not_answered(error: &ClientError, attempt: u32) -> PeerError {
    let is_first = attempt == 1;
    let kind = match error {
        ClientError::Status { status, .. } => match *status {
            // It works on this very task.
            StatusCode::CONFLICT if error.code().as_deref() == Some("already_running") => PeerErrorKind::Lost,
            StatusCode::CONFLICT => PeerErrorKind::Failed,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
                if is_first && error.is_before_effect() =>
            {
                PeerErrorKind::Unreachable
            }
            StatusCode::REQUEST_TIMEOUT => PeerErrorKind::Lost,
            status if status.is_client_error() && is_first => PeerErrorKind::Refused,
            // Protolink's only answer to a task whose agent raised.
            StatusCode::INTERNAL_SERVER_ERROR => PeerErrorKind::Failed,
            _ => PeerErrorKind::Lost,
        },
        ClientError::Refused { code, .. } => match code.as_deref() {
            // Without a code it is Protolink's only answer to a task whose agent raised.
            None | Some("conflict" | "command_id_reused" | "other_session") => PeerErrorKind::Failed,
            Some("already_running") => PeerErrorKind::Lost,
            Some("overloaded" | "stopped" | "poisoned") if is_first => PeerErrorKind::Unreachable,
            Some(_) if error.is_before_effect() && is_first => PeerErrorKind::Refused,
            Some(_) => PeerErrorKind::Lost,
        },
        error if error.is_before_effect() && is_first => PeerErrorKind::Unreachable,
        _ => PeerErrorKind::Lost,
    };
    PeerError::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, body: &str) -> ClientError {
        ClientError::of_status("http://h", StatusCode::from_u16(status).unwrap(), body.as_bytes())
    }

    #[test]
    fn only_an_answer_that_nothing_was_done_lets_a_task_count_as_not_sent() {
        let unreachable = || ClientError::Unreachable { url: String::new(), why: String::new() };
        let late = || ClientError::TimedOut { url: String::new(), after: DISCOVERY_KEPT };
        let closed = || ClientError::Closed { url: String::new(), why: String::new() };
        let refused = |code: Option<&str>| ClientError::Refused {
            url: String::new(),
            kind: String::new(),
            message: String::new(),
            code: code.map(str::to_owned),
        };
        let running = r#"{"error":{"code":"already_running","message":"m"}}"#;
        for (error, first, again) in [
            (unreachable(), PeerErrorKind::Unreachable, PeerErrorKind::Lost),
            (late(), PeerErrorKind::Lost, PeerErrorKind::Lost),
            (status(400, ""), PeerErrorKind::Refused, PeerErrorKind::Lost),
            (status(401, ""), PeerErrorKind::Refused, PeerErrorKind::Lost),
            (status(408, ""), PeerErrorKind::Lost, PeerErrorKind::Lost),
            (status(409, running), PeerErrorKind::Lost, PeerErrorKind::Lost),
            (status(409, "{}"), PeerErrorKind::Failed, PeerErrorKind::Failed),
            (status(429, ""), PeerErrorKind::Unreachable, PeerErrorKind::Lost),
            (status(500, "Internal Server Error"), PeerErrorKind::Failed, PeerErrorKind::Failed),
            (status(502, ""), PeerErrorKind::Lost, PeerErrorKind::Lost),
            (status(503, ""), PeerErrorKind::Unreachable, PeerErrorKind::Lost),
            (
                status(503, r#"{"error":{"code":"time_limit","message":"m"}}"#),
                PeerErrorKind::Lost,
                PeerErrorKind::Lost,
            ),
            (refused(None), PeerErrorKind::Failed, PeerErrorKind::Failed),
            (refused(Some("malformed")), PeerErrorKind::Refused, PeerErrorKind::Lost),
            (refused(Some("overloaded")), PeerErrorKind::Unreachable, PeerErrorKind::Lost),
            (refused(Some("already_running")), PeerErrorKind::Lost, PeerErrorKind::Lost),
            (refused(Some("in_doubt")), PeerErrorKind::Lost, PeerErrorKind::Lost),
            (closed(), PeerErrorKind::Lost, PeerErrorKind::Lost),
        ] {
            assert_eq!(
                (not_answered(&error, 1).kind(), not_answered(&error, 2).kind()),
                (first, again),
                "{error}"
            );
        }
    }

    #[test]
    fn a_name_is_an_address_where_protolink_takes_it_for_one() {
        for address in ["http://h", "https://h", "ws://h", "wss://h"] {
            assert!(is_address(address));
        }
        assert!(!is_address("desk") && !is_address("httpd"));
    }
}
