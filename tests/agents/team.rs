//! Agents of one system that ask each other, without HTTP and without peers that the host adds. A task whose request waits
//! for a person waits with it, and goes on when the other agent's task has ended.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::team_support::{
    Nothing, WAYS, Way, approve, asks, assert_sound, bank, child_of, context, delegated, team, waits,
};
use proto_events::call::{CallKind, CallStatus};
use proto_events::json;
use proto_events::task::{Task, TaskCommand, TaskRejection};
use taskreel::infer::Scripted;
use taskreel::testing::{sleep, system};
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, Error, Message, Outcome, Part, RunBudget, System, TaskState};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::{Clock, Ports};

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
async fn a_text_is_no_decision_about_the_other_agents_task() {
    let paid = Arc::new(AtomicUsize::new(0));
    let system = team(Way::Model, &paid).await;
    let (task, child) = waits(&system, Way::Model).await;
    let waiting = delegated(task.snapshot().await.unwrap().task()).question_id();
    let refused = task.answer(&waiting, "yes", "ada").await.unwrap_err();
    let names = |error: &Error| matches!(error, Error::Task(TaskRejection::AwaitsTask { task, .. }) if *task == child.stream().to_string());
    assert!(names(&refused), "{refused}");
    let said = Message::user("yes", &mut Ports::default());
    let refused = task.command(TaskCommand::AppendMessage(said)).await.unwrap_err();
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
