//! Agents of one system that ask each other, without HTTP and without peers that the host adds. A task whose request waits
//! for a person waits with it, and goes on when the other agent's task has ended.

#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proto_events::call::{Call, CallKind, CallStatus};
use proto_events::json;
use proto_events::model::RunContext;
use proto_events::task::{Task, TaskRejection};
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::infer::Scripted;
use taskreel::testing::{CrashMatrix, TestSystem, sleep, system};
use taskreel::tool::{AgentWork, ToolContext, ToolError, ToolPolicy};
use taskreel::{
    AgentBuilder, Builder, Error, JsonSchema, Message, Outcome, Part, RunBudget, StreamId, System,
    TaskHandle, TaskState,
};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::{Clock, Ports};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A model that asks the agent `bank` to pay, and then answers.
fn asks() -> Scripted {
    const SCRIPT: &str = r#"{"has ended": [{"type": "final", "content": "done"}], "": [
        {"type": "agent_call", "agent": "bank", "action": "tool_call", "tool": "pay", "args": {}},
        {"type": "final", "content": "done"}]}"#;
    Scripted::from_json(SCRIPT).unwrap()
}

/// The agent `bank`, whose tool needs a person's approval, and the number of its payments.
fn bank(paid: &Arc<AtomicUsize>) -> impl FnOnce(AgentBuilder) -> AgentBuilder + use<> {
    let paid = Arc::clone(paid);
    let pay = move |_: Nothing| {
        paid.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Ok::<_, Infallible>("paid"))
    };
    move |agent| {
        agent
            .description("Keeps the money")
            .tool_with("pay", "Pays", pay, ToolPolicy::idempotent().capabilities(["money"]))
            .capability_policy(CapabilityPolicy::new().require_approval("money"))
            .approvals_by_person()
    }
}

async fn teller(cx: ToolContext, _: Nothing) -> Result<String, ToolError> {
    let answer = cx.delegate("bank", AgentWork::tool_call("pay", json!({}))).await?;
    Ok(format!("{}: {}", answer.state, answer.result))
}

async fn clerk(cx: HandlerContext, _: Message) -> Result<HandlerEnd, ToolError> {
    let answer = cx.delegate("bank", AgentWork::tool_call("pay", json!({}))).await?;
    cx.say(answer.result.as_str()).await?;
    Ok(HandlerEnd::Completed)
}

/// The ways in which an agent asks another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Model,
    StatelessModel,
    Tool,
    ToolOfModel,
    Handler,
}

const WAYS: [Way; 5] = [Way::Model, Way::StatelessModel, Way::Tool, Way::ToolOfModel, Way::Handler];

impl Way {
    fn describe(self, builder: Builder) -> Builder {
        const TELLS: &str = r#"{"has ended": [{"type": "final", "content": "done"}],
            "": [{"type": "tool_call", "tool": "tell", "args": {}},
            {"type": "final", "content": "done"}]}"#;
        let policy = ToolPolicy::idempotent();
        let tool = |builder: Builder| builder.tool_with("tell", "Tells", teller, policy.clone());
        match self {
            Self::Model => builder.infer(asks()),
            Self::StatelessModel => builder.infer(asks()).stateless(),
            Self::Tool => tool(builder),
            Self::ToolOfModel => tool(builder).infer(Scripted::from_json(TELLS).unwrap()),
            Self::Handler => builder.handler_with(clerk, policy),
        }
    }

    fn part(self) -> Part {
        match self {
            Self::Model | Self::StatelessModel | Self::ToolOfModel => Part::infer("go"),
            Self::Tool => Part::tool_call("tell", json!({})).unwrap(),
            Self::Handler => Part::text("go"),
        }
    }
}

/// Starts the agent `desk`, which asks in this way, and the agent `bank`.
async fn team(way: Way, paid: &Arc<AtomicUsize>) -> TestSystem {
    let paid = Arc::clone(paid);
    system(move |builder| way.describe(builder.name("desk").delegation(true)).agent("bank", bank(&paid)))
        .await
        .unwrap()
}

fn delegated(task: &Task) -> &Call {
    task.calls().iter().find(|call| call.request.kind == CallKind::Delegate).unwrap()
}

fn context(task: &Task) -> RunContext {
    RunContext::from_json(task.metadata().get("run_context").unwrap(), &mut Ports::default()).unwrap()
}

/// Returns the one task of the bank.
async fn child_of(system: &System) -> TaskHandle {
    let bank = system.agent("bank").unwrap();
    let tasks = bank.tasks().page(10).await.unwrap().tasks;
    assert_eq!(tasks.len(), 1, "one task was sent: {tasks:?}");
    bank.task(&tasks[0].id).unwrap()
}

/// Gives the desk its work, and waits until it waits for the bank, which waits for a person.
async fn waits(system: &TestSystem, way: Way) -> (TaskHandle, TaskHandle) {
    let task = system.session("s").send(way.part()).await.unwrap();
    let rests = system.finish(&task).await.unwrap();
    assert_eq!(rests.state(), TaskState::InputRequired, "{way:?}: {}", rests.to_json());
    let child = child_of(system).await;
    assert_eq!(child.snapshot().await.unwrap().state(), TaskState::InputRequired);
    (task, child)
}

async fn approve(child: &TaskHandle) {
    let approval = child.approvals().await.unwrap()[0].request.approval_id.clone();
    child.approve(&approval, "ada").await.unwrap();
}

fn assert_sound(system: &TestSystem) {
    assert_eq!(verify(system.store().as_ref()).findings, []);
}

#[tokio::test]
async fn an_agent_finds_another_one_of_its_system_by_name_and_sends_it_a_task_of_its_own() {
    let model = asks();
    let (asked, says) = (model.clone(), |_: Nothing| async { Ok::<_, Infallible>("paid") });
    let describe = move |builder: Builder| {
        let desk = builder.name("desk").infer(asked.clone()).delegation(true);
        let desk = desk.run_budget(RunBudget::new().llm_calls(5).tool_calls(7));
        desk.agent("bank", move |agent| agent.tool("pay", "Pays", says).description("Keeps the money"))
    };
    let system = system(describe).await.unwrap();
    let task = system.session("s").send(Part::infer("go")).await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!((end.state(), end.answer().unwrap().as_str()), (TaskState::Completed, "\"done\""));
    let prompt = &model.requests()[0].messages[0].content;
    assert!(prompt.contains("Keeps the money") && prompt.contains("bank"), "{prompt}");
    let child = child_of(&system).await.snapshot().await.unwrap();
    let (ours, theirs) = (context(end.task()), context(child.task()));
    assert_eq!(theirs.parent_run_id.as_deref(), Some(ours.run_id.as_str()));
    assert_eq!(theirs.agent_chain, ["desk", "bank"]);
    let budget = theirs.budget.to_json().as_str().to_owned();
    assert!(budget.contains("\"max_llm_calls\":4"), "what is left is sent: {budget}");
    assert_eq!(delegated(end.task()).request.recovery.as_str(), "idempotent");
    assert_sound(&system);
}

#[tokio::test]
async fn nobody_is_asked_until_delegation_is_on_and_only_those_who_were_chosen() {
    for (on, chosen, is_asked) in [(false, None, false), (true, None, true), (true, Some("other"), false)] {
        let model = asks();
        let (asked, says) = (model.clone(), |_: Nothing| async { Ok::<_, Infallible>("paid") });
        let describe = move |builder: Builder| {
            let desk = builder.name("desk").infer(asked.clone()).delegation(on);
            let desk = match chosen {
                Some(name) => desk.delegates_to([name]),
                None => desk,
            };
            desk.agent("bank", move |agent| agent.tool("pay", "Pays", says)).agent("other", |agent| agent)
        };
        let system = system(describe).await.unwrap();
        let task = system.submit(Part::infer("go")).await.unwrap();
        assert_eq!(system.finish(&task).await.unwrap().state(), TaskState::Completed);
        let told = model.requests()[1].messages.last().unwrap().content.clone();
        let tasks = system.agent("bank").unwrap().tasks().page(10).await.unwrap().tasks;
        assert_eq!(tasks.len(), usize::from(is_asked), "{told}");
        assert!(is_asked || told.contains("not available") || told.contains("not found"), "{told}");
    }
    for name in ["nobody", "desk"] {
        let store = Arc::new(MemoryStore::new());
        let builder = System::builder("-").store(store).name("desk").delegates_to([name]);
        let Err(Error::Builder(why)) = builder.agent("bank", |agent| agent).start().await else {
            panic!("{name}")
        };
        assert!(why.contains(&format!("is to ask the agent `{name}`")), "{why}");
    }
}

#[tokio::test]
async fn a_task_waits_while_the_other_agents_task_waits_for_a_person_and_goes_on_when_that_has_ended() {
    for way in WAYS {
        let paid = Arc::new(AtomicUsize::new(0));
        let system = team(way, &paid).await;
        let (task, child) = waits(&system, way).await;
        let waiting = system.waiting().await.unwrap();
        assert_eq!(waiting[0].tasks, [child.stream().clone()], "{way:?}: what it waits for is named");
        assert!(waiting[0].questions.is_empty() && task.questions().await.unwrap().is_empty());
        let outcome = task.settled().await.unwrap();
        assert!(
            matches!(&outcome, Outcome::AwaitsTasks(tasks) if *tasks == [child.stream().clone()]),
            "{outcome:?}"
        );
        // A day passes: no timeout of the call's counts while a person is waited for.
        system.advance(Duration::from_secs(86_400)).await;
        assert_eq!(task.snapshot().await.unwrap().state(), TaskState::InputRequired);
        approve(&child).await;
        system.run_out_timers().await.unwrap();
        let end = system.finish(&task).await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{way:?}: {}", end.to_json());
        assert!(end.to_json().as_str().contains("paid") || !matches!(way, Way::Tool | Way::Handler));
        assert_eq!(paid.load(Ordering::SeqCst), 1);
        assert!(system.waiting().await.unwrap().is_empty());
        assert_sound(&system);
    }
}

#[tokio::test]
async fn a_model_is_told_the_result_of_the_agent_that_waited_for_a_person_and_its_session_waits_for_nobody() {
    let (model, paid) = (asks(), Arc::new(AtomicUsize::new(0)));
    let (asked, of_bank) = (model.clone(), Arc::clone(&paid));
    let describe = move |builder: Builder| {
        builder.name("desk").infer(asked.clone()).delegation(true).agent("bank", bank(&of_bank))
    };
    let system = system(describe).await.unwrap();
    let (task, child) = waits(&system, Way::Model).await;
    let other = system.session("s").send(Part::text("a note")).await.unwrap();
    assert_eq!(system.finish(&other).await.unwrap().state(), TaskState::Completed, "the session is free");
    let history = system.session("s").history().await.unwrap();
    assert!(history.as_slice().iter().any(|message| message.content.contains("waiting for a person")));
    approve(&child).await;
    system.run_out_timers().await.unwrap();
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Completed);
    let requests = model.requests();
    let told: Vec<_> =
        requests[1].messages.iter().rev().take(2).map(|message| message.content.clone()).collect();
    assert!(
        told[0].contains(r#""type": "agent_result", "agent": "bank", "action": "tool_call""#),
        "{told:?}"
    );
    assert!(told[0].contains("paid") && told[1].contains("has ended. Do not make it again"), "{told:?}");
    assert_sound(&system);
}

#[tokio::test]
async fn the_wait_survives_a_restart_and_the_other_agents_task_is_taken_up_and_not_sent_again() {
    for way in WAYS {
        for approved_before in [false, true] {
            let paid = Arc::new(AtomicUsize::new(0));
            let mut system = team(way, &paid).await;
            let (task, child) = waits(&system, way).await;
            if !approved_before {
                system = system.crash().await.unwrap();
            }
            let child = system.agent("bank").unwrap().task(child.id()).unwrap();
            approve(&child).await;
            if approved_before {
                system = system.crash().await.unwrap();
            }
            system.run_out_timers().await.unwrap();
            let task = system.task(task.id()).unwrap();
            let end = system.finish(&task).await.unwrap();
            assert_eq!(end.state(), TaskState::Completed, "{way:?}: {}", end.to_json());
            assert_eq!(paid.load(Ordering::SeqCst), 1);
            child_of(&system).await;
            assert_sound(&system);
        }
    }
}

#[tokio::test]
async fn at_every_cut_of_the_log_the_wait_ends_once_a_person_has_decided() {
    for way in WAYS {
        let describe = move |builder: Builder| {
            let paid = Arc::new(AtomicUsize::new(0));
            way.describe(builder.name("desk").delegation(true)).agent("bank", bank(&paid))
        };
        let decides = async |system: &System| {
            for waiting in system.agent("bank").unwrap().waiting().await.unwrap() {
                for approval in waiting.approvals {
                    let id = approval.request.approval_id;
                    let _ = system.agent("bank").unwrap().approve(&waiting.task.id, &id, "ada").await;
                }
            }
        };
        let matrix = CrashMatrix::of(describe, move |driver| async move {
            let task = driver.session("s").send(way.part()).await?;
            driver.finish(&task).await?;
            decides(&driver).await;
            driver.run_out_timers().await?;
            driver.finish(&task).await.map(drop)
        });
        let matrix = matrix.afterwards(move |driver| async move {
            driver.run_out_timers().await?;
            decides(&driver).await;
            driver.run_out_timers().await?;
            for task in driver.tasks().page(10).await?.tasks {
                assert_eq!(task.state, TaskState::Completed, "{way:?}: {task:?}");
            }
            Ok(())
        });
        let report = matrix.run().await.unwrap_or_else(|broken| panic!("{way:?}: {broken}"));
        assert!(report.cuts > 5, "{report:?}");
    }
}

#[tokio::test]
async fn the_other_agents_task_is_canceled_with_the_one_that_waits_for_it() {
    for way in WAYS {
        let paid = Arc::new(AtomicUsize::new(0));
        let system = team(way, &paid).await;
        let (task, child) = waits(&system, way).await;
        task.cancel(Some("no longer needed")).await.unwrap();
        system.run_out_timers().await.unwrap();
        assert_eq!(child.snapshot().await.unwrap().state(), TaskState::Canceled, "{way:?}");
        assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Canceled);
        assert_eq!(paid.load(Ordering::SeqCst), 0);
        assert_sound(&system);
    }
}

#[tokio::test]
async fn a_task_goes_on_too_when_the_other_agents_task_was_denied_or_canceled() {
    for way in WAYS {
        for cancels in [false, true] {
            let paid = Arc::new(AtomicUsize::new(0));
            let system = team(way, &paid).await;
            let (task, child) = waits(&system, way).await;
            if cancels {
                child.cancel(None).await.unwrap();
            } else {
                let approval = child.approvals().await.unwrap()[0].request.approval_id.clone();
                child.deny(&approval, Some("too much"), "ada").await.unwrap();
            }
            system.run_out_timers().await.unwrap();
            let end = task.snapshot().await.unwrap();
            assert!(end.state().is_terminal(), "{way:?}, {cancels}: {}", end.to_json());
            assert!(!delegated(end.task()).status.is_open());
            if !cancels {
                assert!(end.to_json().as_str().contains("too much"), "{way:?}: {}", end.to_json());
            }
            assert_eq!(paid.load(Ordering::SeqCst), 0);
            assert_sound(&system);
        }
    }
}

#[tokio::test]
async fn a_text_is_no_decision_about_the_other_agents_task() {
    let paid = Arc::new(AtomicUsize::new(0));
    let system = team(Way::Model, &paid).await;
    let (task, child) = waits(&system, Way::Model).await;
    let waiting = delegated(task.snapshot().await.unwrap().task()).question_id();
    let refused = task.answer(&waiting, "yes", "ada").await.unwrap_err();
    let names = |error: &Error| matches!(error, Error::Task(TaskRejection::AwaitsTask { task, .. }) if *task == child.stream().to_string());
    assert!(names(&refused), "{refused}");
    let said = Message::user("yes", &mut Ports::default());
    let refused = task.command(proto_events::task::TaskCommand::AppendMessage(said)).await.unwrap_err();
    assert!(names(&refused), "{refused}");
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::InputRequired);
    approve(&child).await;
    system.run_out_timers().await.unwrap();
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Completed);
}

#[tokio::test]
async fn what_calls_in_flight_wait_for_at_other_agents_goes_on_while_the_system_shuts_down() {
    let slow = |_: Nothing| async {
        sleep(Duration::from_secs(3)).await;
        Ok::<_, Infallible>("slept")
    };
    let then = |_: Nothing| async { Ok::<_, Infallible>("then") };
    let two = r#"{"": [{"type": "tool_call", "tool": "slow", "args": {}}, {"type": "tool_call", "tool": "then", "args": {}},
        {"type": "final", "content": "rested"}]}"#;
    let asks_it = async |cx: ToolContext, _: Nothing| -> Result<String, ToolError> {
        Ok(cx.delegate("other", "go").await?.result.to_string())
    };
    let describe = move |builder: Builder| {
        builder.name("desk").tool_with("ask", "Asks", asks_it, ToolPolicy::manual()).delegation(true).agent(
            "other",
            |agent| {
                agent
                    .tool("slow", "Sleeps", slow)
                    .tool("then", "Goes on", then)
                    .infer(Scripted::from_json(two).unwrap())
            },
        )
    };
    let system = system(describe).await.unwrap();
    let task = system.submit(Part::tool_call("ask", json!({})).unwrap()).await.unwrap();
    system.until_idle().await;
    let (store, stream) = (Arc::clone(system.store()), task.stream().clone());
    system.shutdown().await.unwrap();
    let store = taskreel_log::api::EventStore::reopen(store.as_ref()).unwrap();
    let folded = taskreel_log::read::fold_stream::<Task>(store.as_ref(), &stream, None).unwrap();
    let call = folded.state.calls().iter().find(|call| call.request.kind == CallKind::Tool).unwrap();
    assert!(
        matches!(&call.status, CallStatus::Succeeded(result) if result.as_str().contains("rested")),
        "{call:?}"
    );
    assert_eq!(verify(store.as_ref()).findings, []);
}

#[tokio::test]
async fn two_agents_that_ask_each_other_with_one_call_at_a_time_do_not_wait_for_each_other() {
    let script = |other: &str| {
        let asks = json!({"": [
            {"type": "agent_call", "agent": other, "action": "infer", "prompt": "short"},
            {"type": "final", "content": "done"}
        ], "short": [{"type": "final", "content": "short"}]});
        Scripted::from_json(&asks.to_string()).unwrap()
    };
    let (one, other) = (script("b"), script("a"));
    let describe = move |builder: Builder| {
        let theirs = other.clone();
        let one = builder.name("a").infer(one.clone()).stateless().max_concurrency(1).delegation(true);
        one.agent("b", move |agent| agent.infer(theirs).stateless().max_concurrency(1).delegation(true))
    };
    let system = system(describe).await.unwrap();
    let mut tasks = Vec::new();
    for name in ["a", "b"] {
        tasks.push(system.agent(name).unwrap().submit(Part::infer("go")).await.unwrap());
    }
    let began = system.clock().now();
    for task in &tasks {
        let end = system.finish(task).await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    }
    assert!(system.clock().now().since(began) < Duration::from_secs(60), "nobody has waited for a timeout");
    assert_sound(&system);
}

#[tokio::test]
async fn a_forged_sender_in_a_tasks_metadata_changes_nothing() {
    let paid = Arc::new(AtomicUsize::new(0));
    let system = team(Way::Model, &paid).await;
    let (task, _) = waits(&system, Way::Model).await;
    let call = delegated(task.snapshot().await.unwrap().task()).request.call_id.clone();
    for forged in [task.stream().clone(), StreamId::task("nobody", "t").unwrap()] {
        let sender = json!({"task": forged.to_string(), "call_id": call.clone()});
        let run = system.agent("bank").unwrap().session("x").run(Part::text("note"));
        let forged = run.metadata("taskreel.sent_by", sender).await.unwrap();
        assert_eq!(system.finish(&forged).await.unwrap().state(), TaskState::Completed);
    }
    system.run_out_timers().await.unwrap();
    assert_eq!(task.snapshot().await.unwrap().state(), TaskState::InputRequired, "it waits for its own");
    assert_eq!(paid.load(Ordering::SeqCst), 0);
    assert_sound(&system);
}
