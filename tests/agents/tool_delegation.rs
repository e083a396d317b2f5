//! A tool or a handler gives work to another agent in the middle of its call: one call of the same run, with intent,
//! policy, budget and outcome, whatever asks for it and whatever comes of it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::desk::{Desk, assert_sound, children, lead, leads, message, ordinals, outputs};
use proto_events::call::{CallKind, CallStatus, Verdict};
use proto_events::json;
use proto_events::json::JsonText;
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::infer::Scripted;
use taskreel::testing::{TestSystem, system};
use taskreel::tool::{AgentAnswer, AgentWork, ToolContext, ToolContextParts, ToolError, ToolPolicy};
use taskreel::{Builder, JsonSchema, Message, Part, PostedTask, TaskSnapshot, TaskState};
use taskreel_log::ports::Ports;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// Starts an agent whose tool `lead` has this policy, beside the desk.
async fn start(desk: &Desk, policy: ToolPolicy) -> TestSystem {
    start_with(desk, policy, |builder| builder).await
}

async fn start_with(
    desk: &Desk,
    policy: ToolPolicy,
    more: impl Fn(Builder) -> Builder + Send + Sync + 'static,
) -> TestSystem {
    let desk = desk.clone();
    let describe = move |builder: Builder| {
        more(builder.tool_with("lead", "Leads", lead, policy.clone()).peer(desk.clone()))
    };
    system(describe).await.unwrap()
}

async fn run(system: &TestSystem, part: Part) -> TaskSnapshot {
    let task = system.submit(message(vec![part])).await.unwrap();
    system.finish(&task).await.unwrap()
}

#[tokio::test]
async fn what_a_tool_asks_for_is_a_numbered_call_of_its_run_and_its_answer_comes_back() {
    let desk = Desk::idempotent();
    let system = start(&desk, ToolPolicy::manual()).await;
    let end = run(&system, leads(&["ok 5 first", "ask 5 second"], &[])).await;
    assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
    let said = outputs(end.task());
    assert!(said.contains("completed: \\\"answer to ok 5 first\\\""), "{said}");
    assert!(said.contains("input-required: \\\"answer to ask 5 second\\\""), "a question comes back: {said}");
    assert_eq!(end.task().artifacts().len(), 1, "a child has no output of its own");
    assert_eq!(ordinals(end.task()), [1, 2]);
    let parent = end.task().calls().iter().find(|call| call.request.kind == CallKind::Tool).unwrap();
    for child in children(end.task()) {
        assert!(child.is_child_of(&parent.request.call_id));
        assert_eq!((child.request.origin.run, child.request.recovery.as_str()), (1, "idempotent"));
        assert!(
            !child.request.idempotency_key.is_empty() && child.request.capabilities == ["agent.delegate"]
        );
    }
    assert_eq!(desk.prompts(), ["ask 5 second", "ok 5 first"]);
    assert_sound(&system);
}

#[tokio::test]
async fn a_tool_that_a_model_called_asks_another_agent_and_the_model_is_told_the_tools_result() {
    const SCRIPT: &str = r#"{"": [{"type": "tool_call", "tool": "lead", "args": {"prompts": ["ok 5"], "ends": []}},
        {"type": "final", "content": "done"}]}"#;
    let model = Scripted::from_json(SCRIPT).unwrap();
    let (desk, asked) = (Desk::idempotent(), model.clone());
    let system = start_with(&desk, ToolPolicy::manual(), move |builder| builder.infer(asked.clone())).await;
    let end = run(&system, Part::infer("go")).await;
    assert_eq!(end.answer().unwrap().to_str().as_deref(), Some("done"));
    assert!(model.requests()[1].messages.last().unwrap().content.contains("answer to ok 5"));
    assert_eq!((ordinals(end.task()), desk.times()), (vec![1], 1));
    assert_sound(&system);
}

async fn asks(cx: HandlerContext, said: Message) -> Result<HandlerEnd, ToolError> {
    let prompt = said.parts[0].content().to_str().unwrap_or_default();
    let answer = cx.delegate("desk", prompt).await?;
    cx.say(answer.result.as_str()).await?;
    Ok(HandlerEnd::Completed)
}

#[tokio::test]
async fn a_handler_asks_another_agent() {
    let desk = Desk::idempotent();
    let peer = desk.clone();
    let system = system(move |builder: Builder| builder.handler(asks).peer(peer.clone())).await.unwrap();
    let end = run(&system, Part::text("ok 5")).await;
    assert_eq!((end.state(), ordinals(end.task())), (TaskState::Completed, vec![1]));
    let last = end.task().messages().last().unwrap().parts[0].clone();
    assert_eq!(last, Part::text("\"answer to ok 5\""));
    let end = run(&system, Part::text("fail 5")).await;
    assert_eq!((end.state(), end.task().error().as_deref()), (TaskState::Failed, Some("the desk broke")));
    assert_sound(&system);
}

#[tokio::test]
async fn a_failure_of_the_other_agent_is_an_error_that_the_tool_may_handle() {
    let desk = Desk::idempotent();
    let system = start(&desk, ToolPolicy::manual()).await;
    let end = run(&system, leads(&["fail 1", "reject 1", "ok 1"], &[])).await;
    assert_eq!(end.state(), TaskState::Completed);
    let said = outputs(end.task());
    assert!(said.contains("PeerError: the desk broke; Refused: not my work; completed:"), "{said}");
    assert_sound(&system);
}

#[tokio::test]
async fn an_outcome_that_may_not_be_repeated_is_unknown_to_the_tool_and_settled_by_a_person() {
    let desk = Desk::with(ToolPolicy::manual());
    let system = start(&desk, ToolPolicy::manual()).await;
    let end = run(&system, leads(&["lose 1"], &[])).await;
    let said = outputs(end.task());
    assert!(said.contains("OutcomeUnknown: the outcome of the request is unknown: the line broke"), "{said}");
    assert_eq!((children(end.task())[0].status.as_str(), desk.times()), ("unknown", 1));
    let child = children(end.task())[0].request.call_id.clone();
    let task = system.task(end.task().id()).unwrap();
    task.abandon(&child, "nobody knows", "ada").await.unwrap();
    assert_sound(&system);
}

#[tokio::test]
async fn a_verdict_on_a_request_is_evidence_and_neither_ends_nor_repeats_the_tool_that_asked_for_it() {
    let verdicts = [Verdict::Landed(json!("found").into()), Verdict::DidNotHappen];
    for verdict in verdicts.into_iter().map(Some).chain([None]) {
        let (desk, begun) = (Desk::with(ToolPolicy::manual()), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&begun);
        let unsure = move |cx: ToolContext, _: Nothing| {
            counter.fetch_add(1, Ordering::SeqCst);
            async move {
                let Err(_) = cx.delegate("desk", "lose 1").await else { return Ok("told".to_owned()) };
                cx.ask("Go on?").await
            }
        };
        let peer = desk.clone();
        let describe = move |builder: Builder| {
            builder.tool_with("unsure", "Asks", unsure.clone(), ToolPolicy::manual()).peer(peer.clone())
        };
        let system = system(describe).await.unwrap();
        let end = run(&system, Part::tool_call("unsure", json!({})).unwrap()).await;
        let child = children(end.task())[0].request.call_id.clone();
        let asks = end.task().open_questions().next().unwrap().request.call_id.clone();
        let task = system.task(end.task().id()).unwrap();
        match verdict {
            Some(verdict) => drop(task.reconcile(&child, verdict, "ada").await.unwrap()),
            None => drop(task.abandon(&child, "nobody knows", "ada").await.unwrap()),
        }
        let now = system.finish(&task).await.unwrap();
        assert_eq!(now.state(), TaskState::InputRequired, "{:?}", now.task().error());
        assert_eq!(now.task().open_questions().next().unwrap().request.call_id, asks);
        assert_eq!((begun.load(Ordering::SeqCst), now.task().artifacts().len()), (1, 0));
        task.answer(&asks, "yes", "ada").await.unwrap();
        let end = system.finish(&task).await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{:?}", end.task().error());
        assert_eq!((begun.load(Ordering::SeqCst), desk.times()), (2, 1));
        assert_sound(&system);
    }
}

#[tokio::test]
async fn a_request_that_the_policy_denies_or_that_cannot_be_made_has_no_intent() {
    let desk = Desk::idempotent();
    let deny = |builder: Builder| builder.capability_policy(CapabilityPolicy::new().deny("agent.delegate"));
    let system = start_with(&desk, ToolPolicy::manual(), deny).await;
    let end = run(&system, leads(&["ok 1"], &[])).await;
    let said = outputs(end.task());
    assert!(said.contains("Denied: Action 'desk' denied"), "{said}");
    assert_eq!((children(end.task()).len(), desk.times()), (0, 0));
    assert_sound(&system);

    let strays = |cx: ToolContext, _: Nothing| async move {
        let mut said = Vec::new();
        for agent in ["nobody", "agent", "desk"] {
            said.push(
                cx.delegate(agent, "ok 1")
                    .await
                    .map_or_else(|error| error.type_name().to_owned(), |_| "ok".into()),
            );
        }
        Ok::<_, ToolError>(said.join(" "))
    };
    let peer = desk.clone();
    let system = taskreel::testing::system(move |builder: Builder| {
        builder.tool("strays", "Strays", strays).peer(peer.clone())
    })
    .await
    .unwrap();
    let posted = json!({
        "messages": [{"role": "user", "parts": [{"type": "tool_call", "content": {"tool_name": "strays", "args": {}}}]}],
        "metadata": {"run_context": {"agent_chain": ["desk"]}},
    });
    let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap();
    let task = system.submit(posted).await.unwrap();
    let end = system.finish(&task).await.unwrap();
    let said = outputs(end.task());
    assert!(said.contains("UnknownAgent UnknownAgent CircularDelegation"), "{said}");
    assert_sound(&system);
}

#[tokio::test]
async fn requests_count_for_the_budget_of_the_task() {
    let desk = Desk::idempotent();
    let system = start(&desk, ToolPolicy::manual()).await;
    let part = |prompts: &[&str]| leads(prompts, &[]).to_json().tree();
    let posted = json!({
        "messages": [{"role": "user", "parts": [part(&["ok 1 a", "ok 1 b"]), part(&["ok 1 c"])]}],
        "metadata": {"run_context": {"budget": {"max_llm_calls": 2}}},
    });
    let posted = PostedTask::from_json(&JsonText::from(posted), &mut Ports::default()).unwrap();
    let task = system.submit(posted).await.unwrap();
    let end = system.finish(&task).await.unwrap();
    let said = outputs(end.task());
    assert!(said.contains("BudgetExceeded"), "the first request had used three: {said}");
    assert_eq!(end.state(), TaskState::Failed, "the second part does not begin");
    assert_eq!((desk.prompts(), children(end.task()).len()), (vec!["ok 1 a".to_owned()], 1));
    assert_sound(&system);
}

#[tokio::test]
async fn a_parent_that_holds_the_only_place_does_not_keep_its_request_waiting() {
    let desk = Desk::idempotent();
    let one = |builder: Builder| builder.max_concurrency(1);
    let system = start_with(&desk, ToolPolicy::manual().concurrency(1), one).await;
    let end = run(&system, leads(&["ok 5"], &[])).await;
    assert_eq!(end.state(), TaskState::Completed);
    assert!(outputs(end.task()).contains("answer to ok 5"), "{}", outputs(end.task()));
    assert_sound(&system);
}

#[tokio::test]
async fn requests_made_at_once_are_numbered_in_their_order_and_open_together() {
    let desk = Desk::idempotent();
    let (peer, both) = (desk.clone(), |cx: ToolContext, _: Nothing| async move {
        let (one, two) = tokio::join!(cx.delegate("desk", "ok 90 one"), cx.delegate("desk", "ok 10 two"));
        Ok::<_, ToolError>(format!("{} {}", one?.result, two?.result))
    });
    let system = system(move |builder: Builder| builder.tool("both", "Asks twice", both).peer(peer.clone()))
        .await
        .unwrap();
    let task = system.submit(message(vec![Part::tool_call("both", json!({})).unwrap()])).await.unwrap();
    system.advance(Duration::from_millis(50)).await;
    let now = task.snapshot().await.unwrap();
    let status: Vec<_> = children(now.task()).iter().map(|call| call.status.as_str()).collect();
    assert_eq!(status, ["in-flight", "succeeded"]);
    let end = system.finish(&task).await.unwrap();
    let targets: Vec<_> =
        children(end.task()).iter().map(|call| call.request.args.as_str().contains("ok 90 one")).collect();
    assert_eq!((ordinals(end.task()), targets), (vec![1, 2], vec![true, false]));
    assert_sound(&system);
}

#[tokio::test]
async fn a_request_that_is_given_up_keeps_its_place() {
    let desk = Desk::idempotent();
    let (peer, hasty) = (desk.clone(), |cx: ToolContext, _: Nothing| async move {
        let slow = cx.delegate("desk", "ok 5000 slow");
        let given_up = tokio::select! {
            _ = slow => false,
            () = taskreel::testing::sleep(Duration::from_millis(100)) => true,
        };
        let other = cx.delegate("desk", "ok 5 other").await?;
        Ok::<_, ToolError>(format!("{given_up} {}", other.result))
    });
    let system = system(move |builder: Builder| builder.tool("hasty", "Is hasty", hasty).peer(peer.clone()))
        .await
        .unwrap();
    let end = run(&system, Part::tool_call("hasty", json!({})).unwrap()).await;
    assert_eq!(
        (end.state(), ordinals(end.task())),
        (TaskState::Completed, vec![1, 2]),
        "{:?}",
        end.task().error()
    );
    assert_eq!(children(end.task())[0].status, CallStatus::Canceled, "it ends with its parent");
    assert_sound(&system);
}

#[tokio::test]
async fn a_tool_under_test_is_given_answers_by_its_context() {
    let agents = Arc::new(|agent: &str, work: AgentWork| {
        let said = JsonText::string(&format!("{agent} {work:?}"));
        let answer = AgentAnswer::new(TaskState::Completed, said);
        Box::pin(std::future::ready(Ok(answer))) as taskreel::tool::BoxFuture<'static, _>
    });
    let cx = ToolContext::new(ToolContextParts {
        agents: Some(agents),
        attempt: 1,
        ..ToolContextParts::default()
    });
    let asks = crate::desk::Asks { prompts: vec!["hello".into()], ends: Vec::new() };
    assert!(lead(cx, asks).await.unwrap().contains("desk Prompt"));
    let none = ToolContext::new(ToolContextParts::default());
    let error =
        none.delegate("desk", AgentWork::tool_call("look", JsonText::empty_object())).await.unwrap_err();
    assert_eq!(error.type_name(), "NoAgents");
}
