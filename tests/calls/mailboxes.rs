//! Each mailbox has its own bound from its first message on, not actix's 16 until its actor has started.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};

use crate::call_support::soon;
use futures_util::future::join_all;
use proto_events::envelope::Timestamp;
use proto_events::task::TaskCommand;
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::limits::MAILBOX_COMMANDS;
use taskreel::tool::{ToolError, ToolPolicy};
use taskreel::{Error, Message, Part, PostedTask, System, TaskState};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::{Clock, Ports, SystemClock};
use tokio::sync::Notify;

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

/// A clock that stops the actors' thread while it is held: what is sent meanwhile waits.
#[derive(Default)]
struct HeldClock {
    is_held: Mutex<bool>,
    released: Condvar,
}

impl HeldClock {
    fn hold(&self, is_held: bool) {
        *self.is_held.lock().unwrap() = is_held;
        self.released.notify_all();
    }
}

impl Clock for HeldClock {
    fn now(&self) -> Timestamp {
        if std::thread::current().name() == Some("taskreel-actors") {
            drop(self.released.wait_while(self.is_held.lock().unwrap(), |is_held| *is_held));
        }
        SystemClock.now()
    }
}

/// Sends all while the actors' thread stands still, so that they arrive together, and returns the answers.
async fn sent_together<T>(clock: &HeldClock, sent: impl Iterator<Item: Future<Output = T>>) -> Vec<T> {
    clock.hold(true);
    // Without a bound on what a task does before it yields: all are sent at the first poll.
    let mut all = pin!(tokio::task::unconstrained(join_all(sent)));
    assert!(futures_util::poll!(&mut all).is_pending());
    clock.hold(false);
    all.await
}

#[tokio::test]
async fn a_submission_waits_for_room_in_its_tasks_own_mailbox_and_a_try_does_not() {
    let clock = Arc::new(HeldClock::default());
    let ports = Ports { clock: Arc::<HeldClock>::clone(&clock), ..Ports::default() };
    // All tasks are on the thread that stands still.
    let builder = System::builder("unused").store(Arc::new(MemoryStore::new())).ports(ports).arbiters(1);
    let system = builder.start().await.unwrap();
    let mut mint = Ports::default();
    let posted = PostedTask::new(Message::user("hello", &mut mint), &mut mint);
    let many = 4 * MAILBOX_COMMANDS;
    let tried = sent_together(&clock, (0..many).map(|_| system.try_submit(posted.clone()))).await;
    let is_refused = |tried: &Result<_, Error>| matches!(tried, Err(Error::Overloaded { waiting, .. }) if *waiting == MAILBOX_COMMANDS);
    assert!(tried.iter().any(is_refused), "so many fill the mailbox of one task");
    assert!(tried.iter().all(|tried| tried.is_ok() || is_refused(tried)));
    for submitted in sent_together(&clock, (0..many).map(|_| system.submit(posted.clone()))).await {
        submitted.unwrap();
    }
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_question_waits_for_room_in_its_tasks_mailbox() {
    let clock = Arc::new(HeldClock::default());
    let ports = Ports { clock: Arc::<HeldClock>::clone(&clock), ..Ports::default() };
    let builder = System::builder("unused").store(Arc::new(MemoryStore::new())).ports(ports).arbiters(1);
    let system = builder.start().await.unwrap();
    let task = system.submit(Part::text("hello")).await.unwrap();
    clock.hold(true);
    // The actors' thread stands still with this one.
    let mut first = pin!(tokio::task::unconstrained(task.cancel(None)));
    assert!(futures_util::poll!(&mut first).is_pending());
    let looks = (0..4 * MAILBOX_COMMANDS).map(|_| task.snapshot());
    for look in sent_together(&clock, looks).await {
        look.unwrap();
    }
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_says_is_not_refused_by_a_mailbox_that_others_have_filled() {
    let clock = Arc::new(HeldClock::default());
    let ports = Ports { clock: Arc::<HeldClock>::clone(&clock), ..Ports::default() };
    let (begun, go, sent) = (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, goes, sends) = (Arc::clone(&begun), Arc::clone(&go), Arc::clone(&sent));
    let handler = move |cx: HandlerContext, _: Message| {
        let (begins, goes, sends) = (Arc::clone(&begins), Arc::clone(&goes), Arc::clone(&sends));
        async move {
            begins.notify_one();
            goes.notified().await;
            let mut said = pin!(tokio::task::unconstrained(cx.say("words")));
            assert!(futures_util::poll!(&mut said).is_pending());
            sends.notify_one();
            said.await?;
            Ok::<_, ToolError>(HandlerEnd::Completed)
        }
    };
    let builder = System::builder("unused").store(Arc::new(MemoryStore::new())).ports(ports).arbiters(1);
    let system = builder.handler_with(handler, ToolPolicy::manual()).start().await.unwrap();
    let mut mint = Ports::default();
    let task = system.submit(Message::user("hello", &mut mint)).await.unwrap();
    soon(begun.notified()).await;
    clock.hold(true);
    let notes = (0..4 * MAILBOX_COMMANDS)
        .map(|_| task.command(TaskCommand::AppendMessage(Message::user("again", &mut mint))));
    let mut notes = pin!(tokio::task::unconstrained(join_all(notes)));
    assert!(futures_util::poll!(&mut notes).is_pending());
    go.notify_one();
    soon(sent.notified()).await;
    clock.hold(false);
    let answers = notes.await;
    let is_full = |answer: &Result<_, Error>| matches!(answer, Err(Error::Overloaded { waiting, .. }) if *waiting == MAILBOX_COMMANDS);
    assert!(answers.last().is_some_and(is_full), "the mailbox is full when the words come");
    let done = task.finished().await.unwrap();
    assert_eq!(done.state(), TaskState::Completed, "{:?}", done.error());
    assert_eq!(done.task().messages().len(), 2, "the words are there");
    system.shutdown().await.unwrap();
}
