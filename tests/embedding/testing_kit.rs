//! `taskreel::testing` as used by a user's test: time that passes at once, crashes, logs that end early.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::time::{Duration, Instant};

use proto_events::call::CallStatus;
use proto_events::id::Position;
use proto_events::json;
use serde::Deserialize;
use taskreel::testing::{CrashMatrix, Driver, Entry, Row, Scripted, TestSystem, appends, sleep};
use taskreel::tool::{ToolContext, ToolPolicy};
use taskreel::{Builder, Error, JsonSchema, Message, Part, TaskState, testing};
use taskreel_log::api::{EventReader as _, EventStore as _};
use taskreel_log::ports::Clock as _;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// A tool that takes a minute.
async fn slow(cx: ToolContext, _: Nothing) -> Result<String, Infallible> {
    sleep(Duration::from_secs(60)).await;
    Ok(format!("attempt {}", cx.attempt()))
}

/// A tool that hangs in its first attempt.
async fn stubborn(cx: ToolContext, _: Nothing) -> Result<&'static str, Infallible> {
    if cx.attempt() == 1 {
        std::future::pending::<()>().await;
    }
    Ok("at last")
}

/// Reports the seconds that its attempt has left, at once and after each of two waits.
async fn watchful(cx: ToolContext, _: Nothing) -> Result<Vec<u64>, Infallible> {
    let (mut left, deadline) = (Vec::new(), cx.deadline().unwrap());
    assert!(deadline.to_string().starts_with("2026-01-01"), "by the kit's clock: {deadline}");
    for _ in 0..3 {
        left.push(cx.remaining().unwrap().as_secs());
        assert_eq!(cx.deadline(), Some(deadline), "it does not move");
        sleep(Duration::from_secs(50)).await;
    }
    Ok(left)
}

/// A tool that is no `async fn`: it has a thread of its own, and takes real time.
#[allow(clippy::unnecessary_wraps, reason = "a tool answers with a result")]
fn plain(_: Nothing) -> Result<&'static str, Infallible> {
    std::thread::sleep(Duration::from_millis(20));
    Ok("done")
}

fn describe(builder: Builder) -> Builder {
    let raise = Entry::Raise { type_name: "RuntimeError".to_owned(), message: "429".to_owned() };
    builder
        .tool("pay", "Pays", slow)
        .tool_with("look", "Looks", slow, ToolPolicy::read_only())
        .tool_with("put", "Puts", stubborn, ToolPolicy::idempotent())
        .infer(Scripted::new([raise.clone(), raise, Entry::json(&json!({"type": "final", "content": "ok"}))]))
}

async fn start() -> TestSystem {
    testing::system(describe).await.unwrap()
}

fn calls(tools: &[&str]) -> Message {
    let parts = tools.iter().map(|tool| Part::tool_call(tool, json!({})).unwrap()).collect();
    Message { id: Some("m".to_owned()), role: Some("user".to_owned()), parts, timestamp: None }
}

#[tokio::test]
async fn back_offs_and_time_limits_of_minutes_take_no_time() {
    let (began, system) = (Instant::now(), start().await);
    let before = system.clock().now();
    let asked = system.submit(Part::infer("Well?")).await.unwrap();
    let end = system.finish(&asked).await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    let waited = system.clock().now().millis_since(before);
    assert!((3_000..6_000).contains(&waited), "back-offs of about one and two seconds: {waited} ms");

    let before = system.clock().now();
    let put = system.submit(calls(&["put"])).await.unwrap();
    system.advance(Duration::from_secs(119)).await;
    assert_eq!(put.snapshot().await.unwrap().state(), TaskState::Working);
    let end = system.finish(&put).await.unwrap();
    assert_eq!((end.state(), system.clock().now().millis_since(before)), (TaskState::Completed, 121_000));
    assert_eq!(system.ledger().executions().len(), 2);
    assert!(began.elapsed() < Duration::from_secs(60), "it took real time");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_crash_keeps_the_log_the_clock_and_what_the_world_saw() {
    let system = start().await;
    let look = system.submit(calls(&["look"])).await.unwrap();
    let pay = system.submit(calls(&["pay"])).await.unwrap();
    system.advance(Duration::from_secs(30)).await;
    let (look, pay) = (look.id().to_owned(), pay.id().to_owned());
    let (at, events) = (system.clock().now(), system.store().head().unwrap());
    let system = system.crash().await.unwrap();
    assert_eq!(system.clock().now(), at);
    assert!(system.store().head().unwrap() >= events);

    let paid = system.finish(&system.task(&pay).unwrap()).await.unwrap();
    assert_eq!(paid.state(), TaskState::InputRequired);
    let call = paid.task().calls().iter().next().unwrap();
    assert!(matches!(call.status, CallStatus::Unknown(_)), "{:?}", call.status);
    assert_eq!(system.ledger().times(&call.request.call_id), 1, "it must not be paid twice");

    let looked = system.finish(&system.task(&look).unwrap()).await.unwrap();
    assert_eq!(looked.state(), TaskState::Completed);
    let call = looked.task().calls().iter().next().unwrap();
    assert_eq!(system.ledger().dispatches()[&call.request.idempotency_key], 2, "twice under one key");
    testing::assert_well_formed(system.store().as_ref());
    let cut = system.cut_after(appends(system.store().as_ref()).unwrap().len()).await.unwrap();
    assert_eq!(
        cut.store().fence().epoch,
        system.store().fence().epoch + 1,
        "a log of two processes is cut as well"
    );
    cut.shutdown().await.unwrap();
    system.shutdown().await.unwrap();
}

/// Performs all actions of people in the run below.
async fn people(driver: Driver) -> Result<(), Error> {
    let first = driver.session("s").send(Part::infer("Well?")).await?;
    let second = driver.submit(calls(&["look", "put", "pay"])).await?;
    driver.advance(Duration::from_secs(70)).await;
    second.cancel(Some("enough")).await?;
    driver.finish(&first).await?;
    Ok(())
}

#[tokio::test]
async fn the_same_test_takes_the_same_course_every_time() {
    let mut logs = Vec::new();
    for _ in 0..3 {
        let system = start().await;
        system.on_system_thread(people(system.driver())).await.unwrap().unwrap();
        system.run_out_timers().await.unwrap();
        let records = system.store().read_all(Position(1), usize::MAX).unwrap();
        logs.push(records.into_iter().map(|stored| stored.bytes).collect::<Vec<_>>());
        system.shutdown().await.unwrap();
    }
    assert!(logs[0].len() > 8, "{} records", logs[0].len());
    assert!(logs[0] == logs[1] && logs[1] == logs[2], "byte for byte");
}

#[tokio::test]
async fn a_log_that_is_cut_ends_behind_an_append_and_is_gone_on_with() {
    let system = start().await;
    let task = system.submit(calls(&["look", "put"])).await.unwrap();
    system.finish(&task).await.unwrap();
    let all = appends(system.store().as_ref()).unwrap();
    // The first append is the start's.
    for count in 2..all.len() {
        let cut = system.cut_after(count).await.unwrap();
        let end = cut.finish(&cut.task(task.id()).unwrap()).await.unwrap();
        assert_eq!(end.state(), TaskState::Completed, "cut behind {count}");
        let kept: usize = all[..count].iter().map(Vec::len).sum();
        let whole = system.store().read_all(Position(1), usize::MAX).unwrap();
        assert_eq!(cut.store().read_all(Position(1), kept).unwrap(), whole[..kept]);
        cut.shutdown().await.unwrap();
    }
    let empty = system.cut_after(0).await.unwrap();
    assert!(matches!(empty.task(task.id()).unwrap().snapshot().await, Err(Error::TaskNotFound(_))));
}

#[tokio::test]
async fn a_tool_sees_the_time_that_its_attempt_has_left_by_the_virtual_clock() {
    let policy = ToolPolicy::read_only().timeout(Duration::from_secs(200));
    let describe = move |builder: Builder| builder.tool_with("watch", "Waits", watchful, policy.clone());
    let system = testing::system(describe).await.unwrap();
    let task = system.submit(calls(&["watch"])).await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "{}", end.to_json());
    let call = end.task().calls().iter().next().unwrap();
    let CallStatus::Succeeded(left) = &call.status else { panic!("{:?}", call.status) };
    assert_eq!(left.as_str(), "[200,150,100]");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn no_time_passes_while_a_plain_function_runs() {
    let describe = |builder: Builder| builder.tool("plain", "Takes real time", plain);
    let system = testing::system(describe).await.unwrap();
    let before = system.clock().now();
    let task = system.submit(calls(&["plain"])).await.unwrap();
    let end = system.finish(&task).await.unwrap();
    assert_eq!(
        end.state(),
        TaskState::Completed,
        "its time limit of two minutes is not up: {}",
        end.to_json()
    );
    assert_eq!(system.clock().now(), before);
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_matrix_tells_what_it_tried() {
    let matrix = CrashMatrix::new(describe, people).down_for(Duration::from_secs(1));
    let report = matrix.run().await.unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.appends >= 8 && report.executions > report.appends, "{report:?}");
    for cell in [(Row::InFlight, "read-only"), (Row::InFlight, "reissue"), (Row::OutcomePresent, "reissue")] {
        assert!(report.cells.contains_key(&cell), "{cell:?} of {report:?}");
    }
}

#[tokio::test]
async fn a_workload_that_fails_or_never_ends_is_told() {
    let fails = CrashMatrix::new(describe, |driver| async move {
        driver.task("nobody knows it")?.snapshot().await.map(|_| ())
    });
    let broken = fails.run().await.unwrap_err();
    assert!(broken.cut.is_none() && broken.to_string().contains("was not found"), "{broken}");
}
