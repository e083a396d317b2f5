//! The actors of ended tasks stay live in small number, whatever many have ended: those are passivated first that nobody has
//! asked for longest. They answer as before, and what is sent to them at that moment is carried out, once.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests, which the lint settings know only inside test functions"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use proto_events::model::Message;
use proto_events::task::TaskCommand;
use taskreel::limits::ENDED_TASKS_LIVE;
use taskreel::{Error, System, TaskHandle, TaskState};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::Ports;

use crate::call_support::{Nothing, call, resting, soon};

/// Starts a system with a tool that counts its calls.
async fn started(calls: &Arc<AtomicUsize>) -> System {
    let calls = Arc::clone(calls);
    let count = move |_: Nothing| {
        let number = calls.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, Infallible>(number) }
    };
    System::builder("-")
        .store(Arc::new(MemoryStore::new()))
        .tool("count", "Counts", count)
        .start()
        .await
        .unwrap()
}

/// Makes a task with one call and waits for its end.
async fn ended(system: &System) -> TaskHandle {
    let task = system.submit(call("count")).await.unwrap();
    assert_eq!(task.finished().await.unwrap().state(), TaskState::Completed);
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_ended_tasks_few_actors_stay_live_and_all_answer_as_before() {
    const TASKS: usize = 1_500;
    const AT_ONCE: usize = 32;
    let calls = Arc::default();
    let system = started(&calls).await;
    let most = AtomicUsize::new(0);
    let tasks: Vec<_> = stream::iter(0..TASKS)
        .map(|_| async {
            let task = ended(&system).await;
            most.fetch_max(system.live_tasks().await.unwrap(), Ordering::SeqCst);
            let end = task.snapshot().await.unwrap();
            (task, end.version(), end.to_json())
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    // And those at work.
    let bound = ENDED_TASKS_LIVE + 2 * AT_ONCE;
    assert!(most.load(Ordering::SeqCst) <= bound, "{most:?} actors were live at once");
    // The first of them have been put to sleep long ago. Those that are asked for take the places of others.
    for (task, version, json) in &tasks {
        let now = task.snapshot().await.unwrap();
        assert_eq!((now.version(), &now.to_json()), (*version, json));
        assert_eq!(task.finished().await.unwrap().version(), *version);
        let refused = task.cancel(None).await.unwrap_err();
        assert!(matches!(refused, Error::TaskNotCancelable { .. }), "{refused:?}");
        assert!(system.live_tasks().await.unwrap() <= bound);
    }
    assert_eq!(calls.load(Ordering::SeqCst), TASKS, "each call was made once");
    system.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_to_ended_tasks_while_they_are_put_to_sleep_is_carried_out_once() {
    const TASKS: usize = 900;
    const WORKERS: usize = 8;
    let calls = Arc::default();
    let system = started(&calls).await;
    let mut first = Vec::new();
    // As many as stay live: from the next one on, each start puts the one to sleep that ended longest ago.
    for _ in 0..ENDED_TASKS_LIVE {
        first.push(ended(&system).await);
    }
    let tasks = Arc::new(std::sync::Mutex::new(first));
    let work = (0..WORKERS).map(|worker| {
        let (system, tasks) = (system.clone(), Arc::clone(&tasks));
        tokio::spawn(async move {
            for round in 0..(TASKS - ENDED_TASKS_LIVE) / WORKERS {
                // One that is about to be put to sleep, is just put to sleep, or was.
                let (old, new) = {
                    let tasks = tasks.lock().unwrap();
                    let about = tasks.len() - ENDED_TASKS_LIVE + (worker + round) % 6;
                    (tasks[about].clone(), tasks[tasks.len() - 1].clone())
                };
                let id = format!("{worker}.{round}");
                let mut message = Message::user(&id, &mut Ports::default());
                (message.id, message.timestamp) = (Some(id.clone()), None);
                let say = || {
                    let (task, message) = (old.once(&id), message.clone());
                    async move { task.command(TaskCommand::AppendMessage(message)).await.unwrap() }
                };
                let (made, once, again, seen) = tokio::join!(ended(&system), say(), say(), new.snapshot());
                assert_eq!(once.version, again.version, "the second one gets the first answer");
                assert_eq!(seen.unwrap().state(), TaskState::Completed);
                let said = old.snapshot().await.unwrap();
                let known = said.task().messages().iter().filter(|known| known.id == message.id);
                assert_eq!(known.count(), 1, "it was carried out once");
                assert!(said.version() >= once.version);
                tasks.lock().unwrap().push(made);
            }
        })
    });
    for worker in soon(join_all(work)).await {
        worker.unwrap();
    }
    let tasks = tasks.lock().unwrap().clone();
    let messages =
        join_all(tasks.iter().map(|task| async { task.snapshot().await.unwrap().task().messages().len() }));
    let said: usize = messages.await.into_iter().sum();
    let own = first_messages(&system).await * tasks.len();
    assert_eq!(said - own, tasks.len() - ENDED_TASKS_LIVE, "each message was taken once");
    assert_eq!(calls.load(Ordering::SeqCst), tasks.len() + 1);
    system.shutdown().await.unwrap();
}

/// Returns the number of messages that an ended task has of itself.
async fn first_messages(system: &System) -> usize {
    ended(system).await.snapshot().await.unwrap().task().messages().len()
}

#[tokio::test]
async fn tasks_that_have_not_ended_stay_live_beyond_that_number() {
    let system = started(&Arc::default()).await;
    for number in 0..2 * ENDED_TASKS_LIVE {
        resting(&system, &format!("note-{number}")).await;
    }
    assert_eq!(system.live_tasks().await.unwrap(), 2 * ENDED_TASKS_LIVE);
    system.shutdown().await.unwrap();
}
