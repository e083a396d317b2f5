//! Each mailbox has its own bound from its first message on, not actix's 16 until its actor has started.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;

use futures_util::future::join_all;
use proto_events::task::TaskCommand;
use taskreel::limits::MAILBOX_COMMANDS;
use taskreel::{Error, Message, Part, PostedTask, System};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;

async fn started() -> System {
    let store = Arc::new(MemoryStore::new());
    System::builder("unused").store(store).start().await.unwrap()
}

#[tokio::test]
async fn callers_right_after_the_start_are_not_refused() {
    for _ in 0..10 {
        let system = started().await;
        let submits = (0..200).map(|_| system.submit(Part::text("hello")));
        for submitted in join_all(submits).await {
            submitted.unwrap();
        }
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_new_tasks_mailbox_takes_as_many_commands_as_it_says() {
    let system = started().await;
    let mut mint = Ports::default();
    let posted = PostedTask::new(Message::user("hello", &mut mint), &mut mint);
    let task = system.task(&posted.id).unwrap();
    let first = TaskCommand::Submit(Box::new(posted));
    let notes = (2..MAILBOX_COMMANDS).map(|_| TaskCommand::AppendMessage(Message::user("again", &mut mint)));
    let commands: Vec<_> = std::iter::once(first).chain(notes).collect();
    for answered in join_all(commands.into_iter().map(|command| task.command(command))).await {
        answered.unwrap();
    }
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_submission_waits_for_room_in_its_tasks_own_mailbox_and_a_try_does_not() {
    let system = started().await;
    let mut mint = Ports::default();
    let posted = PostedTask::new(Message::user("hello", &mut mint), &mut mint);
    let many = 4 * MAILBOX_COMMANDS;
    let tried = join_all((0..many).map(|_| system.try_submit(posted.clone()))).await;
    let is_refused = |tried: &Result<_, Error>| matches!(tried, Err(Error::Overloaded { waiting, .. }) if *waiting == MAILBOX_COMMANDS);
    assert!(tried.iter().any(is_refused), "so many fill the mailbox of one task");
    assert!(tried.iter().all(|tried| tried.is_ok() || is_refused(tried)));
    for submitted in join_all((0..many).map(|_| system.submit(posted.clone()))).await {
        submitted.unwrap();
    }
    system.shutdown().await.unwrap();
}
