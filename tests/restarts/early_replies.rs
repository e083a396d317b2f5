//! Replies that the store's thread sends: a caller is answered without the actors' thread, only once its event is in the log,
//! finds all that its command did, and hears of every other end of its append too.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use proto_events::id::{StreamId, Version};
use proto_events::json;
use proto_events::task::TaskCommand;
use serde::Deserialize;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest};
use taskreel::tool::BoxFuture;
use taskreel::{ChangedAgent, Error, JsonSchema, Message, Part, PostedTask, System, TaskHandle, TaskState};
use taskreel_log::api::{EventReader as _, EventStore};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::testing::DelegatingStore;
use tokio::sync::Notify;

use crate::sink_store::{End, Next, PATIENCE, SinkStore};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// The text of a task's first message.
const TEXT: &str = "message of the task";

type Store = Arc<DelegatingStore<SinkStore>>;

fn store() -> Store {
    Arc::new(DelegatingStore::new(Arc::new(MemoryStore::new()), SinkStore::default()))
}

fn said(text: &str) -> TaskCommand {
    TaskCommand::AppendMessage(Message::agent(text, &mut Ports::default()))
}

fn posted(id: &str) -> TaskCommand {
    let mut posted = PostedTask::new(Message::agent(TEXT, &mut Ports::default()), &mut Ports::default());
    id.clone_into(&mut posted.id);
    TaskCommand::Submit(Box::new(posted))
}

/// A model that never answers, and signals when it is asked.
#[derive(Clone, Default)]
struct Silent(Arc<Notify>);

impl InferBackend for Silent {
    fn backend(&self) -> &'static str {
        "silent"
    }

    fn model(&self) -> &'static str {
        "silent"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

/// Has the append of a command answered while the actors' thread is held up by a command on this other task; `text` is in the
/// append. Returns the answer, and whether it came without the actors' thread.
async fn answered_aside<T>(
    store: &Store,
    other: &TaskHandle,
    text: &str,
    command: impl Future<Output = Result<T, Error>>,
) -> (T, bool) {
    let (written, is_written) = channel();
    let (called, is_called) = channel();
    let (answered, is_answered) = channel();
    let (go_on, goes_on) = channel();
    store.overrides().plan(text, Next::AnsweredAt { written, at: is_called, answered });
    store.overrides().plan("held up", Next::HoldsUp { called, until: goes_on });
    let comes = |word: Receiver<()>| async {
        tokio::task::spawn_blocking(move || word.recv_timeout(PATIENCE).unwrap()).await.unwrap();
    };
    let mut command = pin!(command);
    assert!(futures_util::poll!(&mut command).is_pending(), "it is sent");
    comes(is_written).await;
    let mut held_up = pin!(other.command(said("held up")));
    assert!(futures_util::poll!(&mut held_up).is_pending());
    comes(is_answered).await;
    let early = match futures_util::poll!(&mut command) {
        Poll::Ready(answer) => Some(answer.unwrap()),
        Poll::Pending => None,
    };
    let is_early = early.is_some();
    go_on.send(()).unwrap();
    held_up.await.unwrap();
    match early {
        Some(answer) => (answer, is_early),
        None => (tokio::time::timeout(PATIENCE, command).await.unwrap().unwrap(), is_early),
    }
}

#[tokio::test]
async fn a_caller_is_answered_while_the_actors_thread_is_held_up() {
    let store = store();
    let system = System::builder("-").store(store.clone()).arbiters(1).start().await.unwrap();
    let other = system.task("other").unwrap();
    other.command(posted("other")).await.unwrap();
    let task = system.task("task").unwrap();
    // The first command on a task, which is read for it, and others.
    for (command, version) in [(posted("task"), 1), (said(TEXT), 2), (said(TEXT), 3)] {
        let (end, is_early) = answered_aside(&store, &other, TEXT, task.command(command)).await;
        assert_eq!((end.version, is_early), (Version(version), true));
        // What the caller does next stands behind its command.
        assert_eq!(task.snapshot().await.unwrap().version(), Version(version));
    }
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_caller_whose_command_concerns_a_conversation_is_answered_once_the_conversation_knows() {
    let (store, silent) = (store(), Silent::default());
    let builder = System::builder("-").store(store.clone()).arbiters(1);
    let system = builder.infer(silent.clone()).start().await.unwrap();
    let other = system.task("other").unwrap();
    other.command(posted("other")).await.unwrap();
    let session = system.session("s");
    for turn in 1..4 {
        let run = session.send(Part::infer("go")).await.unwrap();
        tokio::time::timeout(PATIENCE, silent.0.notified()).await.unwrap();
        let (_, is_early) = answered_aside(&store, &other, "enough", run.cancel(Some("enough"))).await;
        assert!(!is_early, "turn {turn}: the actors have not been told");
    }
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn among_several_agents_the_caller_that_ends_a_task_is_answered_once_the_other_agents_are_told() {
    for (others, is_answered_early) in [(0, true), (1, false)] {
        let store = store();
        let wait = |_: Nothing| async {
            std::future::pending::<()>().await;
            Ok::<_, Infallible>("never")
        };
        let mut builder = System::builder("-").store(store.clone()).arbiters(1).tool("wait", "Waits", wait);
        for number in 0..others {
            builder = builder.agent(format!("other-{number}"), |agent| agent);
        }
        let system = builder.start().await.unwrap();
        let other = system.task("other").unwrap();
        other.command(posted("other")).await.unwrap();
        let task = system.submit(Part::tool_call("wait", json!({})).unwrap()).await.unwrap();
        let (_, is_early) = answered_aside(&store, &other, "enough", task.cancel(Some("enough"))).await;
        assert_eq!(is_early, is_answered_early, "beside {others} other agents");
        assert_eq!(task.snapshot().await.unwrap().state(), TaskState::Canceled);
        system.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_caller_before_whose_command_a_person_is_asked_is_answered_with_the_event_of_the_command() {
    let silent = Silent::default();
    let agent = |store: Arc<dyn EventStore>, prompt: &str| {
        let builder = System::builder("-").store(store).arbiters(1).resumed_at_once(1);
        let builder = builder.on_changed_agent(ChangedAgent::WaitForPerson);
        builder.infer(silent.clone()).system_prompt(prompt).start()
    };
    let before = Arc::new(MemoryStore::new());
    let system = agent(before.clone(), "before").await.unwrap();
    let mut open = Vec::new();
    for _ in 0..2 {
        let task = system.submit(Part::infer("go")).await.unwrap();
        tokio::time::timeout(PATIENCE, silent.0.notified()).await.unwrap();
        open.push((task.id().to_owned(), task.snapshot().await.unwrap().version()));
    }
    let found = before.reopened().unwrap();
    system.shutdown_within(Duration::ZERO).await.unwrap();
    let store = Arc::new(DelegatingStore::new(Arc::new(found), SinkStore::default()));
    // A person is asked about the first one, which does not hear of it yet: the second one is not resumed before.
    let (written, is_written) = channel();
    let (go_on, goes_on) = channel();
    let (answered, _is_answered) = channel();
    store.overrides().plan("approval_", Next::AnsweredAt { written, at: goes_on, answered });
    let system = agent(store.clone(), "after").await.unwrap();
    let asked = tokio::task::spawn_blocking(move || is_written.recv_timeout(PATIENCE));
    asked.await.unwrap().unwrap();
    open.retain(|(id, version)| {
        store.stream_version(&StreamId::task("agent", id).unwrap()).unwrap() == *version
    });
    let [(id, version)] = &open[..] else { panic!("one is as it was: {open:?}") };
    let task = system.task(id).unwrap();
    let end = task.command(said(TEXT)).await.unwrap();
    assert_eq!(end.version, Version(version.0 + 2), "the question and the message");
    go_on.send(()).unwrap();
    let snapshot = task.snapshot().await.unwrap();
    let said_last = snapshot.task().messages().last().unwrap();
    assert_eq!((snapshot.version(), &said_last.parts), (end.version, &vec![Part::text(TEXT)]));
    system.shutdown_within(Duration::ZERO).await.unwrap();
}

/// A command with the end of its append, and whether its caller goes away.
fn command() -> impl Strategy<Value = (End, bool)> {
    let ends = [
        End::Written,
        End::WrittenElsewhere,
        End::Lost,
        End::Unknown,
        End::Dropped,
        End::Conflict,
        End::Closed,
        End::Panic,
        End::WrittenBeforeAPanic,
    ];
    (proptest::sample::select(ends.to_vec()), proptest::bool::weighted(0.2))
}

fn is_in_doubt<T>(answer: &Result<T, Error>) -> bool {
    matches!(answer, Err(Error::InDoubt { .. }))
}

/// Sends commands to one task, and checks each answer, and the log at the end.
async fn answers_are_true(first: End, commands: Vec<(End, bool)>) {
    let store = store();
    store.overrides().plan(TEXT, Next::Ends(first));
    let system = System::builder("-").store(store.clone()).start().await.unwrap();
    let task = system.task("t").unwrap();
    let answer = task.command(posted("t")).await;
    assert!(answer.is_ok() || (first == End::WrittenBeforeAPanic && is_in_doubt(&answer)), "{answer:?}");
    let mut expected = vec![TEXT.to_owned()];
    for (n, (end, goes_away)) in commands.into_iter().enumerate() {
        let text = format!("message {n}");
        store.overrides().plan(&text, Next::Ends(end));
        let is_written = matches!(
            end,
            End::Written | End::WrittenElsewhere | End::WrittenBeforeAPanic | End::Lost | End::Conflict
        );
        if is_written {
            expected.push(text.clone());
        }
        let mut reply = pin!(task.command(said(&text)));
        let answer = match futures_util::poll!(&mut reply) {
            Poll::Ready(answer) => answer,
            Poll::Pending if goes_away => continue,
            Poll::Pending => {
                tokio::time::timeout(PATIENCE, reply).await.expect("every caller hears of its end")
            }
        };
        match end {
            End::Written | End::WrittenElsewhere | End::Conflict => {
                assert_eq!(answer.unwrap().version, Version(expected.len() as u64), "{end:?}");
            }
            // The answer may arrive before the actor has its reply sent, which then hears of the panic.
            End::WrittenBeforeAPanic if is_in_doubt(&answer) => {}
            End::WrittenBeforeAPanic => assert_eq!(answer.unwrap().version, Version(expected.len() as u64)),
            End::Lost | End::Unknown | End::Dropped => {
                assert!(is_in_doubt(&answer), "{end:?}: {answer:?}");
            }
            End::Closed => assert!(answer.is_err(), "{answer:?}"),
            End::Panic => assert!(answer.is_err_and(|error| error.to_string().contains("no store"))),
        }
    }
    let snapshot = task.snapshot().await.unwrap();
    let parts: Vec<_> = snapshot.task().messages().iter().flat_map(|message| message.parts.clone()).collect();
    assert_eq!(parts, expected.iter().map(Part::text).collect::<Vec<_>>());
    let verified = verify(store.as_ref());
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
    system.shutdown().await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn a_caller_hears_of_each_end_of_its_append_and_never_of_an_event_that_is_not_there(
        first in proptest::sample::select(vec![End::Written, End::WrittenBeforeAPanic]),
        commands in proptest::collection::vec(command(), 1..10),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(answers_are_true(first, commands));
    }
}
