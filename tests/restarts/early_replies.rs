//! Replies that the store's thread sends: a caller is answered without the actors' thread, only once its event is in the log,
//! finds all that its command did, and hears of every other end of its append too.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the answer, in helpers too")]

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use proptest::prelude::*;
use proto_events::id::Version;
use proto_events::json;
use proto_events::task::TaskCommand;
use serde::Deserialize;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest};
use taskreel::tool::BoxFuture;
use taskreel::{Error, JsonSchema, Message, Part, PostedTask, System, TaskHandle, TaskState};
use taskreel_log::api::{AnswersByDesk, Append, AppendError, AppendFuture, EventStore, Fence, Ticket};
use taskreel_log::audit::verify;
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;
use taskreel_log::testing::{DelegatingStore, Overrides};
use tokio::sync::Notify;

/// The time after which a test fails whose reply does not come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A store that answers at desks, from threads of its own.
#[derive(Default)]
struct AtDesks {
    /// The fates of the next appends that hold these texts. Others are written.
    next: Mutex<Vec<(String, Next)>>,
    /// A mark that the next call panics.
    panics: AtomicBool,
}

impl AtDesks {
    fn plan(&self, text: &str, next: Next) {
        self.next.lock().unwrap().push((text.to_owned(), next));
    }

    fn take(&self, append: &Append) -> Option<Next> {
        let holds = |text: &str| {
            let mut records = append.parts.iter().map(|part| part.record.bytes());
            records.any(|record| record.windows(text.len()).any(|piece| piece == text.as_bytes()))
        };
        let mut all = self.next.lock().unwrap();
        let at = all.iter().position(|(text, _)| holds(text))?;
        Some(all.remove(at).1)
    }
}

/// The fate of an append.
enum Next {
    /// A plain end.
    Ends(End),
    /// An append that is written and says so, and says so again once it was answered.
    AnsweredAt { written: Sender<()>, at: Receiver<()>, answered: Sender<()> },
    /// An append that says that it was called, has its caller wait, and is written.
    HoldsUp { called: Sender<()>, until: Receiver<()> },
}

/// The end of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Written,
    /// The future of the append has the answer.
    WrittenElsewhere,
    /// An end of which the store does not tell: it is written.
    Lost,
    /// An end of which the store does not tell: it is not written.
    Unknown,
    /// The ticket is dropped.
    Dropped,
    /// Another writer came first. It is decided again.
    Conflict,
    Closed,
    /// The store panics when it is called.
    Panic,
    /// An end that is followed by a panic: it is written, and the store panics when it is next called, after the answer.
    WrittenBeforeAPanic,
}

impl Overrides for AtDesks {
    fn fence(&self, log: &dyn EventStore) -> Fence {
        assert!(!self.panics.swap(false, Ordering::SeqCst), "no fence");
        log.fence()
    }

    fn append_with(&self, log: &dyn EventStore, append: Append, ticket: Ticket) -> Option<AppendFuture> {
        let next = self.take(&append);
        let write = |append| log.append(append).now_or_never().unwrap();
        let ambiguous = |why: &str| Err(AppendError::Ambiguous { why: why.to_owned() });
        let (answer, word) = match next {
            None | Some(Next::Ends(End::Written)) => (write(append), None),
            Some(Next::AnsweredAt { written, at, answered }) => {
                let answer = write(append);
                written.send(()).unwrap();
                (answer, Some((at, answered)))
            }
            Some(Next::HoldsUp { called, until }) => {
                called.send(()).unwrap();
                until.recv_timeout(PATIENCE).unwrap();
                (write(append), None)
            }
            Some(Next::Ends(End::WrittenElsewhere)) => {
                ticket.withdraw();
                return Some(log.append(append));
            }
            Some(Next::Ends(End::Lost)) => {
                write(append).unwrap();
                (ambiguous("the answer is lost"), None)
            }
            Some(Next::Ends(End::Unknown)) => (ambiguous("the disk failed"), None),
            Some(Next::Ends(End::Dropped)) => return None,
            Some(Next::Ends(End::Closed)) => (Err(AppendError::Closed), None),
            Some(Next::Ends(End::Panic)) => panic!("no store"),
            Some(Next::Ends(End::WrittenBeforeAPanic)) => {
                let answer = write(append);
                self.panics.store(true, Ordering::SeqCst);
                (answer, None)
            }
            Some(Next::Ends(End::Conflict)) => {
                let part = append.parts.first().unwrap();
                let (stream, expected) = (part.stream.clone(), part.expected);
                let actual = log.stream_version(&stream).unwrap();
                (Err(AppendError::Conflict { stream, expected, actual }), None)
            }
        };
        std::thread::spawn(move || {
            let answered = word.map(|(at, answered)| {
                at.recv_timeout(PATIENCE).unwrap();
                answered
            });
            let mut answers = AnswersByDesk::default();
            answers.add(ticket, answer);
            answers.hand_over();
            if let Some(answered) = answered {
                answered.send(()).unwrap();
            }
        });
        None
    }
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// The text of a task's first message.
const TEXT: &str = "message of the task";

type Store = Arc<DelegatingStore<AtDesks>>;

fn store() -> Store {
    Arc::new(DelegatingStore::new(Arc::new(MemoryStore::new()), AtDesks::default()))
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
