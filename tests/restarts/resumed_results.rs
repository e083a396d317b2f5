//! Long results with which a run goes on, behind an approval, a question or a settled call: they are cut and minimized as those
//! of any other call.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::artifact_tool_support::model::{Reads, Says, ids, told};
use crate::prompt_support::assert_rendered;
use proto_events::call::Verdict;
use proto_events::json;
use proto_events::json::JsonText;
use taskreel::approval::CapabilityPolicy;
use taskreel::artifact::{ArtifactTools, CharacterLimit};
use taskreel::infer::InferRequest;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, JsonSchema, Part, System, TaskHandle, TaskState};
use taskreel_log::api::EventStore;
use taskreel_log::memory::MemoryStore;

#[derive(serde::Deserialize, JsonSchema)]
struct Nothing {}

/// The characters of a result.
const LONG: usize = 200_000;

fn long() -> String {
    "word ".repeat(LONG / 5)
}

/// The reason why a run waits for a person before its model is told the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Approval,
    Question,
    UnknownOutcome,
}

fn with_tool(builder: Builder, waits: Waits) -> Builder {
    let spends = ToolPolicy::manual().capabilities(["money.spend"]);
    let short = ToolPolicy::manual().timeout(Duration::from_millis(1));
    match waits {
        Waits::Approval => builder
            .tool_with("big", "Long", |_: Nothing| async { Ok::<_, Infallible>(long()) }, spends)
            .capability_policy(CapabilityPolicy::new().require_approval("money.*"))
            .approvals_by_person(),
        Waits::Question => builder.tool_with(
            "big",
            "Long",
            |cx: ToolContext, _: Nothing| async move { cx.ask("Which?").await.map(|_| long()) },
            ToolPolicy::manual(),
        ),
        Waits::UnknownOutcome => builder.tool_with(
            "big",
            "Long",
            |_: Nothing| async { std::future::pending::<Result<String, ToolError>>().await },
            short,
        ),
    }
}

async fn decide(system: &System, task: &TaskHandle, waits: Waits) {
    match waits {
        Waits::Approval => {
            let id = system.approvals(task.id()).await.unwrap()[0].request.approval_id.clone();
            system.approve(task.id(), &id, "ada").await.unwrap();
        }
        Waits::Question => {
            let id = task.questions().await.unwrap()[0].question_id();
            task.answer(&id, "this", "ada").await.unwrap();
        }
        Waits::UnknownOutcome => {
            let snapshot = task.snapshot().await.unwrap();
            let call = snapshot.task().calls().iter().find(|call| call.request.target == "big").unwrap();
            let landed = Verdict::Landed(JsonText::string(&long()));
            task.reconcile(&call.request.call_id, landed, "ada").await.unwrap();
        }
    }
}

/// Runs a task whose model goes on with a long result; returns its last request.
async fn resumed(waits: Waits, describe: impl Fn(Builder) -> Builder) -> InferRequest {
    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::new());
    let model = Reads::by(false, |request| {
        let mut asked = request.messages.iter().rev().filter(|message| message.role.as_str() == "user");
        match asked.next() {
            Some(asked) if asked.content.contains("Do not make it again.") => Says::Final("done".to_owned()),
            _ => Says::Call("big", json!({})),
        }
    });
    let builder = describe(with_tool(System::builder("-").store(store.clone()), waits));
    let system = builder.infer(model.clone()).start().await.unwrap();
    let task = system.submit(Part::infer("go and see")).await.unwrap();
    assert_eq!(task.finished().await.unwrap().state(), TaskState::InputRequired, "{waits:?}");
    decide(&system, &task, waits).await;
    let end = task.finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{waits:?}: {:?}", end.task().error());
    system.shutdown().await.unwrap();
    assert_rendered(&*store.reopen().unwrap(), &model.requests());
    model.requests().pop().unwrap()
}

const ALL: [Waits; 3] = [Waits::Approval, Waits::Question, Waits::UnknownOutcome];

#[tokio::test]
async fn a_window_cuts_the_result_with_which_a_run_goes_on() {
    for waits in ALL {
        for is_stateless in [false, true] {
            let last = resumed(waits, |builder| {
                let builder = builder.context_window(8_000);
                if is_stateless { builder.stateless() } else { builder }
            })
            .await;
            let result = last.messages.last().unwrap();
            assert!(result.omitted > 100_000, "{waits:?}: {} are left out", result.omitted);
            let characters: usize = last.messages.iter().map(|message| message.content.chars().count()).sum();
            assert!(characters < 8_000 * 4 && characters > 8_000 * 3, "{waits:?}: {characters}");
            let prompt = last.messages.iter().rev().find(|message| message.role.as_str() == "user").unwrap();
            assert_eq!((prompt.omitted, prompt.content.ends_with("go and see")), (0, is_stateless));
        }
    }
}

#[tokio::test]
async fn artifact_tools_minimize_the_result_with_which_a_run_goes_on_and_say_where_it_stands() {
    for waits in ALL {
        let tools = || ArtifactTools::new().outputs_over(CharacterLimit::new(2_000).unwrap());
        let last = resumed(waits, |builder| builder.artifact_tools(tools())).await;
        let told = told(&last);
        assert_eq!(told["_total_characters"].as_u64(), Some(LONG as u64), "{waits:?}");
        let (_, artifact) = ids(&told).unwrap();
        assert!(artifact.starts_with("call_"), "{waits:?}: {artifact}");
        assert!(last.messages.last().unwrap().content.chars().count() < 7_000);
    }
}
