//! A responder: its answer stands in the record of the message that it answers, or neither is there.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the answer, in helpers too"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use futures_util::future::join_all;
use proto_events::limits::PAYLOAD_BYTES_MAX;
use taskreel::handler::{HandlerContext, ResponderEnd};
use taskreel::testing::{CrashMatrix, TestSystem, system};
use taskreel::tool::ToolError;
use taskreel::{
    Builder, Error, Message, Part, PostedTask, System, Task, TaskCommand, TaskHandle, TaskState, Version,
};
use taskreel_log::api::EventReader;
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::testing::{AppendFault, Faults, FaultyStore};

fn text_of(message: &Message) -> String {
    message.parts[0].content().to_str().unwrap()
}

fn said(task: &Task) -> Vec<String> {
    task.messages().iter().map(text_of).collect()
}

fn hears(_: &Task, message: &Message) -> String {
    format!("heard {}", text_of(message))
}

/// More than is written together with a message.
fn says_much(_: &Task, message: &Message) -> String {
    format!("heard {}", text_of(message).repeat(100_000))
}

async fn task_of(system: &System, text: &str) -> TaskHandle {
    system.submit(Message::user(text, &mut Ports::default())).await.unwrap()
}

fn records_of(system: &TestSystem, task: &TaskHandle) -> usize {
    system.store().read_stream(task.stream(), Version(1), usize::MAX).unwrap().len()
}

fn assert_sound(log: &dyn EventReader) {
    let found = verify(log);
    assert!(found.is_sound(), "{:#?}", found.findings);
}

#[tokio::test]
async fn a_message_its_answer_and_the_end_are_one_record_and_no_call() {
    let system = system(|builder: Builder| builder.responder(hears)).await.unwrap();
    let task = task_of(&system, "hello").await;
    let done = system.finish(&task).await.unwrap();
    assert_eq!(done.state(), TaskState::Completed);
    assert_eq!(said(done.task()), ["hello", "heard hello"]);
    assert_eq!(done.answer().unwrap().to_str().unwrap(), "heard hello");
    assert_eq!(done.task().calls().iter().count(), 0);
    assert_eq!(records_of(&system, &task), 1);
    assert_sound(system.store().as_ref());
}

#[tokio::test]
async fn a_crash_after_each_append_leaves_a_message_with_one_answer() {
    for (responder, answer) in
        [(hears as fn(&Task, &Message) -> String, "heard x".len()), (says_much, 100_006)]
    {
        let matrix = CrashMatrix::new(
            move |builder| builder.responder(responder),
            move |driver| async move {
                for _ in 0..3 {
                    let task = driver.submit(Message::user("x", &mut Ports::default())).await?;
                    let done = driver.finish(&task).await?;
                    let lengths: Vec<usize> = said(done.task()).iter().map(String::len).collect();
                    assert_eq!((done.state(), lengths), (TaskState::Completed, vec![1, answer]));
                }
                Ok(())
            },
        );
        matrix.run().await.unwrap_or_else(|broken| panic!("{broken}"));
    }
}

#[tokio::test]
async fn a_message_whose_answer_is_not_in_the_log_is_answered_after_a_start() {
    let system = system(|builder: Builder| builder.responder(says_much)).await.unwrap();
    let before = taskreel::testing::appends(system.store().as_ref()).unwrap().len();
    let task = task_of(&system, "x").await;
    system.finish(&task).await.unwrap();
    assert_eq!(records_of(&system, &task), 2, "a long answer is written by itself");
    let again = system.cut_after(before + 1).await.unwrap();
    let task = again.task(task.id()).unwrap();
    let done = again.finish(&task).await.unwrap();
    assert_eq!((done.state(), said(done.task()).len()), (TaskState::Completed, 2));
    assert_sound(again.store().as_ref());
}

#[tokio::test]
async fn no_answer_is_told_whose_append_fails_and_both_are_in_the_log_or_none() {
    for (fault, written) in [(AppendFault::BeforeWrite, false), (AppendFault::AfterWrite, true)] {
        let (faults, log) = (Faults::none(), Arc::new(MemoryStore::new()));
        let store = FaultyStore::new(Arc::clone(&log) as _, faults.clone());
        let builder = System::builder("-").store(Arc::new(store)).responder(hears);
        let system = builder.start().await.unwrap();
        let id = "the-task";
        let message = Message::user("hello", &mut Ports::default());
        let posted = PostedTask { id: id.to_owned(), ..PostedTask::new(message, &mut Ports::default()) };
        faults.at_next_append(fault);
        let refused = system.try_run(posted).await;
        assert!(matches!(refused, Err(Error::InDoubt { .. })), "{fault:?}: {refused:?}");
        system.reopen().await.unwrap();
        match system.task(id).unwrap().finished().await {
            Ok(done) => {
                assert!(written);
                assert_eq!(said(done.task()), ["hello", "heard hello"]);
                assert_eq!(done.version(), Version(5), "nothing was decided again");
            }
            Err(Error::TaskNotFound(_)) => assert!(!written),
            Err(error) => panic!("{error}"),
        }
        assert_sound(system.log().as_ref());
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_responder_asks_fails_and_panics_and_the_next_message_is_answered() {
    let responder = |task: &Task, message: &Message| match text_of(message).as_str() {
        "ask" => ResponderEnd::InputRequired("which city?".into()),
        "fail" => ResponderEnd::Failed("no paper".into()),
        "fail mutely" => ResponderEnd::Failed(" ".into()),
        "panic" => panic!("a fault"),
        text => ResponderEnd::Answered(vec![Part::text(format!("{text} after {}", task.messages().len()))]),
    };
    let system = system(move |builder: Builder| builder.responder(responder)).await.unwrap();
    for (text, why) in [
        ("fail", "no paper"),
        ("fail mutely", "the responder failed"),
        ("panic", "the responder panicked: a fault"),
    ] {
        let done = system.finish(&task_of(&system, text).await).await.unwrap();
        assert_eq!((done.state(), done.task().error().as_deref()), (TaskState::Failed, Some(why)));
    }
    let task = task_of(&system, "ask").await;
    let waits = system.finish(&task).await.unwrap();
    assert_eq!(
        (waits.state(), said(waits.task())),
        (TaskState::InputRequired, vec!["ask".into(), "which city?".into()])
    );
    let answer = Message::user("Oslo", &mut Ports::default());
    task.command(TaskCommand::AppendMessage(answer)).await.unwrap();
    task.command(TaskCommand::Begin).await.unwrap();
    let done = system.finish(&task).await.unwrap();
    assert_eq!(
        (done.state(), said(done.task()).last().unwrap().as_str()),
        (TaskState::Completed, "Oslo after 3")
    );
    assert_sound(system.store().as_ref());
}

#[tokio::test]
async fn an_answer_that_no_event_can_hold_fails_its_task_and_the_message_stays() {
    let responder = |_: &Task, _: &Message| "x".repeat(PAYLOAD_BYTES_MAX);
    let system = system(move |builder: Builder| builder.responder(responder)).await.unwrap();
    let done = system.finish(&task_of(&system, "hello").await).await.unwrap();
    assert_eq!((done.state(), said(done.task())), (TaskState::Failed, vec!["hello".to_owned()]));
    assert!(
        done.task().error().unwrap().contains(&PAYLOAD_BYTES_MAX.to_string()),
        "{:?}",
        done.task().error()
    );
    assert_sound(system.store().as_ref());
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_on_several_arbiters_are_each_their_own_messages() {
    let log = Arc::new(MemoryStore::new());
    let builder = System::builder("-").store(Arc::clone(&log) as _).arbiters(4).live_actors(8);
    let system = builder.responder(hears).start().await.unwrap();
    let all = (0..200).map(|number| {
        let system = &system;
        async move {
            let text = format!("number {number}");
            let done = task_of(system, &text).await.finished().await.unwrap();
            assert_eq!(said(done.task()), [text.clone(), format!("heard {text}")]);
        }
    });
    join_all(all).await;
    assert_sound(log.as_ref());
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_after_a_slow_one_is_computed_apart_from_the_actors() {
    let threads = Arc::new(Mutex::new(Vec::<ThreadId>::new()));
    let (seen, asked) = (Arc::clone(&threads), AtomicUsize::new(0));
    let responder = move |_: &Task, _: &Message| {
        seen.lock().unwrap().push(std::thread::current().id());
        // The first is slow, the others are not.
        if asked.fetch_add(1, Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        "done"
    };
    let builder = System::builder("-").store(Arc::new(MemoryStore::new())).arbiters(1);
    let system = builder.responder(responder).start().await.unwrap();
    for _ in 0..2 {
        let done = task_of(&system, "x").await.finished().await.unwrap();
        assert_eq!(done.state(), TaskState::Completed);
    }
    let threads = threads.lock().unwrap().clone();
    assert_ne!(threads[0], threads[1], "the first was slow");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_agent_has_a_handler_or_a_responder() {
    let handler = |_: HandlerContext, _: Message| async { Ok::<_, ToolError>("done") };
    let builder = System::builder("-").store(Arc::new(MemoryStore::new()));
    let refused = builder.handler(handler).responder(hears).start().await.unwrap_err();
    assert!(refused.to_string().contains("both a handler and a responder"), "{refused}");
}
