//! A budget belongs to the task: its runs, parts, approvals and children draw from it, and every token that was paid for
//! counts. Under `BudgetScope::Part` each infer part has the budget for itself, as in Protolink.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proto_events::call::{CallKind, TokenUsage};
use proto_events::json;
use proto_events::json::{JsonText, JsonValue as Value};
use proto_events::model::BudgetLimit;
use proto_events::task::TaskCommand;
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::{InferBackend, InferError, InferErrorKind, InferReply, InferRequest, Scripted};
use taskreel::tool::ToolPolicy;
use taskreel::{
    BoxFuture, BudgetScope, BudgetStop, Builder, Failure, JsonSchema, Outcome, PostedTask, RunBudget, System,
    TaskSnapshot, TaskState, testing,
};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::{Clock as _, Ports};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
struct Said {
    text: String,
}

fn builder() -> Builder {
    System::builder("-").store(Arc::new(MemoryStore::new()))
}

fn posted(budget: &Value, parts: &[Value]) -> PostedTask {
    let posted = json!({
        "id": "t",
        "messages": [json!({"id": "m", "role": "user", "parts": parts})],
        "metadata": json!({"budget": budget.clone()}),
    });
    PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap()
}

fn infer(prompt: &str) -> Value {
    json!({"type": "infer", "content": json!({"prompt": prompt})})
}

fn pay() -> Value {
    json!({"type": "tool_call", "content": json!({"tool_name": "pay", "args": json!({})})})
}

async fn run(builder: Builder, budget: &Value, parts: &[Value]) -> TaskSnapshot {
    let system = builder.start().await.unwrap();
    let task = system.submit(posted(budget, parts)).await.unwrap();
    let end = tokio::time::timeout(Duration::from_secs(30), task.finished()).await.unwrap().unwrap();
    system.shutdown().await.unwrap();
    end
}

fn answers(each: &str) -> Scripted {
    Scripted::from_json(&format!(r#"{{"": [{{"type": "final", "content": "{each}"}}]}}"#)).unwrap()
}

fn awaited(end: &TaskSnapshot) -> Option<String> {
    end.task().awaited_approvals().next().map(|approval| approval.request.approval_id.clone())
}

fn over(limit: &str, observed: &str, most: u32) -> String {
    format!("Run budget exceeded: {limit} observed {observed} > limit {most}")
}

#[tokio::test]
async fn the_parts_of_a_message_share_one_budget_unless_each_has_its_own() {
    let (budget, parts) = (json!({"max_llm_calls": 3}), vec![infer("again"); 10]);
    let end = run(builder().stateless().infer(answers("yes")), &budget, &parts).await;
    assert_eq!(end.task().error().unwrap_or_default(), over("max_llm_calls", "4", 3));
    assert_eq!(end.task().calls().iter().count(), 3);
    let each = builder().stateless().infer(answers("yes")).budget_scope(BudgetScope::Part);
    let end = run(each, &budget, &parts).await;
    assert_eq!((end.state(), end.task().calls().iter().count()), (TaskState::Completed, 10));
}

/// Returns an agent that must ask a person before it pays, and the number of payments.
fn paying() -> (Builder, Arc<AtomicU32>) {
    let paid = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&paid);
    let pay = move |_: Nothing| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, Infallible>("paid") }
    };
    let policy = ToolPolicy::manual().capabilities(["money.spend"]);
    let asks = CapabilityPolicy::new().require_approval("money.*");
    let builder =
        builder().tool_with("pay", "Pays", pay, policy).capability_policy(asks).approvals_by_person();
    (builder, paid)
}

#[tokio::test]
async fn an_approval_gives_no_new_budget() {
    let (builder, paid) = paying();
    let system = builder.start().await.unwrap();
    let task = system.submit(posted(&json!({"max_tool_calls": 2}), &vec![pay(); 11])).await.unwrap();
    let mut end = task.finished().await.unwrap();
    while let Some(id) = awaited(&end) {
        task.approve(&id, "ann").await.unwrap();
        end = task.finished().await.unwrap();
    }
    assert_eq!(end.task().error().unwrap_or_default(), over("max_tool_calls", "3", 2), "{}", end.to_json());
    assert_eq!(paid.load(Ordering::SeqCst), 2);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_child_is_sent_what_is_left_and_its_use_is_added_when_it_answers() {
    let child = builder().name("child").stateless().infer(answers("child")).start().await.unwrap();
    let ask = r#"{"type": "agent_call", "agent": "child", "action": "infer", "prompt": "?"}"#;
    let script =
        format!(r#"[{ask}, {{"type": "final", "content": "one"}}, {{"type": "final", "content": "two"}}]"#);
    let parent = builder().stateless().infer(Scripted::from_json(&script).unwrap()).peer(child.peer());
    // One inference to ask the child, one of the child, one to answer; the second part would be the fourth.
    let end = run(parent, &json!({"max_llm_calls": 3}), &[infer("a"), infer("b")]).await;
    assert_eq!(end.task().error().unwrap_or_default(), over("max_llm_calls", "4", 3), "{}", end.to_json());
    let delegated = end.task().calls().iter().find(|call| call.request.kind == CallKind::Delegate).unwrap();
    let sent = delegated.request.args.tree();
    assert_eq!(sent["task"]["metadata"]["run_context"]["budget"]["max_llm_calls"], 2, "one of three is used");
    child.shutdown().await.unwrap();
}

/// A model that fails once after it has counted tokens, then answers; it reports its tokens or not.
#[derive(Clone)]
struct Counting {
    reports: bool,
    fails: bool,
}

impl InferBackend for Counting {
    fn backend(&self) -> &'static str {
        "counting"
    }

    fn model(&self) -> &'static str {
        "m"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let usage = self.reports.then_some(TokenUsage { input_tokens: 10, output_tokens: 40 });
        let fails = self.fails && request.messages.len() < 3;
        Box::pin(async move {
            if fails {
                let error = InferError::new(InferErrorKind::Malformed, "LengthLimit", "cut off");
                return Err(error.with_usage(usage).with_partial(&"x".repeat(160)));
            }
            let content = json!({"type": "final", "content": "x".repeat(400)}).to_string();
            Ok(InferReply { content, usage, model: "m".to_owned(), ..InferReply::default() })
        })
    }
}

#[tokio::test]
async fn tokens_of_a_failed_attempt_count_and_those_that_nobody_reports_are_estimated() {
    let ends = |reports, fails, limit| async move {
        let model = Counting { reports, fails };
        run(builder().stateless().infer(model), &json!({"max_output_tokens": limit}), &[infer("go")]).await
    };
    assert_eq!(ends(true, false, 40).await.state(), TaskState::Completed);
    assert_eq!(ends(true, true, 80).await.state(), TaskState::Completed);
    assert_eq!(
        ends(true, true, 79).await.task().error().unwrap_or_default(),
        over("max_output_tokens", "80", 79)
    );
    let estimated = ends(false, false, 50).await.task().error();
    assert!(
        estimated.as_deref().is_some_and(|error| error.contains("max_output_tokens observed 10")),
        "{estimated:?}"
    );
    assert_eq!(ends(false, false, 130).await.state(), TaskState::Completed);
    let cut = ends(false, true, 130).await.task().error();
    assert!(cut.as_deref().is_some_and(|error| error.contains("max_output_tokens observed 14")), "{cut:?}");
}

/// Returns the estimates of what each inference of a task was shown.
fn estimates(end: &TaskSnapshot) -> Vec<u64> {
    let prompts = end.task().calls().iter().filter_map(|call| call.request.prompt.as_ref());
    prompts.map(|prompt| prompt.tokens.unwrap()).collect()
}

/// A model that reports this usage, or none.
struct Reports(Scripted, Option<TokenUsage>);

impl InferBackend for Reports {
    fn backend(&self) -> &'static str {
        "reports"
    }

    fn model(&self) -> &'static str {
        "m"
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let (usage, reply) = (self.1, self.0.infer(request));
        Box::pin(async move { Ok(InferReply { usage, ..reply.await? }) })
    }
}

#[tokio::test]
async fn max_input_tokens_holds_by_the_estimate_where_no_input_is_reported_and_arguments_of_calls_count() {
    let look = |said: Said| async move { Ok::<_, Infallible>(said.text.len()) };
    let script = json!([
        json!({"calls": [json!({"tool": "look", "args": {"text": "x".repeat(4_000)}})]}),
        json!({"type": "final", "content": "done"}),
    ])
    .to_string();
    let none = TokenUsage { input_tokens: 0, output_tokens: 40 };
    for usage in [None, Some(none)] {
        let ends = |limit: u64| {
            let model = Reports(Scripted::from_json(&script).unwrap(), usage);
            let agent = builder().stateless().infer(model).tool("look", "Looks", look);
            async move { run(agent, &json!({"max_input_tokens": limit}), &[infer("go")]).await }
        };
        let end = ends(1_000_000).await;
        assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
        let shown = estimates(&end);
        assert!(shown[1] > shown[0] + 1_000, "the arguments are sent again: {shown:?}");
        let all = shown[0] + shown[1];
        assert_eq!(ends(all).await.state(), TaskState::Completed, "{usage:?}");
        let over = ends(all - 1).await.task().error().unwrap_or_default();
        assert!(over.contains(&format!("max_input_tokens observed {all} >")), "{usage:?}: {over}");
    }
}

#[tokio::test]
async fn the_time_of_all_runs_counts_and_the_time_that_a_person_takes_does_not() {
    let wait = |_: Nothing| async {
        testing::sleep(Duration::from_secs(40)).await;
        Ok::<_, Infallible>("waited")
    };
    let describe = move |builder: Builder| {
        let asks = CapabilityPolicy::new().require_approval("money.*");
        let policy = ToolPolicy::manual().capabilities(["money.spend"]);
        builder.tool_with("pay", "Pays", wait, policy).capability_policy(asks).approvals_by_person()
    };
    let system = testing::system(describe).await.unwrap();
    let task = system.submit(posted(&json!({"max_runtime_seconds": 100}), &vec![pay(); 3])).await.unwrap();
    let mut end = system.finish(&task).await.unwrap();
    while let Some(id) = awaited(&end) {
        system.advance(Duration::from_secs(3_600)).await;
        system.run(task.approve(&id, "ann")).await.unwrap().unwrap();
        end = system.finish(&task).await.unwrap();
    }
    assert_eq!(end.state(), TaskState::Failed, "{}", end.to_json());
    assert!(
        end.task().error().unwrap().contains("max_runtime_seconds observed 100."),
        "{:?}",
        end.task().error()
    );
    assert_eq!(
        end.task().outputs().count() + end.task().artifacts().len(),
        2,
        "two payments of three were made"
    );
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn at_the_deadline_no_inference_is_intended_that_waits_for_a_permit_and_the_log_is_well_formed() {
    let wait = |_: Nothing| async {
        testing::sleep(Duration::from_secs(2)).await;
        Ok::<_, Infallible>("waited")
    };
    let describe = move |builder: Builder| {
        let model = Scripted::by_prompt([(String::new(), Vec::new())]);
        builder.tool("wait", "Waits", wait).infer(model).max_concurrency(8)
    };
    let system = testing::system(describe).await.unwrap();
    let parts = [
        json!({"type": "tool_call", "content": {"tool_name": "wait", "args": {}}}),
        json!({"type": "infer", "content": {"prompt": "and now?"}}),
    ];
    let task = system.submit(posted(&json!({"max_runtime_seconds": 2}), &parts)).await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert!(end.task().error().unwrap().contains("max_runtime_seconds"), "{:?}", end.task().error());
    assert!(end.task().calls().iter().all(|call| call.request.kind != CallKind::Infer));
    testing::assert_well_formed(system.store().as_ref());
    system.shutdown().await.unwrap();
}

/// A system whose tools work for five seconds, one call of each at a time, and whose model asks for both; a run that has used up
/// its budget waits for a person.
async fn slow_system() -> testing::TestSystem {
    let describe = |builder: Builder| {
        let ask = |tool| format!(r#"{{"type": "tool_call", "tool": "{tool}", "args": {{}}}}"#);
        let (first, second) = (ask("works"), ask("works_on"));
        let end = r#"{"type": "final", "content": "done"}"#;
        let model = Scripted::from_json(&format!(r#"{{"": [{first}, {second}, {end}]}}"#)).unwrap();
        let works = |_: Nothing| async {
            testing::sleep(Duration::from_secs(5)).await;
            Ok::<_, Infallible>(())
        };
        let one = ToolPolicy::read_only().concurrency(1);
        let builder = builder.stateless().infer(model).max_concurrency(1);
        let builder = builder.tool_with("works", "Works", works, one.clone());
        builder.on_budget(BudgetStop::WaitForPerson).tool_with("works_on", "Works", works, one)
    };
    testing::system(describe).await.unwrap()
}

#[tokio::test]
async fn a_raised_limit_of_time_is_that_of_the_open_run_and_of_its_calls() {
    // The limits of time before and after, in seconds, and the time at which the task ends. It waits for a person from 5 s on
    // and goes on at 20 s, for another 5 s if it may.
    let cases = [
        (Some(10), Some(3_600), Ok(25)),
        (Some(10), None, Ok(25)),
        (Some(10), Some(22), Err(22)),
        (None, Some(22), Err(22)),
        (Some(3_600), Some(22), Err(22)),
        (Some(3_600), Some(15), Err(20)),
    ];
    for (before, after, ends) in cases {
        let system = slow_system().await;
        let mut limits = json!({"max_llm_calls": 1});
        if let Some(seconds) = before {
            limits = json!({"max_llm_calls": 1, "max_runtime_seconds": seconds});
        }
        let began = system.clock().monotonic();
        let task = system.submit(posted(&limits, &[infer("go")])).await.unwrap();
        system.advance(Duration::from_secs(20)).await;
        let asked = system.approvals("t").await.unwrap();
        assert_eq!(asked.len(), 1, "{before:?}, {after:?}");
        let raised = RunBudget::new().llm_calls(9);
        let raised = match after {
            Some(seconds) => raised.runtime(Duration::from_secs(seconds)),
            None => raised,
        };
        task.raise_budget(raised, "eve").await.unwrap();
        let end = system.run(task.settled()).await.unwrap().unwrap();
        let took = system.clock().monotonic().saturating_sub(began).as_secs();
        let found = taskreel_log::audit::verify(system.store().as_ref()).findings;
        assert!(found.is_empty(), "{before:?}, {after:?}: {found:?}");
        let over = match (&end, ends) {
            (Outcome::Completed(_), Ok(at)) => {
                assert_eq!(took, at, "{before:?}, {after:?}");
                continue;
            }
            // Time that is over cuts off a call; between two calls it is asked whether to go on.
            (Outcome::Failed(Failure::Budget(over)), Err(_)) => *over,
            (Outcome::AwaitsApproval(asked), Err(_)) => {
                asked.first().unwrap().request.exceeded_budget().unwrap()
            }
            other => panic!("{before:?}, {after:?}: {other:?}"),
        };
        assert_eq!(over.limit, BudgetLimit::RuntimeSeconds, "{before:?}, {after:?}");
        let used = Duration::from_secs_f64(over.used).as_secs();
        assert_eq!(Err(used), ends, "{before:?}, {after:?}");
    }
}

#[tokio::test]
async fn an_approval_of_a_limit_whose_run_was_paused_since_makes_no_call() {
    let system = slow_system().await;
    let task = system.submit(posted(&json!({"max_llm_calls": 1}), &[infer("go")])).await.unwrap();
    system.advance(Duration::from_secs(20)).await;
    let asked = system.approvals("t").await.unwrap();
    let calls = task.snapshot().await.unwrap().task().calls().iter().count();
    task.command(TaskCommand::RequireInput(None)).await.unwrap();
    system.approve("t", &asked[0].request.approval_id, "eve").await.unwrap();
    let _waits = system.run(task.settled()).await.unwrap().unwrap();
    let now = task.snapshot().await.unwrap();
    assert_eq!((now.state(), now.task().calls().iter().count()), (TaskState::InputRequired, calls));
    let found = taskreel_log::audit::verify(system.store().as_ref()).findings;
    assert!(found.is_empty(), "{found:?}");
}
