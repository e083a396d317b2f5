//! A service around a system: lists of tasks, health and figures, room in the mailboxes, streams for people, models that
//! simply talk.

#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::call_support::{Nothing, call, memory, soon};
use futures_util::StreamExt;
use proto_events::envelope::Timestamp;
use proto_events::id::{Position, Version};
use taskreel::approval::{CapabilityPolicy, PolicyEffect};
use taskreel::infer::{InferBackend, InferError, InferErrorKind, InferReply, InferRequest};
use taskreel::limits::SUPERVISOR_MAILBOX;
use taskreel::tool::{ToolContext, ToolError, ToolPolicy};
use taskreel::{BoxFuture, Builder, Error, Live, Outcome, Part, RunEvent, System, TaskState};
use taskreel_log::api::{Append, AppendError, AppendFuture, EventStore};
use taskreel_log::memory::MemoryStore;
use taskreel_log::testing::{AppendFault, DelegatingStore, Faults, FaultyStore, Overrides};

fn over(store: &Arc<MemoryStore>) -> Builder {
    System::builder("-").store(Arc::clone(store) as Arc<dyn EventStore>)
}

async fn works(_: Nothing) -> Result<u32, ToolError> {
    Ok(7)
}

async fn fails(_: Nothing) -> Result<u32, ToolError> {
    Err(ToolError::failed("broke"))
}

async fn asks(cx: ToolContext, _: Nothing) -> Result<String, ToolError> {
    cx.ask("Which one?").await
}

fn desk(store: &Arc<MemoryStore>) -> Builder {
    over(store)
        .tool("works", "", works)
        .tool("fails", "", fails)
        .tool("asks", "", asks)
        .tool_with("pay", "", works, ToolPolicy::manual().capabilities(["money"]))
        .capability_policy(CapabilityPolicy::default().rule("money", PolicyEffect::RequireApproval))
        .approvals_by_person()
}

#[tokio::test]
async fn tasks_are_listed_by_state_session_and_time_in_pages_and_the_list_follows_the_log() {
    let store = memory();
    let system = desk(&store).start().await.unwrap();
    let send = |session: &'static str, tool: &'static str| {
        let session = system.session(session);
        async move { session.send(call(tool)).await.unwrap().finished().await.unwrap().task().id().to_owned() }
    };
    let mut done = Vec::new();
    for _ in 0..5 {
        done.push(send("ada", "works").await);
    }
    let (failed, other) = (send("ada", "fails").await, send("bob", "works").await);
    let ids = |page: &taskreel::TaskPage| page.tasks.iter().map(|task| task.id.clone()).collect::<Vec<_>>();
    let all = system.tasks().page(100).await.unwrap();
    assert_eq!((ids(&all), all.next), ([&done[..], &[failed.clone(), other.clone()]].concat(), None));
    let of_ada = || system.tasks().session("ada").in_state(TaskState::Completed);
    let first = of_ada().page(3).await.unwrap();
    assert_eq!(ids(&first), done[..3]);
    let rest = of_ada().after(first.next.unwrap()).page(3).await.unwrap();
    assert_eq!((ids(&rest), rest.next), (done[3..].to_vec(), None));
    let two = [TaskState::Failed, TaskState::Canceled]
        .into_iter()
        .fold(system.tasks(), taskreel::TaskQuery::in_state);
    let found = two.page(9).await.unwrap();
    assert_eq!(ids(&found), [failed]);
    let since = all.tasks.last().unwrap().since;
    assert_eq!(ids(&system.tasks().since(since).page(9).await.unwrap()), [other]);
    assert_eq!(
        ids(&system.tasks().since(Timestamp(since.0 + 1)).page(9).await.unwrap()),
        Vec::<String>::new()
    );
    let later = send("ada", "works").await;
    assert_eq!(ids(&of_ada().after(rest.tasks.last().unwrap().submitted_at).page(9).await.unwrap()), [later]);
    system.clone().shutdown().await.unwrap();
    assert!(matches!(system.tasks().page(1).await.unwrap_err(), Error::Stopped));
}

#[tokio::test]
async fn what_waits_for_a_person_is_listed_with_what_it_waits_for_until_it_is_decided() {
    let store = memory();
    let system = desk(&store).start().await.unwrap();
    let session = system.session("ada");
    let pays = session.send(call("pay")).await.unwrap();
    let asked = session.send(call("asks")).await.unwrap();
    for task in [&pays, &asked, &session.send(call("works")).await.unwrap()] {
        task.finished().await.unwrap();
    }
    let waiting = system.waiting().await.unwrap();
    let [pay, ask] = waiting.as_slice() else { panic!("{waiting:?}") };
    assert_eq!((pay.task.id.as_str(), pay.task.session_id.as_deref()), (pays.id(), Some("ada")));
    assert_eq!((pay.approvals.len(), pay.questions.len(), pay.unknown.len()), (1, 0, 0));
    assert_eq!((ask.task.id.as_str(), ask.questions.len()), (asked.id(), 1));
    let Outcome::AwaitsAnswer(calls) = asked.settled().await.unwrap() else { panic!("it asks") };
    assert_eq!(calls.first().and_then(|call| call.open_question()), Some("Which one?"));
    pays.approve(&pay.approvals.first().unwrap().request.approval_id, "eve").await.unwrap();
    asked.answer(&calls.first().unwrap().request.call_id, "this", "eve").await.unwrap();
    for task in [&pays, &asked] {
        assert_eq!(soon(task.finished()).await.unwrap().state(), TaskState::Completed);
    }
    assert!(system.waiting().await.unwrap().is_empty());
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn health_tells_a_poisoned_log_and_whoever_watches_hears_of_it_and_of_the_reopening() {
    let faults = Faults::none();
    let store: Arc<dyn EventStore> = Arc::new(FaultyStore::new(memory(), faults.clone()));
    let system = System::builder("-").store(store).tool("works", "", works).start().await.unwrap();
    system.submit(call("works")).await.unwrap().finished().await.unwrap();
    let well = system.health().await.unwrap();
    assert!(well.open && well.poisoned.is_none() && well.queue == 0 && well.head > Position(3), "{well:?}");
    assert_eq!(well.disk_free, None, "a store of the host's own has no directory");
    let watch = tokio::spawn({
        let system = system.clone();
        async move { system.until_poisoned().await }
    });
    faults.at_next_append(AppendFault::BeforeWrite);
    assert!(system.submit(call("works")).await.is_err());
    let why = soon(watch).await.unwrap().expect("the log is poisoned");
    let ill = system.health().await.unwrap();
    assert_eq!((ill.open, ill.poisoned.as_ref()), (false, Some(&why)));
    assert_eq!(system.until_poisoned().await, Some(why), "also for whoever asks later");
    system.reopen().await.unwrap();
    assert!(system.health().await.unwrap().open);
    let figures = system.metrics().await.unwrap();
    assert!(figures.appends >= 2 && figures.append_failures > 0, "{figures:?}");
    assert_eq!(figures.commands, 2, "the one that was refused too");
    let ended: Vec<_> =
        figures.calls.iter().map(|row| (&*row.target, row.kind, row.outcome, row.count)).collect();
    assert_eq!(ended, [("works", "tool", "succeeded", 1)]);
    let text = figures.to_prometheus();
    assert!(
        text.contains("taskreel_call_attempts_total{agent=\"agent\",kind=\"tool\",target=\"works\","),
        "{text}"
    );
    assert!(text.contains("taskreel_log_poisoned{agent=\"agent\"} 0\n"), "{text}");
    assert!(text.lines().all(|line| line.starts_with('#') || line.split(' ').count() == 2), "{text}");
    let watch = tokio::spawn({
        let system = system.clone();
        async move { system.until_poisoned().await }
    });
    tokio::task::yield_now().await;
    system.clone().shutdown().await.unwrap();
    assert_eq!(soon(watch).await.unwrap(), None, "the end of the system is no poison");
    assert!(!system.health().await.unwrap().open);
}

/// Refuses the next append as a store does in which no write has failed.
#[derive(Default)]
struct Refusing(AtomicBool);

impl Overrides for Refusing {
    fn append(&self, log: &dyn EventStore, append: Append) -> AppendFuture {
        if self.0.swap(false, Ordering::SeqCst) {
            let why = "the log has as many records as its index can number".to_owned();
            return Box::pin(std::future::ready(Err(AppendError::NotWritten { why })));
        }
        log.append(append)
    }
}

#[tokio::test]
async fn an_append_that_is_only_refused_leaves_the_log_well() {
    let store = Arc::new(DelegatingStore::new(memory(), Refusing::default()));
    let system = System::builder("-").store(store.clone()).tool("works", "", works).start().await.unwrap();
    store.overrides().0.store(true, Ordering::SeqCst);
    let refused = system.submit(call("works")).await.unwrap_err();
    assert!(refused.to_string().contains("its index can number"), "{refused}");
    let well = system.health().await.unwrap();
    assert!(well.open && well.poisoned.is_none(), "{well:?}");
    let watch = tokio::spawn({
        let system = system.clone();
        async move { system.until_poisoned().await }
    });
    let end = system.submit(call("works")).await.unwrap().finished().await.unwrap();
    assert_eq!(end.state(), TaskState::Completed, "it goes on without a reopening");
    system.shutdown().await.unwrap();
    assert_eq!(soon(watch).await.unwrap(), None);
}

#[tokio::test]
async fn the_disk_of_a_directory_says_how_much_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let system = System::builder(dir.path()).start().await.unwrap();
    assert!(system.health().await.unwrap().disk_free.is_some_and(|free| free > 0));
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_submission_waits_for_room_and_one_that_may_not_is_refused() {
    let system = over(&memory()).start().await.unwrap();
    let many = 2 * SUPERVISOR_MAILBOX;
    let patient = futures_util::future::join_all((0..many).map(|_| system.submit(Part::text("x"))));
    assert!(soon(patient).await.into_iter().all(|sent| sent.is_ok()), "all find room in the end");
    // Nothing is taken from the mailbox between two polls of one thread's futures.
    let hasty = futures_util::future::join_all((0..many).map(|_| system.try_submit(Part::text("x"))));
    let sent = soon(hasty).await;
    let refused = sent.iter().filter(|sent| matches!(sent, Err(Error::Overloaded { .. }))).count();
    let taken = sent.iter().filter(|sent| sent.is_ok()).count();
    assert_eq!(refused + taken, many);
    system.shutdown().await.unwrap();
}

/// A model that answers in pieces, as told.
struct Streaming {
    reply: &'static [&'static str],
    talks: bool,
    fails_first: bool,
}

impl InferBackend for Streaming {
    fn backend(&self) -> &'static str {
        "streaming"
    }

    fn model(&self) -> &'static str {
        "m"
    }

    fn has_native_tools(&self) -> bool {
        self.talks
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let (reply, breaks) = (self.reply, self.fails_first && request.attempt == 1);
        Box::pin(async move {
            for piece in reply {
                request.deltas.say(piece);
                tokio::task::yield_now().await;
                if breaks {
                    let retry_after = Some(Duration::ZERO);
                    return Err(InferError::new(InferErrorKind::Transient { retry_after }, "Cut", "off"));
                }
            }
            Ok(InferReply { content: reply.concat(), model: "m".to_owned(), ..InferReply::default() })
        })
    }
}

const FINAL: &[&str] = &["{\"type\":\"fin", "al\",\"content\":\"Take \\\"a", "\\\" coat\\n\"}"];

/// Collects the answer of a run that is void where the run says so, and its end.
async fn told(system: &System, prompt: &str) -> (String, Vec<&'static str>, TaskState) {
    let mut run = system.session("s").send_live(Part::infer(prompt)).await.unwrap();
    let (mut answer, mut kinds, mut end) = (String::new(), Vec::new(), None);
    while let Some(event) = soon(run.next()).await {
        match event.unwrap() {
            RunEvent::Answer { text, .. } => {
                answer.push_str(&text);
                kinds.push("answer");
            }
            RunEvent::Void { .. } => {
                answer.clear();
                kinds.push("void");
            }
            RunEvent::Ended(snapshot) => end = Some(snapshot.state()),
            _ => {}
        }
    }
    (answer, kinds, end.expect("the run ends"))
}

#[tokio::test]
async fn a_live_run_tells_the_answer_unescaped_as_it_grows_misses_nothing_and_ends() {
    let model = Streaming { reply: FINAL, talks: false, fails_first: false };
    let system = over(&memory()).infer(model).start().await.unwrap();
    let (answer, kinds, end) = told(&system, "coat?").await;
    assert_eq!((answer.as_str(), end), ("Take \"a\" coat\n", TaskState::Completed));
    assert_eq!(kinds, ["answer", "answer"], "in pieces, as they arrive");
    system.shutdown().await.unwrap();
    let model = Streaming { reply: FINAL, talks: false, fails_first: true };
    let system = over(&memory()).infer(model).start().await.unwrap();
    let (answer, _, end) = told(&system, "coat?").await;
    assert_eq!(
        (answer.as_str(), end),
        ("Take \"a\" coat\n", TaskState::Completed),
        "an attempt again voids the last"
    );
    system.shutdown().await.unwrap();
    // Without streaming, the whole answer comes at the end.
    let model = taskreel::infer::Scripted::from_json(r#"{"":[{"type":"final","content":"whole"}]}"#).unwrap();
    let system = over(&memory()).infer(model).start().await.unwrap();
    assert_eq!(told(&system, "coat?").await.0, "whole");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn feeds_subscriptions_and_events_are_streams_and_may_be_polled_and_awaited_in_turn() {
    let model = Streaming { reply: FINAL, talks: false, fails_first: false };
    let system = over(&memory()).infer(model).start().await.unwrap();
    let mut log = system.subscribe(Position(1));
    let task = system.task("t").unwrap();
    let (mut live, events) = (task.live(), task.events_after(Version(0)));
    // A poll that has begun to wait is continued by whoever waits next.
    assert!(futures_util::poll!(StreamExt::next(&mut live)).is_pending());
    system.session("s").run("coat?").id("t").await.unwrap();
    let events: Vec<_> = soon(events.map(Result::unwrap).collect::<Vec<_>>()).await;
    assert!(events.last().unwrap().is_last());
    let mut answer = String::new();
    while answer != "Take \"a\" coat\n" {
        if let Live::Answer { at, text, .. } = soon(StreamExt::next(&mut live)).await.unwrap() {
            assert_eq!(at, answer.len());
            answer.push_str(&text);
        }
    }
    assert!(soon(StreamExt::next(&mut log)).await.unwrap().is_ok());
    assert!(soon(log.next()).await.unwrap().is_ok());
    system.shutdown().await.unwrap();
    let rest = soon(log.collect::<Vec<_>>()).await;
    assert!(rest.iter().all(Result::is_ok), "it ends with the log");
    assert_eq!(
        soon(live.collect::<Vec<_>>())
            .await
            .iter()
            .filter(|live| matches!(live, Live::Answer { .. }))
            .count(),
        0
    );
}

#[tokio::test]
async fn a_model_with_native_tools_may_simply_talk_and_one_without_is_told_its_mistake() {
    let words: &[&str] = &["Take ", "a coat."];
    let system = over(&memory()).infer(Streaming { reply: words, talks: true, fails_first: false });
    let system = system.start().await.unwrap();
    let (answer, kinds, end) = told(&system, "coat?").await;
    assert_eq!((answer.as_str(), end), ("Take a coat.", TaskState::Completed));
    assert_eq!(kinds.len(), 2);
    let task = system.session("s").run("coat?").await.unwrap();
    let end = soon(task.settled()).await.unwrap();
    assert_eq!(end.answer::<String>().unwrap(), "Take a coat.");
    let Outcome::Completed(end) = end else { panic!("{end:?}") };
    assert_eq!(end.task().calls().iter().count(), 1, "one inference, not three");
    system.shutdown().await.unwrap();
    // Neither is a call that a model with native tools writes as text an answer.
    for (reply, talks) in [(words, false), (&["{\"type\":\"tool_call\"}"], true), (&[" "], true)] {
        let system =
            over(&memory()).infer(Streaming { reply, talks, fails_first: false }).start().await.unwrap();
        let end = soon(system.session("s").run("coat?").await.unwrap().settled()).await.unwrap();
        assert!(matches!(end, Outcome::Failed(taskreel::Failure::Model { .. })), "{reply:?}: {end:?}");
        system.shutdown().await.unwrap();
    }
}
