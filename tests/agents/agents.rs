//! Several agents in one system: each with tools, a model, settings and streams of its own, over one log, with one start,
//! one socket and one end.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::call_support::{Nothing, call, soon};
use proto_events::id::{Position, StreamId, Version};
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::system::SystemEvent;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::{Entry, Scripted};
use taskreel::limits::{AGENTS_MAX, RESERVED_AGENT_NAMES};
use taskreel::tool::{ToolContext, ToolPolicy};
use taskreel::{AgentBuilder, Builder, Error, Message, Part, PostedTask, System, TaskState};
use taskreel_log::api::EventStore;
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::read::decode_record;
use tokio::sync::Notify;

type Store = Arc<dyn EventStore>;

fn on(store: &Store) -> Builder {
    System::builder("-").store(Arc::clone(store)).name("desk")
}

fn memory() -> Store {
    Arc::new(MemoryStore::new())
}

/// Opens the log of a system that was shut down.
fn reopened(store: &Store) -> Store {
    store.reopen().unwrap()
}

fn answers(text: &str) -> Scripted {
    Scripted::new([Entry::json(&json!({"type": "final", "content": text}))])
}

/// Returns a task of this id with one call of the tool `who`.
fn asks_who(id: &str) -> PostedTask {
    let mut mint = Ports::default();
    let part = Part::tool_call("who", json!({})).unwrap();
    let message = Message::new("user", vec![part.hydrated(&mut mint).unwrap()], &mut mint);
    PostedTask { id: id.to_owned(), ..PostedTask::new(message, &mut mint) }
}

/// Adds a tool that says whose it is.
fn says(name: &'static str) -> impl FnOnce(AgentBuilder) -> AgentBuilder {
    move |agent| agent.tool("who", "Says who", move |_: Nothing| async move { Ok::<_, Infallible>(name) })
}

/// The refusal of a start.
async fn refusal(builder: Builder) -> String {
    match builder.start().await {
        Err(error) => error.to_string(),
        Ok(_) => panic!("the system has started"),
    }
}

fn names_in_starts(store: &Store) -> Vec<Vec<String>> {
    let stream = StreamId::of_system(store.fence().partition);
    let records = store.read_stream(&stream, Version(1), 100).unwrap();
    let events = records.iter().flat_map(|record| decode_record::<SystemEvent>(record).unwrap());
    let started = events.filter_map(|recorded| match recorded.event {
        SystemEvent::Started(started) => Some(started.agents.into_iter().map(|agent| agent.name).collect()),
        _ => None,
    });
    started.collect()
}

#[tokio::test]
async fn tasks_of_the_same_id_are_each_agents_own_with_its_tools_and_streams() {
    let store = memory();
    let desk = |_: Nothing| async { Ok::<_, Infallible>("desk") };
    let builder = on(&store).tool("who", "Says who", desk).agent("archive", says("archive"));
    let system = builder.start().await.unwrap();
    let archive = system.agent("archive").unwrap();
    assert_eq!((system.agent_name(), archive.agent_name()), ("desk", "archive"));
    assert_eq!(archive.agents(), ["desk", "archive"]);
    assert!(system.agent("none").is_none() && archive.agent("desk").is_some());
    for (agent, name) in [(&system, "desk"), (&archive, "archive")] {
        let end = agent.submit(asks_who("t")).await.unwrap().finished().await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
        assert!(end.answer().unwrap().as_str().contains(name), "{}", end.to_json());
        let tasks = agent.tasks().page(10).await.unwrap().tasks;
        assert_eq!(tasks.len(), 1, "{tasks:?}");
        assert!(store.stream_version(&StreamId::task(name, "t").unwrap()).unwrap().0 > 0);
    }
    let canceled = archive.cancel("u", None).await.unwrap_err();
    assert!(matches!(canceled, Error::TaskNotFound(_)), "{canceled}");
    system.shutdown().await.unwrap();
    assert!(matches!(archive.submit(Part::text("late")).await, Err(Error::Stopped)));
    let store = reopened(&store);
    assert_eq!(names_in_starts(&store), [["desk", "archive"]], "one start names both");
    assert_eq!(verify(store.as_ref()).findings, []);
}

#[tokio::test]
async fn conversations_of_the_same_name_models_prompts_and_settings_are_each_agents_own() {
    let (store, one, other) = (memory(), answers("one"), answers("other"));
    let (ones, others) = (one.clone(), other.clone());
    let builder = on(&store).infer(ones).system_prompt("Be one.").agent("other", move |agent| {
        agent.infer(others).system_prompt("Be other.").run_metadata("tenant", JsonText::string("x"))
    });
    let system = builder.agent("silent", AgentBuilder::stateless).start().await.unwrap();
    for (name, model) in [("desk", &one), ("other", &other)] {
        let agent = system.agent(name).unwrap();
        let end = agent.session("s").send(Part::infer("go")).await.unwrap().finished().await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
        assert_eq!(agent.session("s").history().await.unwrap().len(), 3);
        assert_eq!(end.task().metadata().get("tenant").is_some(), name == "other");
        let prompt = &model.requests()[0].messages[0].content;
        assert!(prompt.contains(if name == "desk" { "Be one." } else { "Be other." }), "{prompt}");
    }
    let silent = system.agent("silent").unwrap();
    let end = silent.submit(Part::infer("go")).await.unwrap().finished().await.unwrap();
    assert!(end.to_json().as_str().contains("no_llm"), "it has no model: {}", end.to_json());
    system.shutdown().await.unwrap();
    assert_eq!(verify(reopened(&store).as_ref()).findings, []);
}

#[tokio::test]
async fn names_that_are_taken_invalid_or_part_of_an_address_are_refused_at_the_start() {
    let plain = |agent: AgentBuilder| agent;
    let text = refusal(on(&memory()).agent("desk", plain)).await;
    assert!(text.contains("two agents are named `desk`"), "{text}");
    let text = refusal(on(&memory()).agent("a", plain).agent("a", plain)).await;
    assert!(text.contains("two agents are named `a`"), "{text}");
    for name in RESERVED_AGENT_NAMES {
        for builder in [on(&memory()).agent(*name, plain), on(&memory()).name(*name)] {
            let text = refusal(builder).await;
            assert!(text.contains(&format!("cannot be named `{name}`")), "{text}");
        }
    }
    for name in ["", "a\nb", &"x".repeat(201)] {
        assert!(matches!(on(&memory()).agent(name, plain).start().await, Err(Error::Id(_))), "{name:?}");
    }
    let fault = on(&memory())
        .agent("a", |agent| agent.tool("no name", "", |_: Nothing| async { Ok::<_, Infallible>(1) }));
    let text = refusal(fault).await;
    assert!(text.contains("agent `a`: ") && text.contains("no name"), "{text}");
    let many =
        (0..AGENTS_MAX).fold(on(&memory()), |builder, number| builder.agent(format!("a{number}"), plain));
    let text = refusal(many).await;
    assert!(text.contains("it can have 256"), "{text}");
    let store = memory();
    let first = on(&store).agent("a", plain).start().await.unwrap();
    let text = refusal(System::builder("-").store(store.clone()).name("b").agent("a", plain)).await;
    assert!(text.contains("the agent `a` already has a running system over this store"), "{text}");
    first.shutdown().await.unwrap();
}

#[tokio::test]
async fn each_agent_has_its_own_bound_of_concurrent_calls() {
    let (at_work, most, gate) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let tool = {
        let (at_work, most, gate) = (Arc::clone(&at_work), Arc::clone(&most), Arc::clone(&gate));
        move |_: Nothing| {
            let (at_work, most, gate) = (Arc::clone(&at_work), Arc::clone(&most), Arc::clone(&gate));
            async move {
                most.fetch_max(at_work.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                gate.notified().await;
                at_work.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, Infallible>("done")
            }
        }
    };
    let (ones, others) = (tool.clone(), tool);
    let builder = on(&memory()).tool("wait", "Waits", ones).max_concurrency(1);
    let builder = builder.agent("other", |agent| agent.tool("wait", "Waits", others).max_concurrency(2));
    let system = builder.start().await.unwrap();
    let other = system.agent("other").unwrap();
    let mut tasks = Vec::new();
    for agent in [&system, &other] {
        for _ in 0..4 {
            tasks.push(agent.submit(call("wait")).await.unwrap());
        }
    }
    let all_at_work = async {
        while at_work.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
    };
    soon(all_at_work).await;
    for task in &tasks {
        let release = async {
            loop {
                gate.notify_one();
                tokio::task::yield_now().await;
            }
        };
        let end = tokio::select! { end = soon(task.finished()) => end, () = release => unreachable!() };
        assert_eq!(end.unwrap().state(), TaskState::Completed);
    }
    assert_eq!(most.load(Ordering::SeqCst), 3, "one of the first agent and two of the other");
    system.shutdown().await.unwrap();
}

/// Returns a system of three agents whose tool needs a person's approval.
fn waits_for_approval(store: &Store) -> Builder {
    let policy = || ToolPolicy::manual().capabilities(["money"]);
    let pays = |cx: ToolContext, _: Nothing| async move { Ok::<_, Infallible>(cx.task_id().to_owned()) };
    let rule = || CapabilityPolicy::new().require_approval("money");
    let first =
        on(store).tool_with("pay", "Pays", pays, policy()).capability_policy(rule()).approvals_by_person();
    ["b", "c"].into_iter().fold(first, |builder, name| {
        builder.agent(name, |agent| {
            agent.tool_with("pay", "Pays", pays, policy()).capability_policy(rule()).approvals_by_person()
        })
    })
}

#[tokio::test]
async fn what_waits_is_each_agents_own_and_is_decided_after_a_restart_and_after_a_reopening() {
    let store = memory();
    let system = waits_for_approval(&store).start().await.unwrap();
    for name in ["desk", "b", "c"] {
        let agent = system.agent(name).unwrap();
        let task = PostedTask { id: "t".to_owned(), ..posted("pay") };
        assert_eq!(
            agent.submit(task).await.unwrap().finished().await.unwrap().state(),
            TaskState::InputRequired
        );
        assert_eq!(agent.waiting().await.unwrap().len(), 1);
    }
    system.shutdown().await.unwrap();
    let system = waits_for_approval(&reopened(&store)).start().await.unwrap();
    let decide = async |agent: &System| {
        let approval = agent.approvals("t").await.unwrap()[0].request.approval_id.clone();
        agent.approve("t", &approval, "ada").await.unwrap();
        let end = agent.task("t").unwrap().finished().await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
        assert!(agent.waiting().await.unwrap().is_empty());
    };
    decide(&system.agent("b").unwrap()).await;
    let (first, last) = (system.agent("desk").unwrap(), system.agent("c").unwrap());
    last.reopen().await.unwrap();
    decide(&last).await;
    decide(&first).await;
    assert_eq!(verify(system.log().as_ref()).findings, []);
    system.shutdown().await.unwrap();
}

fn posted(tool: &str) -> PostedTask {
    let mut mint = Ports::default();
    let part = Part::tool_call(tool, json!({})).unwrap();
    let message = Message::new("user", vec![part.hydrated(&mut mint).unwrap()], &mut mint);
    PostedTask::new(message, &mut mint)
}

#[tokio::test]
async fn open_work_of_all_agents_is_resumed_at_the_start() {
    let store = memory();
    let began = Arc::new(Notify::new());
    let stuck = |began: Arc<Notify>| {
        move |_: Nothing| {
            let began = Arc::clone(&began);
            async move {
                began.notify_one();
                std::future::pending::<Result<u32, Infallible>>().await
            }
        }
    };
    let policy = ToolPolicy::idempotent;
    let builder = on(&store).tool_with("work", "Works", stuck(Arc::clone(&began)), policy());
    let theirs = stuck(Arc::clone(&began));
    let system =
        builder.agent("b", |agent| agent.tool_with("work", "Works", theirs, policy())).start().await.unwrap();
    for name in ["desk", "b"] {
        let task = PostedTask { id: "t".to_owned(), ..posted("work") };
        system.agent(name).unwrap().submit(task).await.unwrap();
        soon(began.notified()).await;
    }
    let report = system.shutdown_within(Duration::ZERO).await.unwrap();
    assert_eq!(report.interrupted.len(), 2, "{report:?}");
    let store = reopened(&store);
    let works = |_: Nothing| async { Ok::<_, Infallible>(7_u32) };
    let builder = on(&store).tool_with("work", "Works", works, policy());
    let system =
        builder.agent("b", |agent| agent.tool_with("work", "Works", works, policy())).start().await.unwrap();
    for name in ["desk", "b"] {
        let end = soon(system.agent(name).unwrap().task("t").unwrap().finished()).await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    }
    system.shutdown().await.unwrap();
    assert_eq!(verify(reopened(&store).as_ref()).findings, []);
}

#[tokio::test]
async fn a_key_used_once_and_a_tools_state_are_each_agents_own() {
    let counts = |cx: ToolContext, _: Nothing| async move {
        let before = cx.state().get("n").map_or(Version(0), |entry| entry.version);
        cx.state().put("n", "x", before).map(|()| before.0)
    };
    let store = memory();
    let builder =
        on(&store).tool("count", "Counts", counts).agent("b", |agent| agent.tool("count", "Counts", counts));
    let system = builder.start().await.unwrap();
    let mut ids = Vec::new();
    for name in ["desk", "b", "desk"] {
        let agent = system.agent(name).unwrap();
        let task =
            agent.session("s").run(Part::tool_call("count", json!({})).unwrap()).once("key").await.unwrap();
        assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
        ids.push(task.stream().clone());
        assert_eq!(agent.tool_state("count").await.unwrap().len(), 1);
    }
    assert_eq!(ids[0], ids[2], "the same key of the same agent is the same task");
    assert_ne!(ids[0], ids[1]);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_hundred_agents_work_side_by_side_over_one_log() {
    let store = memory();
    let builder = (0..100).fold(on(&store), |builder, number| {
        builder.agent(format!("agent {number}/%"), |agent| {
            agent.tool("who", "Says who", move |_: Nothing| async move { Ok::<_, Infallible>(number) })
        })
    });
    let system = builder.start().await.unwrap();
    assert_eq!(system.agents().len(), 101);
    let mut tasks = Vec::new();
    for number in 0..100 {
        let agent = system.agent(&format!("agent {number}/%")).unwrap();
        tasks.push(agent.submit(asks_who("t")).await.unwrap());
    }
    for (number, task) in tasks.iter().enumerate() {
        let end = soon(task.finished()).await.unwrap();
        let said = end.answer().unwrap().as_str().to_owned();
        assert!(said.contains(&format!("\"result\":{number}")), "{said}");
    }
    system.shutdown().await.unwrap();
    let store = reopened(&store);
    assert_eq!(verify(store.as_ref()).findings, []);
    assert!(store.read_all(Position(1), usize::MAX).unwrap().len() > 200);
}
