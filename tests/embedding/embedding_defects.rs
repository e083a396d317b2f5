//! Defects that a first embedder met stay mended: sessions of posted tasks, several systems over one store, programs without a
//! runtime, tools that cannot work, answers that are none.

#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::sync::Arc;

use crate::call_support::{Nothing, call, memory, soon};
use proto_events::id::{IdError, Position, Version};
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::Message;
use serde::Deserialize;
use taskreel::infer::Scripted;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{Builder, Error, JsonSchema, Part, PostedTask, System, TaskState};
use taskreel_log::api::{EventStore, ReadError};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use tokio::sync::Notify;

fn over(store: &Arc<MemoryStore>) -> Builder {
    System::builder("-").store(Arc::clone(store) as Arc<dyn EventStore>)
}

fn posted(part: Part) -> PostedTask {
    let mut mint = Ports::default();
    let message = Message::new("user", vec![part], &mut mint);
    PostedTask::new(message, &mut mint)
}

async fn works(_: Nothing) -> Result<u32, ToolError> {
    Ok(7)
}

#[tokio::test]
async fn a_posted_task_joins_the_session_through_which_it_is_sent_and_another_one_is_refused() {
    let system = over(&memory()).tool("works", "", works).start().await.unwrap();
    let session = system.session("alice");
    let end = session.send(posted(call("works"))).await.unwrap().finished().await.unwrap();
    assert_eq!(end.task().metadata().get("session_id"), Some(&JsonText::string("alice")));
    for member in [r#"{"session_id":"bob"}"#, r#"{"run_context":{"run_id":"r","session_id":"bob"}}"#] {
        let mut task = posted(call("works"));
        task.metadata = JsonText::parse(member).unwrap().read().unwrap();
        let refused = session.send(task).await.unwrap_err();
        assert!(
            matches!(&refused, Error::OtherSession { asked, named, .. } if asked == "alice" && named == "bob")
        );
    }
    let refused = system.session("").send(call("works")).await.unwrap_err();
    assert!(matches!(refused, Error::Id(IdError::Empty)), "{refused}");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn whoever_waits_at_a_shutdown_is_told_that_the_system_has_stopped() {
    let store = memory();
    let model = Scripted::from_json(r#"{"":[{"type":"final","content":"one"}]}"#).unwrap();
    let pays = ToolPolicy::manual().capabilities(["money"]);
    let policy = taskreel::approval::CapabilityPolicy::default()
        .rule("money", taskreel::approval::PolicyEffect::RequireApproval);
    let system = over(&store)
        .infer(model)
        .tool_with("pay", "", works, pays)
        .capability_policy(policy)
        .approval_handler(|_| std::future::pending())
        .start()
        .await
        .unwrap();
    let task = system.submit(call("pay")).await.unwrap();
    let waits = tokio::spawn({
        let task = task.clone();
        async move { task.finished().await }
    });
    tokio::task::yield_now().await;
    soon(system.clone().shutdown()).await.unwrap();
    let told = soon(waits).await.unwrap().unwrap_err();
    assert!(matches!(told, Error::Stopped), "{told:?}");
    for told in [
        task.snapshot().await.unwrap_err(),
        task.cancel(None).await.unwrap_err(),
        task.events().await.unwrap_err(),
        system.state_at(task.id(), Version(1)).await.unwrap_err(),
        system.tool_state("pay").await.unwrap_err(),
        system.session("s").history().await.unwrap_err(),
    ] {
        assert!(matches!(told, Error::Stopped), "{told:?}");
    }
}

#[tokio::test]
async fn a_second_system_of_an_agent_over_one_store_is_refused_and_another_agent_outlives_the_first() {
    let store = memory();
    let first = over(&store).name("a").tool("works", "", works).start().await.unwrap();
    let refused = over(&store).name("a").start().await.unwrap_err();
    assert!(
        matches!(&refused, Error::Builder(text) if text.contains("`a` already has a running system")),
        "{refused}"
    );
    let second = over(&store).name("b").tool("works", "", works).start().await.unwrap();
    assert!(
        matches!(second.reopen().await.unwrap_err(), Error::Builder(_)),
        "it would close the store for the first"
    );
    let report = first.shutdown_within(std::time::Duration::from_secs(5)).await.unwrap();
    assert!(!report.closed && report.interrupted.is_empty());
    let end = soon(second.submit(call("works")).await.unwrap().finished()).await.unwrap();
    assert_eq!(end.state(), TaskState::Completed);
    let again = over(&store).name("a").start().await.unwrap();
    drop(again);
    let report = second.shutdown_within(std::time::Duration::from_secs(5)).await.unwrap();
    assert!(report.head >= Position(1));
}

#[test]
fn a_system_with_a_runtime_of_its_own_starts_works_and_stops_outside_any_runtime() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let system =
            System::builder(dir.path()).own_runtime(1).tool("works", "", works).start().await.unwrap();
        let task = system.submit(call("works")).await.unwrap();
        assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
        assert!(system.state_at(task.id(), Version(1)).await.is_ok());
        system.reopen().await.unwrap();
        system.shutdown().await.unwrap();
        // The directory is free at once.
        let system = System::builder(dir.path()).own_runtime(1).start().await.unwrap();
        system.shutdown_within(std::time::Duration::from_secs(1)).await.unwrap();
    });
}

/// Runs a future on this thread, without any runtime.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut cx = std::task::Context::from_waker(&waker);
    let mut work = std::pin::pin!(work);
    loop {
        if let std::task::Poll::Ready(done) = work.as_mut().poll(&mut cx) {
            return done;
        }
        std::thread::park();
    }
}

#[tokio::test]
async fn tools_that_no_call_could_reach_are_refused_at_the_start_in_words() {
    async fn text(_: String) -> Result<(), ToolError> {
        Ok(())
    }
    async fn number(_: u64) -> Result<(), ToolError> {
        Ok(())
    }
    let start = |builder: Builder, says: &'static str| async move {
        let refused = builder.start().await.unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
    };
    let fresh = || over(&memory());
    start(fresh().tool("one", "", works).tool("one", "", works), "two tools are named `one`").await;
    start(fresh().tool("text", "", text), "tool `text`: its arguments are of the type `string`").await;
    start(fresh().tool("number", "", number), "tool `number`: its arguments are of the type `integer`").await;
    for name in ["", "with space", "prüfen", &"x".repeat(65)] {
        start(fresh().tool(name, "", works), "no provider of models takes this name").await;
    }
    fresh().tool("math.add:2_a-b", "", works).start().await.unwrap().shutdown().await.unwrap();
}

#[tokio::test]
async fn a_subscription_from_after_the_end_of_the_log_is_told_where_the_log_ends() {
    let system = over(&memory()).tool("works", "", works).start().await.unwrap();
    let task = system.submit(call("works")).await.unwrap();
    task.finished().await.unwrap();
    let head = system.log().head().unwrap();
    let told = soon(system.subscribe(Position(head.0 + 2)).next()).await.unwrap().unwrap_err();
    assert!(
        matches!(&told, ReadError::Ahead { asked, head: end, .. } if (*asked, *end) == (head.0 + 2, head.0)),
        "{told}"
    );
    let told = soon(system.subscribe_task("unknown", Version(2)).unwrap().next()).await.unwrap().unwrap_err();
    assert!(matches!(told, ReadError::Ahead { asked: 2, head: 0, .. }), "{told}");
    let mut next = system.subscribe(Position(head.0 + 1));
    system.submit(call("works")).await.unwrap();
    assert!(soon(next.next()).await.unwrap().is_ok(), "the next position is no gap");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn only_completed_tasks_have_answers_and_only_events_make_errors() {
    async fn fails(_: Nothing) -> Result<(), ToolError> {
        Err(ToolError::failed("broke"))
    }
    let system = over(&memory()).tool("fails", "", fails).tool("works", "", works).start().await.unwrap();
    let failed = system.submit(Part::infer("Who is there?")).await.unwrap().finished().await.unwrap();
    assert_eq!((failed.state(), failed.answer()), (TaskState::Failed, None), "the error part is no answer");
    assert!(failed.error().is_some());
    let mut task = posted(call("works"));
    task.metadata.set("error", JsonText::string("posted"));
    let end = system.submit(task).await.unwrap().finished().await.unwrap();
    assert_eq!((end.state(), end.error()), (TaskState::Completed, None));
    assert!(end.answer().is_some());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_question_to_a_person_is_the_hosts_own_text_and_ours_where_that_panics() {
    let policy = taskreel::approval::CapabilityPolicy::default()
        .rule("money", taskreel::approval::PolicyEffect::RequireApproval);
    let system = over(&memory())
        .tool_with("pay", "Pays", works, ToolPolicy::manual().capabilities(["money"]))
        .capability_policy(policy)
        .approvals_by_person()
        .approval_question(|request| {
            assert_ne!(request.principal.name, "eve", "a panic in the host's code");
            format!(
                "{} may {} ({})? Session {}",
                request.principal, request.tool, request.description, request.session_id
            )
        })
        .start()
        .await
        .unwrap();
    let asked = |who: &'static str| {
        let session = system.acting_as(who).session("desk");
        async move {
            let end = session.send(call("pay")).await.unwrap().finished().await.unwrap();
            let message = end.task().messages().last().unwrap().clone();
            message.parts.first().unwrap().content().to_str().unwrap()
        }
    };
    assert_eq!(asked("ada").await, "ada may pay (Pays)? Session desk");
    assert!(asked("eve").await.contains("taskreel approve"), "the default names a command");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_handle_on_a_task_does_not_keep_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let system = System::builder(dir.path()).tool("works", "", works).start().await.unwrap();
    let task = system.submit(call("works")).await.unwrap();
    task.finished().await.unwrap();
    let (session, events) = (system.session("s"), task.events_after(Version(0)));
    drop(system);
    let again = soon(async {
        loop {
            match System::builder(dir.path()).start().await {
                Ok(system) => return system,
                Err(Error::Open(_)) => tokio::task::yield_now().await,
                Err(other) => panic!("{other}"),
            }
        }
    })
    .await;
    assert!(matches!(task.finished().await.unwrap_err(), Error::Stopped));
    assert!(matches!(session.send(call("works")).await.unwrap_err(), Error::Stopped));
    assert!(task.live().next().await.is_none() && task.events_after(Version(0)).next().await.is_none());
    drop(events);
    again.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_task_that_is_too_large_is_refused_before_it_is_read() {
    #[derive(Deserialize, JsonSchema)]
    struct Big {
        #[allow(dead_code, reason = "only its size counts")]
        text: String,
    }
    let big = |_: Big| async { Ok::<_, ToolError>(()) };
    let system = over(&memory()).tool("big", "", big).start().await.unwrap();
    let part = Part::tool_call("big", json!({"text": "x".repeat(17 * 1024 * 1024)})).unwrap();
    let refused = system.submit(part).await.unwrap_err();
    assert!(
        matches!(refused, Error::Codec(_)) && refused.to_string().contains("the limit is 16777216"),
        "{refused}"
    );
    assert_eq!(system.live_tasks().await.unwrap(), 0, "no actor was asked");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_tool_that_waits_for_a_task_of_its_own_session_is_refused_by_name() {
    #[derive(Deserialize, JsonSchema)]
    struct Ask {
        session: String,
    }
    let (socket, ready) = (Arc::new(std::sync::OnceLock::<System>::new()), Arc::new(Notify::new()));
    let inside = Arc::clone(&socket);
    let nested = move |cx: ToolContext, ask: Ask| {
        let system = inside.get().unwrap().clone();
        async move {
            let task = system.session(&ask.session).send(call("works")).await?;
            let told = task.finished().await;
            assert_eq!(cx.session_id(), "desk");
            Ok::<_, Error>(told?.state().as_str())
        }
    };
    let model = Scripted::from_json(
        r#"{"own":[{"type":"tool_call","tool":"nested","args":{"session":"desk"}}],
            "other":[{"type":"tool_call","tool":"nested","args":{"session":"side"}},{"type":"final","content":"done"}]}"#,
    );
    let system = over(&memory())
        .infer(model.unwrap())
        .tool("nested", "", nested)
        .tool("works", "", works)
        .start()
        .await
        .unwrap();
    socket.set(system.clone()).unwrap();
    ready.notify_one();
    let desk = system.session("desk");
    let end = soon(desk.send(Part::infer("own")).await.unwrap().finished()).await.unwrap();
    let error = end.error().unwrap();
    assert!(error.contains("waits for the turn of session `desk`"), "{error}");
    let end = soon(desk.send(Part::infer("other")).await.unwrap().finished()).await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "another session is no wait for itself");
    system.shutdown().await.unwrap();
}
