//! The wait for the end of a task that an agent elsewhere has: by its events where it streams, else by asking. The connection may
//! break and the agent be away meanwhile; the wait ends with the attempt's own time.

use taskreel::peer::{Delegation, PeerAnswer, PeerError, PeerErrorKind};

use crate::a2a::client::card::Card;
use crate::a2a::client::error::{A2aError, ErrorKind};
use crate::a2a::client::line::pause;
use crate::a2a::client::request::SendRequest;
use crate::a2a::client::stream::{EventStream, StreamItem};
use crate::a2a::client::work::Client;
use crate::a2a::model::{State, Task};
use crate::a2a::remote::line::{AgentTransport, passes};
use crate::a2a::remote::messages::{answer_of, answer_to, words_of};

/// The following of a task.
pub(crate) struct DelegationFollower<'a> {
    pub(crate) way: &'a AgentTransport,
    pub(crate) delegation: &'a Delegation,
    /// The id that the agent gave the task.
    pub(crate) id: &'a str,
    /// The failures since the agent answered last.
    failed: u32,
    /// The number of times in a row that the task was asked for and had not ended.
    asked: u32,
    /// Whether this attempt has sent the answer to the agent's question, or found it there.
    has_answered: bool,
}

impl<'a> DelegationFollower<'a> {
    pub(crate) fn new(way: &'a AgentTransport, delegation: &'a Delegation, id: &'a str) -> Self {
        Self { way, delegation, id, failed: 0, asked: 0, has_answered: false }
    }

    /// Waits for the end of the task, or until it asks something that is not answered yet.
    ///
    /// # Errors
    /// [`PeerError`], of the kind asks for a question.
    pub(crate) async fn run(mut self, mut events: Option<EventStream>) -> Result<PeerAnswer, PeerError> {
        loop {
            if let Some(events) = events.take() {
                until_it_rests(events).await;
            }
            let Some((client, task)) = self.looked().await? else { continue };
            let status = &task.status;
            if status.state == State::Rejected {
                return Err(PeerError::new(PeerErrorKind::Refused, words_of(&self.way.name, status)));
            }
            if status.state.is_terminal() {
                return Ok(answer_of(task, client.card().is_some_and(Card::is_lossless)));
            }
            if status.state.is_interrupted() {
                self.answered(&client, &task).await?;
                continue;
            }
            events = self.events(&client).await;
        }
    }

    /// Returns the task as it is; `None` where the agent could not be asked, after a pause.
    async fn looked(&mut self) -> Result<Option<(Client, Task)>, PeerError> {
        let looked = async {
            let client = self.way.client().await?;
            let task = client.get(self.id, None).await?;
            Ok((client, task))
        };
        match looked.await {
            Ok(found) => {
                self.failed = 0;
                Ok(Some(found))
            }
            Err(error) => {
                self.way.record_failure(&error).await;
                let is_card = matches!(error, A2aError::Card { .. });
                if !is_card && !passes(&error) {
                    return Err(self.way.failed(not_followed(&error), &error));
                }
                self.failed = self.failed.saturating_add(1);
                tracing::debug!(agent = self.way.name, task = self.id, %error, "an agent could not be asked");
                tokio::time::sleep(pause(self.failed)).await;
                Ok(None)
            }
        }
    }

    /// Returns the events that follow; `None` where the agent does not stream them, after a pause.
    async fn events(&mut self, client: &Client) -> Option<EventStream> {
        if client.card().is_none_or(|card| card.streaming)
            && let Ok(events) = client.subscribe(self.id).await
        {
            // A stream that ends at once again and again is not a reason to ask at once again and again.
            if self.asked > 0 {
                tokio::time::sleep(pause(self.asked)).await;
            }
            self.asked = self.asked.saturating_add(1);
            return Some(events);
        }
        self.asked = self.asked.saturating_add(1);
        tokio::time::sleep(pause(self.asked)).await;
        None
    }

    /// Sends the answer to the agent's question, if there is one that the agent does not have.
    async fn answered(&mut self, client: &Client, task: &Task) -> Result<(), PeerError> {
        let asks = words_of(&self.way.name, &task.status);
        let asks = || PeerError::new(PeerErrorKind::Asks, asks.clone());
        let Delegation { questions, idempotency_key, task: own, .. } = self.delegation;
        let Some((message, number)) = answer_to(&own.id, questions) else { return Err(asks()) };
        // What it asks now is another question than the one that was answered.
        let is_other = questions.last().is_none_or(|asked| asked.question != asks().to_string());
        let is_there = task.history.iter().any(|known| known.id == message.id);
        if self.has_answered || is_other || is_there {
            return Err(asks());
        }
        let once = client.card().is_some_and(Card::sends_once);
        let message = message.for_task(self.id).in_context(&task.context_id);
        let request = SendRequest::new(message);
        let request = if once {
            request.idempotency_key(&format!("{idempotency_key}:answer:{number}"))
        } else {
            request
        };
        match client.send(&request).await {
            Ok(_) => self.has_answered = true,
            Err(error) if passes(&error) => {
                // Without a key it is not sent again: the task shows whether it has arrived.
                self.has_answered = !once;
                self.failed = self.failed.saturating_add(1);
                tokio::time::sleep(pause(self.failed)).await;
            }
            Err(error) if error.kind() == Some(ErrorKind::UnsupportedOperation) => self.has_answered = true,
            Err(error) => return Err(self.way.failed(not_followed(&error), &error)),
        }
        Ok(())
    }
}

/// Waits until a stream tells that its task is over or waits for its client, or until the stream breaks.
async fn until_it_rests(mut events: EventStream) {
    while let Some(Ok(item)) = events.next().await {
        let state = match &item {
            StreamItem::Event(event) => event.state(),
            StreamItem::Gap(gap) => Some(gap.task.status.state),
        };
        if state.is_some_and(|state| state.is_terminal() || state.is_interrupted()) {
            return;
        }
    }
}

/// Returns the kind of the failure to follow a task that the agent has taken.
fn not_followed(error: &A2aError) -> PeerErrorKind {
    match error {
        A2aError::Request(_) => PeerErrorKind::Refused,
        _ => PeerErrorKind::Failed,
    }
}
