//! Texts of outsiders that are larger than an event may be, and numbers that JSON does not have: no outcome is lost because
//! of them, and nothing hangs.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::approvals_support::{Purse, pay};
use proto_events::call::{CallStatus, Verdict};
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::limits::PAYLOAD_BYTES_MAX;
use serde::Deserialize;
use taskreel::approval::{ApprovalRequest, ApprovalVerdict};
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::infer::{InferBackend, InferError, InferErrorKind, InferReply, InferRequest, Scripted};
use taskreel::peer::{Delegation, Peer, PeerAnswer, PeerError, PeerErrorKind};
use taskreel::tool::{BoxFuture, ToolContext, ToolError, ToolPolicy};
use taskreel::{JsonSchema, Message, Part, System, TaskHandle, TaskSnapshot, TaskState};
use taskreel_log::memory::MemoryStore;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// The most bytes that are left of such a text, with the note that it was cut.
const CUT: usize = taskreel::limits::ERROR_TEXT_BYTES;

/// A text that no event holds, of characters of three bytes.
fn huge() -> String {
    "☃".repeat(PAYLOAD_BYTES_MAX / 3 + 1_000)
}

async fn ended(task: &TaskHandle) -> TaskSnapshot {
    let end = tokio::time::timeout(Duration::from_secs(60), task.finished()).await;
    end.expect("the task ends").unwrap()
}

fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new())
}

#[tokio::test]
async fn an_error_of_a_tool_is_cut_and_says_so() {
    let fails = |_: Nothing| async { Err::<(), _>(ToolError::failed(huge())) };
    let system = System::builder("-").store(store()).tool("fails", "Fails", fails).start().await.unwrap();
    let task = system.submit(Part::tool_call("fails", json!({})).unwrap()).await.unwrap();
    let end = ended(&task).await;
    assert_eq!(end.state(), TaskState::Failed);
    let call = end.task().calls().iter().next().unwrap();
    let CallStatus::Failed(failure) = &call.status else { panic!("{:?}", call.status) };
    assert!(failure.message.starts_with('☃') && failure.message.len() <= CUT);
    assert!(
        failure.message.ends_with(&format!("({} bytes in all)", huge().len())),
        "{}",
        failure.message.len()
    );
    system.shutdown().await.unwrap();
}

/// Returns what a probe's verdict makes of a call whose attempt timed out.
async fn probed(verdict: impl Fn() -> Verdict + Send + Sync + Clone + 'static) -> TaskSnapshot {
    let hangs = |_: ToolContext, _: Nothing| std::future::pending::<Result<(), Infallible>>();
    let probe = move |_: ToolContext, _: JsonText| {
        let verdict = verdict.clone();
        async move { Ok::<_, ToolError>(verdict()) }
    };
    let policy = ToolPolicy::reconcile(probe).timeout(Duration::from_millis(10));
    let system =
        System::builder("-").store(store()).tool_with("hangs", "Hangs", hangs, policy).start().await.unwrap();
    let task = system.submit(Part::tool_call("hangs", json!({})).unwrap()).await.unwrap();
    let end = ended(&task).await;
    system.shutdown().await.unwrap();
    end
}

#[tokio::test]
async fn a_probe_that_says_too_much_leaves_the_outcome_unknown_and_the_task_waiting() {
    let talks = probed(|| Verdict::Inconclusive(huge())).await;
    let finds = probed(|| Verdict::Landed(JsonText::string(&huge()))).await;
    for (end, says) in [(talks, "bytes in all"), (finds, "the probe found a result of")] {
        assert_eq!(end.state(), TaskState::InputRequired);
        let call = end.task().calls().iter().next().unwrap();
        let CallStatus::Unknown(why) = &call.status else { panic!("{:?}", call.status) };
        assert!(why.contains(says) && why.len() <= CUT, "{}", why.len());
    }
}

#[tokio::test]
async fn an_approval_handler_that_says_too_much_has_decided() {
    let purse = Purse::default();
    let deny = |_: ApprovalRequest| async { ApprovalVerdict::Denied { reason: Some(huge()) } };
    let system = purse.system(&store()).approval_handler(deny).start().await.unwrap();
    let task = system.submit(pay(5)).await.unwrap();
    let end = ended(&task).await;
    assert_eq!((end.state(), purse.spent()), (TaskState::Failed, vec![]));
    let decided = end.task().approvals().iter().next().unwrap().verdict().unwrap();
    assert!(!decided.approved && decided.reason.as_ref().unwrap().len() <= CUT);
    system.shutdown().await.unwrap();
}

struct Talks;

impl Peer for Talks {
    fn name(&self) -> &'static str {
        "talks"
    }

    fn description(&self) -> &'static str {
        "says too much"
    }

    fn skills(&self) -> Vec<String> {
        Vec::new()
    }

    fn send(&self, _: Delegation) -> BoxFuture<'static, Result<PeerAnswer, PeerError>> {
        Box::pin(async { Err(PeerError::new(PeerErrorKind::Failed, huge())) })
    }

    fn cancel(&self, _: &str, _: &str) -> BoxFuture<'static, Result<(), PeerError>> {
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn an_error_of_another_agent_that_says_too_much_ends_the_run() {
    let script = r#"[{"type": "agent_call", "agent": "talks", "action": "infer", "prompt": "hello"}]"#;
    let system = System::builder("-")
        .store(store())
        .infer(Scripted::from_json(script).unwrap())
        .peer(Talks)
        .start()
        .await
        .unwrap();
    let task = system.submit(Part::infer("ask")).await.unwrap();
    let end = ended(&task).await;
    assert_eq!(end.state(), TaskState::Failed, "{:.300}", end.to_json().as_str());
    let call = end.task().calls().iter().last().unwrap();
    let CallStatus::Failed(failure) = &call.status else { panic!("{:?}", call.status.as_str()) };
    assert!(failure.message.len() <= CUT);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_last_word_of_a_handler_is_cut_and_its_task_ends_or_waits_as_it_said() {
    for (which, state, most) in [
        ("failed", TaskState::Failed, CUT),
        ("rejected", TaskState::Failed, CUT),
        ("error", TaskState::Failed, CUT),
        ("asks", TaskState::InputRequired, taskreel::limits::QUESTION_BYTES_MAX),
    ] {
        let says = move |_: HandlerContext, _: Message| async move {
            match which {
                "failed" => Ok(HandlerEnd::Failed(huge())),
                "rejected" => Ok(HandlerEnd::Rejected(huge())),
                "asks" => Ok(HandlerEnd::InputRequired(huge())),
                _ => Err(ToolError::failed(huge())),
            }
        };
        let system = System::builder("-").store(store()).handler(says).start().await.unwrap();
        let task = system.submit(Part::text("go")).await.unwrap();
        let end = ended(&task).await;
        assert_eq!(end.state(), state, "{which}: {:.300}", end.to_json().as_str());
        let said = match &end.task().calls().iter().next().unwrap().status {
            CallStatus::Failed(failure) => failure.message.clone(),
            CallStatus::Succeeded(result) => result.tree()["question"].as_str().unwrap().to_owned(),
            other => panic!("{which}: {}", other.as_str()),
        };
        assert!(said.starts_with('☃') && said.ends_with("bytes in all)"), "{which}: {}", said.len());
        assert!(said.len() <= most && said.len() > most - 8, "{which}: {}", said.len());
        let told = end.to_json().as_str().len();
        assert!(told < 4 * most + 4_096, "{which}: {told}");
        system.shutdown().await.unwrap();
    }
}

struct Fails(InferErrorKind);

impl InferBackend for Fails {
    fn backend(&self) -> &'static str {
        "fails"
    }

    fn model(&self) -> &'static str {
        "m"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let kind = self.0;
        Box::pin(async move { Err(InferError::new(kind, "Error", huge())) })
    }
}

#[tokio::test]
async fn an_error_of_a_model_is_cut_and_ends_the_run() {
    for kind in [InferErrorKind::Failed, InferErrorKind::Malformed] {
        let system = System::builder("-").store(store()).infer(Fails(kind)).start().await.unwrap();
        let task = system.submit(Part::infer("go")).await.unwrap();
        let end = ended(&task).await;
        assert_eq!(end.state(), TaskState::Failed, "{kind:?}: {:.300}", end.to_json().as_str());
        let call = end.task().calls().iter().next().unwrap();
        let CallStatus::Failed(failure) = &call.status else { panic!("{kind:?}: {}", call.status.as_str()) };
        assert!(failure.message.starts_with('☃') && failure.message.len() <= CUT);
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_tool_that_returns_a_number_that_json_does_not_have_has_failed_and_says_so() {
    for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let average = move |_: Nothing| async move { Ok::<_, Infallible>(vec![Some(1.5), Some(odd)]) };
        let system = System::builder("-")
            .store(Arc::new(MemoryStore::new()))
            .tool("average", "Divides", average)
            .start()
            .await
            .unwrap();
        let task = system.submit(Part::tool_call("average", json!({})).unwrap()).await.unwrap();
        let end = task.finished().await.unwrap();
        assert_eq!(end.state(), TaskState::Failed, "{}", end.to_json());
        let call = end.task().calls().iter().next().unwrap();
        let CallStatus::Failed(failure) = &call.status else { panic!("{:?}", call.status) };
        assert!(failure.message.contains("NaN or infinite"), "{}", failure.message);
        system.shutdown().await.unwrap();
    }
}
