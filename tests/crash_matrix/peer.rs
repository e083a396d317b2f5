//! The other agent that the model may ask: it answers, refuses, fails, loses its answer, or never answers, depending on
//! the task that it is sent.

use std::time::Duration;

use proto_events::id::Digest;
use proto_events::json::JsonText;
use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind};
use taskreel::testing::sleep;
use taskreel::tool::ToolPolicy;
use taskreel::{BoxFuture, BudgetUsage, TaskState};

use crate::fuse::Fuse;

/// The other agent.
pub(crate) struct Friend {
    pub(crate) fuse: Fuse,
    pub(crate) mode: &'static str,
}

impl Peer for Friend {
    fn name(&self) -> &'static str {
        "friend"
    }

    fn description(&self) -> &'static str {
        "Knows it"
    }

    fn skills(&self) -> Vec<String> {
        Vec::new()
    }

    fn policy(&self) -> ToolPolicy {
        let policy = match self.mode {
            "manual" => ToolPolicy::manual(),
            "idempotent" => ToolPolicy::idempotent(),
            _ => ToolPolicy::read_only(),
        };
        policy.timeout(Duration::from_secs(2))
    }

    fn send(&self, asked: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        self.fuse.at("Peer::send");
        let mood = Digest::compute(asked.task.id.as_bytes()).0;
        Box::pin(async move {
            sleep(Duration::from_millis(u64::from(mood[0]) * 4)).await;
            let fails = |kind| Err(PeerError::new(kind, "the friend is away"));
            match mood[1] % 12 {
                0 => fails(PeerErrorKind::Refused),
                1 => fails(PeerErrorKind::Unreachable),
                2 => fails(PeerErrorKind::Failed),
                3 => fails(PeerErrorKind::Lost),
                4 => std::future::pending().await,
                _ => Ok(PeerAnswer {
                    state: TaskState::Completed,
                    result: JsonText::string("the friend knows it"),
                    error: None,
                    used: BudgetUsage::default(),
                }),
            }
        })
    }

    fn cancel(&self, _: &str, _: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        self.fuse.at("Peer::cancel");
        Box::pin(std::future::ready(Ok(())))
    }
}
