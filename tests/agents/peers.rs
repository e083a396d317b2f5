//! Peers for these tests: they record what they are sent, and a test sets their behaviour.
#![allow(clippy::unwrap_used, reason = "helpers of tests only")]
#![allow(dead_code, reason = "no test file uses all of it")]

use std::sync::{Arc, Mutex};

use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerError};
use taskreel::proto_events::json::JsonText;
use taskreel::tool::{BoxFuture, ToolPolicy};
use taskreel::{BudgetUsage, TaskState};
use tokio::sync::Notify;

/// The behaviour of a [`Noted`].
#[derive(Clone)]
pub(crate) enum Does {
    /// Replies.
    Answers(Result<PeerAnswer, PeerError>),
    /// Never replies.
    Hangs,
    /// Replies when it is asked to give up.
    AnswersTooLate(PeerAnswer),
}

/// A peer that records the tasks it is sent and asked to give up.
#[derive(Clone)]
pub(crate) struct Noted {
    pub(crate) policy: ToolPolicy,
    pub(crate) does: Does,
    pub(crate) sent: Arc<Mutex<Vec<Delegation>>>,
    /// The tasks that it was asked to give up, and why.
    pub(crate) canceled: Arc<Mutex<Vec<(String, String)>>>,
    pub(crate) was_sent: Arc<Notify>,
    pub(crate) was_canceled: Arc<Notify>,
    /// The first replies of `cancel`, before it agrees.
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

    /// Returns a peer that replies with this text.
    pub(crate) fn says(text: &str) -> Self {
        let result = JsonText::string(text);
        Self::that(Does::Answers(Ok(PeerAnswer {
            state: TaskState::Completed,
            result,
            error: None,
            used: BudgetUsage::default(),
        })))
    }

    pub(crate) fn with(mut self, policy: ToolPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Returns the ids of the received tasks, in order.
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
