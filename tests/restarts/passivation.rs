//! Actors are passivated when they are idle or too many, nothing is lost between one actor and the next, and
//! an actor with open work is never passivated.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use proto_events::json;
use proto_events::model::LlmRole;
use serde::Deserialize;
use taskreel::approval::CapabilityPolicy;
use taskreel::infer::{InferBackend, InferError, InferReply, InferRequest};
use taskreel::tool::{BoxFuture, ToolContext, ToolPolicy};
use taskreel::{Builder, JsonSchema, Part, System, TaskHandle, TaskState};
use taskreel_log::memory::MemoryStore;

use crate::call_support::resting;

/// A model that answers everything with the same word, and counts its requests.
#[derive(Clone, Default)]
struct Yes {
    asked: Arc<AtomicUsize>,
}

impl InferBackend for Yes {
    fn backend(&self) -> &'static str {
        "yes"
    }

    fn model(&self) -> &'static str {
        "yes"
    }

    fn infer(&self, _: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let content = r#"{"type":"final","content":"yes"}"#.to_owned();
        Box::pin(async { Ok(InferReply { content, model: "yes".to_owned(), ..InferReply::default() }) })
    }
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

async fn forever(cx: ToolContext, _: Nothing) -> Result<(), Infallible> {
    cx.cancellation().canceled().await;
    Ok(())
}

fn builder() -> Builder {
    System::builder("-").store(Arc::new(MemoryStore::new()))
}

async fn live(system: &System) -> usize {
    system.live_tasks().await.unwrap() + system.live_sessions().await.unwrap()
}

/// Waits until at most this many actors are live.
async fn await_live(system: &System, most: usize) {
    let since = Instant::now();
    while live(system).await > most {
        assert!(since.elapsed() < Duration::from_secs(20), "{} actors are still live", live(system).await);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Returns the number of turns of a conversation: each ends with one answer.
async fn turns(system: &System, session: &str) -> usize {
    let history = system.session(session).history().await.unwrap();
    history.as_slice().iter().filter(|message| message.role == LlmRole::Assistant).count()
}

const BOUND: usize = 16;
const AT_ONCE: usize = 24;
const SESSIONS: usize = 200;
const TASKS: usize = 1_000;

#[tokio::test]
async fn a_thousand_tasks_of_two_hundred_sessions_go_through_a_bound_of_sixteen() {
    let model = Yes::default();
    let system = builder().live_actors(BOUND).infer(model.clone()).start().await.unwrap();
    let (tasks, sessions) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = stream::iter(0..TASKS).for_each_concurrent(AT_ONCE, |n| {
        let (system, most_tasks, most_sessions) = (&system, &tasks, &sessions);
        async move {
            let session = system.session(&format!("s{}", n % SESSIONS));
            let task = session.send(Part::infer(format!("question {n}"))).await.unwrap();
            assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
            most_tasks.fetch_max(system.live_tasks().await.unwrap(), Ordering::SeqCst);
            most_sessions.fetch_max(system.live_sessions().await.unwrap(), Ordering::SeqCst);
        }
    });
    work.await;
    // At most `AT_ONCE` have open work at a time: a task, and the session whose turn it has.
    let (tasks, sessions) = (tasks.into_inner(), sessions.into_inner());
    assert!(tasks <= BOUND + AT_ONCE, "{tasks} tasks were live at once");
    assert!(sessions <= BOUND + AT_ONCE, "{sessions} sessions were live at once");
    await_live(&system, BOUND).await;
    for n in 0..SESSIONS {
        assert_eq!(turns(&system, &format!("s{n}")).await, TASKS / SESSIONS, "session s{n}");
        assert!(live(&system).await <= BOUND, "asking started more actors than may be live");
    }
    assert_eq!(model.asked.load(Ordering::SeqCst), TASKS, "no question was asked twice");
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn open_work_is_never_put_to_sleep_and_goes_beyond_the_bound() {
    let system = builder().live_actors(2).tool("forever", "Waits", forever).start().await.unwrap();
    let call = || Part::tool_call("forever", json!({})).unwrap();
    let mut open = Vec::new();
    for _ in 0..40 {
        open.push(system.submit(call()).await.unwrap());
    }
    for _ in 0..40 {
        system.submit(Part::text("a note")).await.unwrap().finished().await.unwrap();
        let live = system.live_tasks().await.unwrap();
        assert!((40..=42).contains(&live), "{live} tasks are live");
    }
    let waiting: Vec<_> = open.iter().map(TaskHandle::finished).collect();
    let cancels = join_all(open.iter().map(|task| task.cancel(Some("enough"))));
    let (ended, canceled) = tokio::join!(join_all(waiting), cancels);
    for (ended, canceled) in ended.into_iter().zip(canceled) {
        canceled.unwrap();
        let ended = ended.unwrap();
        assert_eq!(ended.state(), TaskState::Canceled);
        assert_eq!(ended.task().calls().iter().map(|call| call.attempts).sum::<u32>(), 1);
    }
    // There are no new actors: those that become idle must report so themselves.
    await_live(&system, 2).await;
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_are_not_refused_while_thousands_of_actors_are_put_to_sleep_at_once() {
    const MANY: usize = 6_000;
    // Longer than it takes to make them all, so that one pass over them finds all of them idle.
    let system = builder().passivate_after(Duration::from_secs(4)).start().await.unwrap();
    let notes = stream::iter(0..MANY).for_each_concurrent(64, |n| {
        let system = &system;
        async move {
            resting(system, &format!("note-{n}")).await;
        }
    });
    notes.await;
    assert!(system.live_tasks().await.unwrap() > MANY / 2, "they fell asleep one by one");
    let callers = (0..64).map(|_| {
        let system = system.clone();
        tokio::spawn(async move {
            let mine = system.submit(Part::text("asked again and again")).await.unwrap();
            let since = Instant::now();
            while system.live_tasks().await.unwrap() > 64 {
                mine.snapshot().await.unwrap();
                assert!(since.elapsed() < Duration::from_secs(60), "they do not fall asleep");
            }
        })
    });
    for caller in join_all(callers).await {
        caller.unwrap();
    }
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_actor_that_works_again_keeps_no_other_awake() {
    // It rests while it waits for a person, before all others, and works when that one has approved.
    let policy = ToolPolicy::manual().capabilities(["money.pay"]);
    let builder =
        builder().passivate_after(Duration::from_millis(200)).tool_with("forever", "Waits", forever, policy);
    let builder = builder.capability_policy(CapabilityPolicy::new().require_approval("money.*"));
    let system = builder.approvals_by_person().start().await.unwrap();
    let open = system.submit(Part::tool_call("forever", json!({})).unwrap()).await.unwrap();
    open.finished().await.unwrap();
    let snapshot = open.snapshot().await.unwrap();
    let approval = snapshot.task().awaited_approvals().next().unwrap().request.approval_id.clone();
    open.approve(&approval, "ada").await.unwrap();
    for n in 0..20 {
        resting(&system, &format!("note-{n}")).await;
    }
    await_live(&system, 1).await;
    open.cancel(Some("enough")).await.unwrap();
    await_live(&system, 0).await;
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_session_that_slept_between_two_turns_goes_on_with_its_history() {
    let system =
        builder().passivate_after(Duration::from_millis(2)).infer(Yes::default()).start().await.unwrap();
    for turn in 1..=5 {
        let task = system.session("s").send(Part::infer("and?")).await.unwrap();
        let done = task.finished().await.unwrap();
        assert_eq!(done.state(), TaskState::Completed);
        await_live(&system, 0).await;
        assert_eq!(turns(&system, "s").await, turn);
        await_live(&system, 0).await;
        assert_eq!(task.snapshot().await.unwrap().version(), done.version(), "a task wakes as it was");
    }
    system.shutdown().await.unwrap();
}

#[tokio::test]
async fn requests_for_a_turn_that_race_with_going_to_sleep_are_all_granted_once() {
    const ASKERS: usize = 6;
    const ROUNDS: usize = 60;
    let model = Yes::default();
    let brief = Duration::from_millis(1);
    let system = builder().live_actors(1).passivate_after(brief).infer(model.clone()).start().await.unwrap();
    // Two sessions that displace each other, by the bound and by the clock, while they are read.
    let ask = |asker: usize| {
        let system = system.clone();
        async move {
            for round in 0..ROUNDS {
                let session = system.session(&format!("s{}", (asker + round) % 2));
                let task = session.send(Part::infer(format!("{asker}.{round}"))).await.unwrap();
                assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
                session.history().await.unwrap();
                if (asker + round).is_multiple_of(3) {
                    tokio::time::sleep(brief).await;
                }
            }
        }
    };
    let all = join_all((0..ASKERS).map(ask));
    tokio::time::timeout(Duration::from_secs(60), all).await.expect("a request was lost");
    assert_eq!(turns(&system, "s0").await + turns(&system, "s1").await, ASKERS * ROUNDS);
    assert_eq!(model.asked.load(Ordering::SeqCst), ASKERS * ROUNDS);
    await_live(&system, 0).await;
    system.shutdown().await.unwrap();
}
