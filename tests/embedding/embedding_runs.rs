//! Runs with options, what their tools are told of them, and how they end.

#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::sync::Arc;
use std::time::Duration;

use crate::call_support::{Nothing, call, memory, soon};
use proto_events::envelope::Basis;
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::BudgetLimit;
use serde::Deserialize;
use taskreel::approval::{ApprovalRequest, ApprovalVerdict, CapabilityPolicy, PolicyEffect};
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::infer::Scripted;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{
    Builder, Error, Failure, InferAs, JsonSchema, Message, Outcome, Part, PostedTask, RunBudget, System,
    TaskState,
};
use taskreel_log::api::EventStore;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;

async fn who(cx: ToolContext, _: Nothing) -> Result<String, ToolError> {
    let tenant = cx.metadata().get("tenant").and_then(JsonText::to_str).unwrap_or_default();
    let known = cx.principal().basis == Basis::Authenticated;
    Ok(format!("{} {} {} {} {known}", cx.session_id(), tenant, cx.principal(), cx.run()))
}

async fn fails(_: Nothing) -> Result<(), ToolError> {
    Err(ToolError::failed("broke"))
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Verdict {
    grade: u8,
}

fn agent(store: &Arc<MemoryStore>) -> Builder {
    agent_over(Arc::clone(store) as Arc<dyn EventStore>)
}

fn agent_over(store: Arc<dyn EventStore>) -> Builder {
    let model = Scripted::from_json(
        r#"{"grade":[{"type":"final","content":"{\"grade\": 7}"}],"odd":["no action","no action","no action"]}"#,
    );
    System::builder("-").store(store).infer(model.unwrap()).tool("who", "", who).tool("fails", "", fails)
}

#[tokio::test]
async fn a_run_carries_its_options_to_its_tools_and_into_the_log() {
    let store = memory();
    let system = agent(&store).run_metadata("service", JsonText::string("desk")).start().await.unwrap();
    let budget = RunBudget::new().llm_calls(4).runtime(Duration::from_secs(60));
    let task = system
        .session("ada")
        .run(call("who"))
        .id("order-1")
        .budget(budget.clone())
        .metadata("tenant", "acme")
        .principal(taskreel::Principal::authenticated("ada@example.org"))
        .await
        .unwrap();
    assert_eq!(task.id(), "order-1");
    let outcome = soon(task.settled()).await.unwrap();
    assert_eq!(outcome.answer::<String>().unwrap(), "ada acme ada@example.org 1 true");
    let Outcome::Completed(end) = outcome else { panic!("{outcome:?}") };
    assert_eq!(end.task().run_budget().unwrap().unwrap(), &budget);
    assert_eq!(end.task().metadata().get("service"), Some(&JsonText::string("desk")), "the agent's default");
    assert_eq!(end.task().principal().name, "ada@example.org");
    system.shutdown().await.unwrap();
    // All of it is in the log.
    let system = agent_over(store.reopen().unwrap()).start().await.unwrap();
    let again = system.task("order-1").unwrap().snapshot().await.unwrap();
    assert_eq!(again.task(), end.task());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_agents_budget_holds_for_tasks_without_one_and_an_own_one_replaces_it() {
    let system = agent(&memory()).run_budget(RunBudget::new().llm_calls(0)).start().await.unwrap();
    let desk = system.session("desk");
    let Outcome::Failed(Failure::Budget(over)) =
        soon(desk.run("grade").await.unwrap().settled()).await.unwrap()
    else {
        panic!("the default must hold")
    };
    assert_eq!((over.limit, over.allowed), (BudgetLimit::LlmCalls, 0.0));
    let plain = soon(desk.send(Part::infer("grade")).await.unwrap().settled()).await.unwrap();
    assert!(matches!(plain, Outcome::Failed(Failure::Budget(_))), "{plain:?}");
    let own = desk.run("grade").budget(RunBudget::new().llm_calls(1)).await.unwrap();
    assert!(soon(own.settled()).await.unwrap().is_completed());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_unknown_key_in_a_budget_or_run_context_is_refused_and_never_no_limit() {
    let system = agent(&memory()).start().await.unwrap();
    let desk = system.session("desk");
    for (metadata, within) in [
        (r#"{"budget":{"max_llm_call":4}}"#, "metadata.budget"),
        (r#"{"run_context":{"run_id":"r","budgt":{}}}"#, "metadata.run_context"),
        (r#"{"run_context":{"run_id":"r","budget":{"steps":4}}}"#, "metadata.run_context.budget"),
    ] {
        let mut mint = Ports::default();
        let message = taskreel::Message::new("user", vec![Part::infer("grade")], &mut mint);
        let mut task = PostedTask::new(message, &mut mint);
        task.metadata = JsonText::parse(metadata).unwrap().read().unwrap();
        for refused in [system.submit(task.clone()).await, desk.run(task.clone()).await] {
            let refused = refused.unwrap_err();
            assert!(matches!(&refused, Error::UnknownKey { within: at, .. } if at == within), "{refused}");
        }
    }
    for reserved in ["budget", "run_context", "session_id"] {
        let refused = desk.run("grade").metadata(reserved, 1).await.unwrap_err();
        assert!(matches!(refused, Error::RunRequest(_)), "{refused}");
    }
    let mut own = RunBudget::new();
    own.metadata.set("max_cost", JsonText::parse("1").unwrap());
    assert!(desk.run("grade").budget(own).await.is_ok(), "a budget's own metadata is no limit");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_key_makes_one_run_in_the_system_whatever_the_ids_and_after_a_restart_too() {
    let store = memory();
    let system = agent(&store).start().await.unwrap();
    let desk = system.session("desk");
    let first = desk.run("grade").once("k1").await.unwrap();
    assert_eq!(desk.run("grade").once("k1").await.unwrap().id(), first.id(), "a repetition is the same task");
    let other = desk.run("other").once("k1").await.unwrap_err();
    assert!(matches!(other, Error::CommandIdReused { .. }), "{other}");
    let named = desk.run("grade").id("order-1").once("k2").await.unwrap();
    let clash = desk.run("grade").id("order-2").once("k2").await.unwrap_err();
    assert!(matches!(clash, Error::CommandIdReused { .. }), "unique in the system, not per task: {clash}");
    assert_eq!(desk.run("grade").once("k2").await.unwrap().id(), "order-1");
    for task in [&first, &named] {
        soon(task.finished()).await.unwrap();
    }
    system.shutdown().await.unwrap();
    let system = agent_over(store.reopen().unwrap()).start().await.unwrap();
    let desk = system.session("desk");
    let clash = desk.run("grade").id("order-2").once("k2").await.unwrap_err();
    assert!(matches!(clash, Error::CommandIdReused { .. }), "{clash}");
    assert_eq!(desk.run("grade").id("order-1").once("k2").await.unwrap().id(), "order-1");
    assert_eq!(desk.run("grade").once("k1").await.unwrap().id(), first.id());
    // A key whose run was refused is free again.
    assert!(desk.run("grade").id("").once("k3").await.is_err());
    assert_eq!(desk.run("grade").id("order-3").once("k3").await.unwrap().id(), "order-3");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_end_names_the_tool_the_model_the_denial_or_the_person_that_it_waits_for() {
    let policy = || CapabilityPolicy::default().rule("money", PolicyEffect::RequireApproval);
    let spends = || ToolPolicy::manual().capabilities(["money"]);
    let asked = |request: ApprovalRequest| async move {
        match request.metadata.get("tenant").and_then(JsonText::to_str).as_deref() {
            Some("acme") => {
                ApprovalVerdict::Denied { reason: Some(format!("{} may not", request.principal)) }
            }
            _ => ApprovalVerdict::AskPerson,
        }
    };
    let builder = agent(&memory()).tool_with("pay", "", who, spends()).capability_policy(policy());
    let system = builder.approval_handler(asked).start().await.unwrap();
    let desk = system.session("desk");
    let settled =
        |run: taskreel::RunRequest| async move { soon(run.await.unwrap().settled()).await.unwrap() };
    let end = settled(desk.run(call("fails"))).await;
    assert!(matches!(&end, Outcome::Failed(Failure::Tool { tool, .. }) if tool == "fails"), "{end:?}");
    let end = settled(desk.run("odd")).await;
    assert!(matches!(&end, Outcome::Failed(Failure::Model { .. })), "{end:?}");
    let end = settled(desk.run(call("pay")).metadata("tenant", "acme").principal("eve")).await;
    assert!(
        matches!(&end, Outcome::Failed(Failure::Denied { error }) if error.contains("eve may not")),
        "{end:?}"
    );
    let waits = desk.run(call("pay")).id("t-wait").await.unwrap();
    let end = soon(waits.settled()).await.unwrap();
    let Outcome::AwaitsApproval(approvals) = &end else { panic!("{end:?}") };
    assert_eq!(approvals.first().map(|approval| approval.request.tool.as_str()), Some("pay"));
    assert!(matches!(end.answer::<String>().unwrap_err(), Error::Answer { .. }));
    waits.cancel(Some("enough")).await.unwrap();
    let end = soon(waits.settled()).await.unwrap();
    assert!(matches!(&end, Outcome::Canceled(Some(reason)) if reason == "enough"), "{end:?}");
    system.shutdown().await.unwrap();
}

async fn hangs(_: Nothing) -> Result<(), ToolError> {
    std::future::pending().await
}

async fn asks_back(_: HandlerContext, _: Message) -> Result<HandlerEnd, ToolError> {
    Ok(HandlerEnd::InputRequired("Which city?".into()))
}

#[tokio::test]
async fn an_end_names_the_calls_whose_outcome_is_unknown_and_what_a_task_waits_for() {
    let policy = ToolPolicy::manual().timeout(Duration::from_millis(20));
    let system = agent(&memory()).tool_with("hangs", "", hangs, policy).start().await.unwrap();
    let task = system.session("desk").run(call("hangs")).await.unwrap();
    let end = soon(task.settled()).await.unwrap();
    let Outcome::OutcomeUnknown(calls) = &end else { panic!("{end:?}") };
    assert_eq!(calls.iter().map(|call| call.request.target.as_str()).collect::<Vec<_>>(), ["hangs"]);
    let waiting = system.waiting().await.unwrap();
    assert_eq!(waiting.iter().map(|task| task.unknown.len()).collect::<Vec<_>>(), [1]);
    system.shutdown().await.unwrap();
    let builder = System::builder("-").store(memory()).handler_with(asks_back, ToolPolicy::manual());
    let system = builder.start().await.unwrap();
    let task = system.submit(Message::user("the weather?", &mut Ports::default())).await.unwrap();
    let end = soon(task.settled()).await.unwrap();
    let Outcome::AwaitsInput(end) = &end else { panic!("{end:?}") };
    let last = end.task().messages().last().and_then(|message| message.parts.first().cloned()).unwrap();
    assert_eq!(last.content().to_str().as_deref(), Some("Which city?"));
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_answer_has_the_type_that_its_prompt_asked_for() {
    let system = agent(&memory()).start().await.unwrap();
    let part = Part::infer_as::<Verdict>("grade");
    assert!(part.content().as_str().contains("\"grade\":{"), "the schema is in the part: {}", part.content());
    let outcome = soon(system.session("s").run(part).await.unwrap().settled()).await.unwrap();
    assert_eq!(outcome.answer::<Verdict>().unwrap(), Verdict { grade: 7 });
    let wrong = outcome.answer::<Vec<bool>>().unwrap_err();
    assert!(matches!(wrong, Error::Answer { .. }), "{wrong}");
    let tool = soon(system.session("s").run(call("who")).await.unwrap().settled()).await.unwrap();
    assert!(tool.answer::<String>().unwrap().starts_with("s "), "the result of a tool, not its wrapping");
    let state = system.session("s").run(json_part()).await.unwrap().finished().await.unwrap().state();
    assert_eq!(state, TaskState::Completed);
    system.shutdown().await.unwrap();
}

fn json_part() -> Part {
    Part::json(json!({"a": 1})).unwrap()
}

#[tokio::test]
async fn a_run_whose_budget_is_used_up_waits_as_it_is_and_goes_on_when_a_person_raises_it() {
    let store = memory();
    let script = r#"{"go":[{"type":"tool_call","tool":"who","args":{}},{"type":"final","content":"done"}]}"#;
    let desk = |store: Arc<dyn EventStore>| {
        let model = Scripted::from_json(script).unwrap();
        let builder = System::builder("-").store(store).infer(model).tool("who", "", who);
        builder.on_budget(taskreel::BudgetStop::WaitForPerson).run_budget(RunBudget::new().llm_calls(1))
    };
    for stateless in [false, true] {
        let builder = desk(memory());
        let builder = if stateless { builder.stateless() } else { builder };
        let system = builder.start().await.unwrap();
        let task = system.session("s").run("go").await.unwrap();
        let end = soon(task.settled()).await.unwrap();
        let Outcome::AwaitsApproval(asked) = &end else { panic!("{end:?}") };
        let over = asked.first().unwrap().request.exceeded_budget().unwrap();
        assert_eq!((over.limit, over.used, over.allowed), (BudgetLimit::LlmCalls, 2.0, 1.0));
        assert_eq!(system.waiting().await.unwrap().len(), 1);
        // Sent again under its id, it is the same command.
        for _ in 0..2 {
            task.once("raised").raise_budget(RunBudget::new().llm_calls(2), "eve").await.unwrap();
        }
        let end = soon(task.settled()).await.unwrap();
        assert_eq!(end.answer::<String>().unwrap(), "done");
        let Outcome::Completed(end) = end else { panic!("{end:?}") };
        assert_eq!(
            end.task().calls().iter().count(),
            3,
            "two inferences and one tool call: nothing is paid again"
        );
        assert!(system.waiting().await.unwrap().is_empty());
        let report = taskreel_log::audit::verify(system.log().as_ref());
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        system.shutdown().await.unwrap();
    }
    // The question outlives a restart; approved without a raise it is asked again, denied it fails the task.
    let system = desk(Arc::clone(&store) as Arc<dyn EventStore>).start().await.unwrap();
    let task = system.session("s").run("go").id("t").await.unwrap();
    let asked = |end: Outcome| match end {
        Outcome::AwaitsApproval(asked) => asked.first().unwrap().request.approval_id.clone(),
        other => panic!("{other:?}"),
    };
    let first = asked(soon(task.settled()).await.unwrap());
    system.shutdown().await.unwrap();
    let system = desk(store.reopen().unwrap()).start().await.unwrap();
    let task = system.task("t").unwrap();
    assert_eq!(asked(soon(task.settled()).await.unwrap()), first);
    task.approve(&first, "eve").await.unwrap();
    let again = asked(soon(task.settled()).await.unwrap());
    assert_ne!(again, first);
    task.deny(&again, Some("enough"), "eve").await.unwrap();
    let end = soon(task.settled()).await.unwrap();
    assert!(matches!(end, Outcome::Failed(Failure::Budget(over)) if over.limit == BudgetLimit::LlmCalls));
    system.shutdown().await.unwrap();
}
