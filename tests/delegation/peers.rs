//! Peers made for these tests: what they are sent is written down, what they do is told from outside.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::sync::{Arc, Mutex};

use taskreel::TaskState;
use taskreel::agent::tool::BoxFuture;
use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerError};
use taskreel::proto_events::json::JsonText;
use taskreel::tool::ToolPolicy;
use tokio::sync::Notify;

/// What a [`Noted`] does with what it is sent.
#[derive(Clone)]
pub(crate) enum Does {
    /// Answers.
    Answers(Result<PeerAnswer, PeerError>),
    /// Never answers.
    Hangs,
    /// Answers when it is asked to give up.
    AnswersTooLate(PeerAnswer),
}

/// A peer that writes down what it is sent and what it is asked to give up.
#[derive(Clone)]
pub(crate) struct Noted {
    pub(crate) policy: ToolPolicy,
    pub(crate) does: Does,
    pub(crate) sent: Arc<Mutex<Vec<Delegation>>>,
    /// Tasks that it was asked to give up, and why.
    pub(crate) canceled: Arc<Mutex<Vec<(String, String)>>>,
    pub(crate) was_sent: Arc<Notify>,
    pub(crate) was_canceled: Arc<Notify>,
    /// What `cancel` answers first, before it agrees.
    pub(crate) refusals: Arc<Mutex<Vec<PeerError>>>,
}

impl Noted {
    pub(crate) fn that(does: Does) -> Self {
        Self {
            policy: ToolPolicy::manual(),
            does,
            sent: Arc::default(),
            canceled: Arc::default(),
            was_sent: Arc::default(),
            was_canceled: Arc::default(),
            refusals: Arc::default(),
        }
    }

    /// Answers with this text, finally.
    pub(crate) fn says(text: &str) -> Self {
        let result = JsonText::string(text);
        Self::that(Does::Answers(Ok(PeerAnswer { state: TaskState::Completed, result, broke: None })))
    }

    pub(crate) fn with(mut self, policy: ToolPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Ids of the tasks that came, in order.
    pub(crate) fn tasks(&self) -> Vec<String> {
        self.sent.lock().unwrap().iter().map(|sent| sent.task.id.clone()).collect()
    }
}

impl Peer for Noted {
    fn name(&self) -> &'static str {
        "other"
    }

    fn description(&self) -> &'static str {
        "knows the weather"
    }

    fn skills(&self) -> Vec<String> {
        vec!["forecast".to_owned()]
    }

    fn policy(&self) -> ToolPolicy {
        self.policy.clone()
    }

    fn send(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        self.sent.lock().unwrap().push(delegation);
        self.was_sent.notify_one();
        match self.does.clone() {
            Does::Answers(answer) => Box::pin(std::future::ready(answer)),
            Does::Hangs => Box::pin(std::future::pending()),
            Does::AnswersTooLate(answer) => {
                let canceled = Arc::clone(&self.was_canceled);
                Box::pin(async move {
                    canceled.notified().await;
                    Ok(answer)
                })
            }
        }
    }

    fn cancel(&self, task_id: &str, reason: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        let refusal = self.refusals.lock().unwrap().pop();
        if refusal.is_none() {
            self.canceled.lock().unwrap().push((task_id.to_owned(), reason.to_owned()));
            self.was_canceled.notify_one();
        }
        Box::pin(std::future::ready(refusal.map_or(Ok(()), Err)))
    }
}
