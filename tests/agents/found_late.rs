//! Requests to another agent whose time is up before that agent has told the id of its task: the agent is asked for it once, and
//! the next attempt takes the task up.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::call::CallKind;
use proto_events::json;
use proto_events::json::JsonText;
use taskreel::infer::{Entry, Scripted};
use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind, PeerFound, RecalledTask};
use taskreel::tool::{BoxFuture, ToolPolicy};
use taskreel::{BudgetUsage, Part, System, TaskState};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;

/// An agent that tells the id of a task only when it is asked for it.
#[derive(Clone, Default)]
struct Silent {
    /// Whether it answers an attempt that takes its task up.
    answers: bool,
    /// Whether it tells the id at once, and the connection breaks then.
    breaks: bool,
    finds: Arc<AtomicU32>,
    /// The id that each attempt named.
    sent: Arc<Mutex<Vec<Option<String>>>>,
    recalled: Arc<Mutex<Vec<Option<String>>>>,
}

impl Peer for Silent {
    fn name(&self) -> &'static str {
        "other"
    }

    fn description(&self) -> &'static str {
        "knows the weather"
    }

    fn skills(&self) -> Vec<String> {
        Vec::new()
    }

    fn policy(&self) -> ToolPolicy {
        // A call that has a rate waits for its turn at each attempt.
        let policy = ToolPolicy::reconcile_peer().rate(1_000, Duration::from_secs(1));
        if self.breaks { policy } else { policy.timeout(Duration::from_millis(20)) }
    }

    fn send(&self, delegation: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        let is_known = delegation.handle.is_some();
        self.sent.lock().unwrap().push(delegation.handle.clone());
        if !is_known && self.breaks {
            return Box::pin(async move {
                delegation.accepted("theirs").await?;
                Err(PeerError::new(PeerErrorKind::Lost, "the connection broke"))
            });
        }
        if !is_known || !self.answers {
            return Box::pin(std::future::pending());
        }
        let (state, result) = (TaskState::Completed, JsonText::string("rain"));
        Box::pin(std::future::ready(Ok(PeerAnswer {
            state,
            result,
            error: None,
            used: BudgetUsage::default(),
        })))
    }

    fn cancel(&self, _: &str, _: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn recall(&self, recalled: RecalledTask) -> BoxFuture<'static, Result<(), PeerError>> {
        self.recalled.lock().unwrap().push(recalled.handle);
        Box::pin(std::future::ready(Ok(())))
    }

    fn find(&self, _: Delegation) -> BoxFuture<'static, Result<PeerFound, PeerError>> {
        self.finds.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(PeerFound::Accepted("theirs".to_owned()))))
    }
}

#[tokio::test]
async fn a_task_that_is_found_after_its_time_was_up_is_taken_up_and_not_asked_for_again() {
    for (answers, breaks) in [(true, false), (false, false), (true, true)] {
        let peer = Silent { answers, breaks, ..Silent::default() };
        let store = Arc::new(MemoryStore::new());
        let asks = json!({"type": "agent_call", "agent": "other", "action": "infer", "prompt": "Coat?"});
        let ends = json!({"type": "final", "content": "done"});
        let model = Scripted::new([Entry::json(&asks), Entry::json(&ends)]);
        let builder = System::builder("-").store(Arc::<MemoryStore>::clone(&store)).infer(model);
        let system = builder.peer(peer.clone()).start().await.unwrap();
        let task = system.session("s").send(Part::infer("go")).await.unwrap();
        let end = tokio::time::timeout(Duration::from_secs(30), task.finished()).await.expect("it hangs");
        let end = end.unwrap();
        let call = end.task().calls().iter().find(|call| call.request.kind == CallKind::Delegate).unwrap();
        assert_eq!(call.handle.as_deref(), Some("theirs"));
        let finds = u32::from(!breaks);
        assert_eq!(peer.finds.load(Ordering::SeqCst), finds, "it is asked once, unless it has told before");
        let sent = peer.sent.lock().unwrap().clone();
        assert_eq!(sent[..2], [None, Some("theirs".to_owned())], "the next attempt takes the task up");
        if answers {
            assert_eq!((end.state(), sent.len()), (TaskState::Completed, 2));
        } else {
            assert_eq!(call.status.as_str(), "failed", "{:?}", call.status);
        }
        system.shutdown().await.unwrap();
        let recalled = if answers { Vec::new() } else { vec![Some("theirs".to_owned())] };
        assert_eq!(*peer.recalled.lock().unwrap(), recalled);
        let found = verify(store.as_ref()).findings;
        assert!(found.is_empty(), "{found:?}");
    }
}
