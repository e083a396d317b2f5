//! Operations of the control plane that the policy allows only with an approval: the agent's approval handler is asked, as in
//! Protolink, and what it does not decide is refused.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::histories_support::{assert_verifies, builder, count, model, of, session, texts};
use proto_events::codec::kind;
use proto_events::id::Position;
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy};
use taskreel::state::{CompactionStrategy, StateOperationRequest};
use taskreel::{Builder, Error};
use taskreel_log::api::EventReader;
use taskreel_log::memory::MemoryStore;

/// The requests that the handler was shown.
#[derive(Clone, Default)]
struct Desk {
    asked: Arc<Mutex<Vec<ApprovalRequest>>>,
}

impl Desk {
    fn answers(&self, builder: Builder, verdict: ApprovalVerdict) -> Builder {
        let asked = Arc::clone(&self.asked);
        let rules = CapabilityPolicy::new().require_approval("state.*").require_approval("llm.*");
        builder.capability_policy(rules).approval_handler(move |request: ApprovalRequest| {
            asked.lock().unwrap().push(request);
            let verdict = verdict.clone();
            async move { verdict }
        })
    }

    fn newest(&self) -> ApprovalRequest {
        self.asked.lock().unwrap().last().unwrap().clone()
    }
}

#[tokio::test]
async fn an_approval_handler_is_asked_about_each_operation_and_what_it_approves_is_done_under_the_approval() {
    let (store, (asked, mut person), desk) = (Arc::new(MemoryStore::new()), model(), Desk::default());
    let system = desk.answers(builder(&store, asked), ApprovalVerdict::Approved).start().await.unwrap();
    for question in ["one", "two", "three"] {
        person.turn(&system, "s", question).await;
    }
    let caller = system.acting_as("ada");
    let state = caller.state();
    state.describe(&session("s")).await.unwrap();
    let of_describe = desk.newest();
    assert_eq!((of_describe.tool.as_str(), of_describe.session_id.as_str()), ("describe_state", "s"));
    assert_eq!((of_describe.task_id.as_str(), of_describe.principal.name.as_str()), ("", "ada"));
    assert_eq!(of_describe.capabilities, ["state.describe"]);
    assert!(of_describe.args.as_str().contains(r#""session_id":"s""#), "{}", of_describe.args);
    caller.compact_history(&of(CompactionStrategy::Recent, "s")).await.unwrap();
    assert_eq!(desk.newest().tool, "compact_history");
    state.compact(&StateOperationRequest { max_messages: 2, ..session("s") }).await.unwrap();
    let of_compact = desk.newest();
    assert_eq!(of_compact.capabilities, ["state.compact", "llm.history.compact"]);
    state.reset(&session("s")).await.unwrap();
    let of_reset = desk.newest();
    assert!(system.session("s").history().await.unwrap().is_empty());
    let records = store.read_all(Position(1), 1_000).unwrap();
    let by_approval = |wanted: u16| {
        let holds = |record: &&taskreel_log::api::StoredRecord| {
            record.record.events.iter().any(|event| event.kind == wanted)
        };
        records.iter().rfind(holds).unwrap().record.metadata.causation_id.clone()
    };
    assert_eq!(by_approval(kind::CLEARED), of_reset.approval_id, "the record names the approval");
    assert!(by_approval(kind::HISTORY_COMPACTED).starts_with("approval_"));
    // A reset of everything is approved as a whole.
    let before = desk.asked.lock().unwrap().len();
    state.reset(&StateOperationRequest::default()).await.unwrap();
    assert_eq!(desk.asked.lock().unwrap().len(), before + 1);
    assert_verifies(&store);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn what_an_approval_handler_denies_or_does_not_decide_is_refused_and_nothing_changes() {
    let denied = |reason: Option<&str>| ApprovalVerdict::Denied { reason: reason.map(str::to_owned) };
    for (verdict, told) in [
        (denied(Some("not today")), "Action 'reset_state' denied: not today"),
        (denied(None), "Action 'reset_state' denied: Approval required for capabilities: state.reset"),
        (
            ApprovalVerdict::AskPerson,
            "Action 'reset_state' requires approval, and the approval handler gave no decision: it left the decision to a \
             person; such an operation does not wait for a person, so let the handler decide it, or allow its capability in the \
             policy",
        ),
    ] {
        let (store, (asked, mut person), desk) = (Arc::new(MemoryStore::new()), model(), Desk::default());
        let system = desk.answers(builder(&store, asked), verdict).start().await.unwrap();
        person.turn(&system, "s", "one").await;
        let refused = system.state().reset(&session("s")).await.unwrap_err();
        assert_eq!(refused.to_string(), told);
        assert_eq!(count(&store, kind::CLEARED), 0);
        assert_eq!(texts(&system.session("s").history().await.unwrap()).len(), 2);
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn an_approval_handler_that_panics_or_takes_too_long_is_no_approval() {
    let rules = || CapabilityPolicy::new().require_approval("state.*");
    for (panics, told) in [(true, "it panicked: no desk"), (false, "it did not decide within 20ms")] {
        let store = Arc::new(MemoryStore::new());
        let handler = move |_: ApprovalRequest| async move {
            assert!(!panics, "no desk");
            std::future::pending().await
        };
        let system = builder(&store, model().0)
            .capability_policy(rules())
            .approval_handler(handler)
            // The panic is told however long its words take on a busy machine.
            .approval_timeout(if panics { Duration::from_secs(60) } else { Duration::from_millis(20) })
            .start()
            .await
            .unwrap();
        let refused = system.state().reset(&StateOperationRequest::default()).await.unwrap_err();
        assert!(matches!(refused, Error::ApprovalUndecided { .. }), "{refused}");
        assert!(refused.to_string().contains(told), "{refused}");
        system.shutdown().await.unwrap();
    }
}
