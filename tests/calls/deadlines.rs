//! Deadlines of tasks: a moment in a task's budget at which it fails unless it is over; and the two capabilities of a card
//! that are enforced, `timeout_support` and `max_concurrency`.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::convert::Infallible;
use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proto_events::call::CallStatus;
use proto_events::envelope::Timestamp;
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest, Scripted};
use taskreel::tool::ToolPolicy;
use taskreel::{
    BoxFuture, Builder, Error, JsonSchema, PostedTask, RunBudget, TaskSnapshot, TaskState, testing,
};
use taskreel_log::ports::Ports;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// The time at which the clock of a test begins: 1 January 2026, midnight UTC.
const BEGINNING: Timestamp = Timestamp(1_767_225_600_000_000);

const PASSED: &str = "the task's deadline 2026-01-01T00:01:00+00:00 has passed";

fn posted(budget: &Value, parts: &[Value]) -> PostedTask {
    let posted = json!({
        "id": "t",
        "messages": [json!({"id": "m", "role": "user", "parts": parts})],
        "metadata": json!({"budget": budget.clone()}),
    });
    PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap()
}

fn call(tool: &str) -> Value {
    json!({"type": "tool_call", "content": json!({"tool_name": tool, "args": json!({})})})
}

fn infer(prompt: &str) -> Value {
    json!({"type": "infer", "content": json!({"prompt": prompt})})
}

fn after(seconds: u64) -> Timestamp {
    BEGINNING.plus(Duration::from_secs(seconds))
}

fn due(seconds: u64) -> Value {
    json!({"deadline": after(seconds).to_string()})
}

fn error(end: &TaskSnapshot) -> String {
    end.task().error().unwrap_or_default()
}

/// An agent with a tool that takes this long, and the number of times that it began.
fn waiting(seconds: u64) -> (Arc<AtomicU32>, impl Fn(Builder) -> Builder) {
    let began = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&began);
    let describe = move |builder: Builder| {
        let count = Arc::clone(&count);
        let wait = move |_: Nothing| {
            count.fetch_add(1, Ordering::SeqCst);
            async move {
                testing::sleep(Duration::from_secs(seconds)).await;
                Ok::<_, Infallible>("waited")
            }
        };
        builder.tool_with("wait", "Waits", wait, ToolPolicy::read_only())
    };
    (began, describe)
}

/// A model whose answer takes a hundred seconds.
#[derive(Debug)]
struct Slow;

impl InferBackend for Slow {
    fn backend(&self) -> &'static str {
        "slow"
    }

    fn model(&self) -> &'static str {
        "m"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        Box::pin(async {
            testing::sleep(Duration::from_secs(100)).await;
            Ok(InferReply::default())
        })
    }
}

#[tokio::test]
async fn a_call_in_flight_is_cut_off_at_the_deadline_and_nothing_is_begun_after_it() {
    let (began, describe) = waiting(40);
    let system = testing::system(describe).await.unwrap();
    let task = system.submit(posted(&due(60), &vec![call("wait"); 3])).await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!((end.state(), error(&end).as_str()), (TaskState::Failed, PASSED));
    assert_eq!(began.load(Ordering::SeqCst), 2, "the third call is not begun");
    assert_eq!(end.task().artifacts().len(), 1, "the part that had ended keeps its output");
    assert_eq!(end.task().calls().open().count(), 0);
    let over = end.task().history().last().unwrap().at.since(BEGINNING);
    assert!(over >= Duration::from_secs(60) && over < Duration::from_secs(61), "{over:?}");
    testing::assert_well_formed(system.store().as_ref());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_answer_of_the_model_is_cut_off_at_the_deadline() {
    let system = testing::system(|builder: Builder| builder.infer(Slow)).await.unwrap();
    let task = system.submit(posted(&due(60), &[infer("slow?")])).await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!((end.state(), error(&end).as_str()), (TaskState::Failed, PASSED));
    assert!(end.task().calls().iter().all(|call| matches!(call.status, CallStatus::Canceled)));
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn of_a_deadline_and_a_time_limit_the_earlier_one_ends_the_run_under_its_own_name() {
    for (deadline, limit, named) in [(60, 90, PASSED), (90, 60, "Run budget exceeded: max_runtime_seconds")] {
        let system = testing::system(waiting(100).1).await.unwrap();
        let budget = json!({"deadline": after(deadline).to_string(), "max_runtime_seconds": limit});
        let task = system.submit(posted(&budget, &[call("wait")])).await.unwrap();
        let end = system.finish(&task).await.unwrap();
        assert!(error(&end).starts_with(named), "{}", error(&end));
        let over = end.task().history().last().unwrap().at.since(BEGINNING);
        assert!(over < Duration::from_secs(61), "{over:?}");
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn nothing_of_a_task_that_comes_after_its_deadline_is_begun() {
    let (began, describe) = waiting(1);
    let system = testing::system(describe).await.unwrap();
    system.advance(Duration::from_secs(61)).await;
    let task = system.submit(posted(&due(60), &[call("wait")])).await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!((end.state(), error(&end).as_str()), (TaskState::Failed, PASSED));
    assert_eq!(began.load(Ordering::SeqCst), 0);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_deadline_holds_after_a_restart_and_does_not_begin_anew() {
    for down in [1, 3_600] {
        let (began, describe) = waiting(100);
        let system = testing::system(describe).await.unwrap();
        let task = system.submit(posted(&due(60), &[call("wait")])).await.unwrap();
        system.advance(Duration::from_secs(30)).await;
        // While the process is down, this time passes.
        system.step_clock(i64::try_from(down).unwrap() * 1_000).unwrap();
        let system = system.crash().await.unwrap();
        let end = system.finish(&system.task(task.id()).unwrap()).await.unwrap();
        assert_eq!((end.state(), error(&end).as_str()), (TaskState::Failed, PASSED));
        let over = end.task().history().last().unwrap().at.since(BEGINNING);
        assert!(over < Duration::from_secs(31 + down.max(31)), "after {down} s down: {over:?}");
        assert!(began.load(Ordering::SeqCst) <= 2);
        testing::assert_well_formed(system.store().as_ref());
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_task_that_waits_for_a_person_beyond_its_deadline_fails_when_it_is_answered() {
    let (began, describe) = waiting(1);
    let describe = move |builder: Builder| {
        let asks = CapabilityPolicy::new().require_approval("money.*");
        let pay = |_: Nothing| async { Ok::<_, Infallible>("paid") };
        let policy = ToolPolicy::manual().capabilities(["money.spend"]);
        describe(builder).tool_with("pay", "Pays", pay, policy).capability_policy(asks).approvals_by_person()
    };
    let system = testing::system(describe).await.unwrap();
    let task = system.submit(posted(&due(60), &[call("pay"), call("wait")])).await.unwrap();
    let asked = system.finish(&task).await.unwrap();
    assert_eq!(asked.state(), TaskState::InputRequired);
    system.advance(Duration::from_secs(3_600)).await;
    let id = asked.task().awaited_approvals().next().unwrap().request.approval_id.clone();
    system.run(task.approve(&id, "ann")).await.unwrap().unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!((end.state(), error(&end).as_str()), (TaskState::Failed, PASSED));
    assert_eq!(end.task().calls().iter().filter(|call| call.attempts > 0).count(), 0, "nothing was paid");
    assert_eq!(began.load(Ordering::SeqCst), 0);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_deadline_in_the_rust_api_keeps_the_budget_of_the_agent_and_the_same_request_is_the_same_task() {
    let describe =
        |builder: Builder| builder.infer(Scripted::new([])).run_budget(RunBudget::new().llm_calls(7));
    let system = testing::system(describe).await.unwrap();
    let session = system.session("s");
    let request = || session.run("hello").once("k").deadline(after(60));
    let task = system.run(request().into_future()).await.unwrap().unwrap();
    let end = system.finish(&task).await.unwrap();
    let budget = end.task().run_budget().unwrap().unwrap();
    assert_eq!((budget.max_llm_calls, budget.deadline()), (Some(7), Ok(Some(after(60)))));
    let again = system.run(request().into_future()).await.unwrap().unwrap();
    assert_eq!(again.id(), task.id());
    let other = system.run(session.run("hello").once("k").deadline(after(61)).into_future()).await.unwrap();
    assert!(matches!(other, Err(Error::CommandIdReused { .. })), "{other:?}");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_deadline_that_names_no_moment_is_refused_by_name() {
    let system = testing::system(waiting(1).1).await.unwrap();
    for wrong in [json!("soon"), json!(17), json!("2026-01-01T00:01:00")] {
        let task = posted(&json!({"deadline": wrong}), &[call("wait")]);
        let error = system.submit(task).await.unwrap_err();
        assert!(matches!(error, Error::Model(_)), "{error}");
        assert!(error.to_string().contains("a time with its offset"), "{error}");
    }
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_agent_whose_card_has_no_timeout_support_takes_no_task_with_a_deadline() {
    let (_, describe) = waiting(1);
    let describe = move |builder: Builder| {
        describe(builder).card(|mut card| {
            card.capabilities.timeout_support = false;
            card
        })
    };
    let system = testing::system(describe).await.unwrap();
    for budget in [due(60), json!({"metadata": due(60)})] {
        let refused = system.submit(posted(&budget, &[call("wait")])).await.unwrap_err();
        assert!(matches!(&refused, Error::NoTimeoutSupport { agent } if agent == "agent"), "{refused}");
    }
    let task = system.submit(posted(&json!({"max_runtime_seconds": 60}), &[call("wait")])).await.unwrap();
    assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::Completed, "a budget is no deadline");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_number_of_calls_at_once_that_a_card_states_is_kept() {
    let together = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
    let seen = Arc::clone(&together);
    let describe = move |builder: Builder| {
        let seen = Arc::clone(&seen);
        let wait = move |_: Nothing| {
            let seen = Arc::clone(&seen);
            async move {
                let now = seen.0.fetch_add(1, Ordering::SeqCst) + 1;
                seen.1.fetch_max(now, Ordering::SeqCst);
                testing::sleep(Duration::from_secs(1)).await;
                seen.0.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, Infallible>("waited")
            }
        };
        let policy = ToolPolicy::read_only().parallel();
        builder.tool_with("wait", "Waits", wait, policy).card(|mut card| {
            card.capabilities.max_concurrency = 2;
            card
        })
    };
    let system = testing::system(describe).await.unwrap();
    assert_eq!(system.card().capabilities.max_concurrency, 2);
    let task = system.submit(posted(&json!({}), &vec![call("wait"); 6])).await.unwrap();
    assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::Completed);
    assert_eq!(together.1.load(Ordering::SeqCst), 2);
    system.shutdown().await.unwrap();
}
