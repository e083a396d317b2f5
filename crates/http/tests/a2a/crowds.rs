//! Many streams of one task that begin at any moment: each has the task, and then each event behind it, once.

use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};

use futures_util::future::join_all;
use proto_events::envelope::Timestamp;
use proto_events::task::TaskCommand;
use serde_json::{Value, json};
use taskreel::handler::{HandlerContext, HandlerEnd};
use taskreel::limits::MAILBOX_COMMANDS;
use taskreel::tool::ToolError;
use taskreel::{JsonObject, JsonText, Message, System};
use taskreel_log::memory::MemoryStore;
use taskreel_log::ports::{Clock, Ports, SystemClock};

use crate::agent::{Gate, with_handler};
use crate::asked::{Binding, handler};
use crate::streams::message;
use crate::support::{actix, ask, connect};

/// A clock that stops the actors' thread while it is held.
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

/// Returns the version in a frame's place.
fn version(frame: &(Option<String>, Value)) -> u64 {
    let place = frame.0.as_deref().unwrap().rsplit_once(':').unwrap();
    place.1.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_its_tasks_mailbox_does_not_hold_gets_a_stream_each() {
    let clock = Arc::new(HeldClock::default());
    let ports = Ports { clock: Arc::<HeldClock>::clone(&clock), ..Ports::default() };
    let builder = System::builder("in memory").store(Arc::new(MemoryStore::new())).ports(ports).arbiters(1);
    let system = with_handler(builder, &Gate::shut()).start().await.unwrap();
    let host = actix(handler(&system)).await;
    let frames = Binding::Rpc1.frames(&host, "stream", &message(Binding::Rpc1, "wait"), &[], 2).await;
    let id = frames[0].1["task"]["id"].as_str().unwrap().to_owned();
    let task = system.task(&id).unwrap();
    clock.hold(true);
    let note: JsonObject = [("note".to_owned(), JsonText::string("x"))].into_iter().collect();
    let mut noted = pin!(tokio::task::unconstrained(task.command(TaskCommand::MergeMetadata(note))));
    assert!(futures_util::poll!(&mut noted).is_pending(), "the actors' thread stands still with it");
    let request = Binding::Rpc1.request("subscribe", &json!({"id": id}), &[]);
    let mut streams = Vec::new();
    for _ in 0..2 * MAILBOX_COMMANDS {
        let mut connection = connect(&host).await;
        connection.write_all(&request).await.unwrap();
        streams.push(connection);
    }
    // The server has read them all once it answers others.
    for _ in 0..20 {
        assert_eq!(ask(&host, "GET", "/.well-known/agent-card.json", "").await.status, 200);
    }
    clock.hold(false);
    for stream in &mut streams {
        let (status, head) = stream.head().await;
        assert_eq!(status, 200, "{head}");
        let (_, body) = stream.frame().await.unwrap();
        assert_eq!(body["result"]["task"]["status"]["state"], "TASK_STATE_WORKING", "{body}");
    }
    noted.await.unwrap();
    task.cancel(None).await.unwrap();
    for stream in &mut streams {
        let mut last = Value::Null;
        while let Some((_, body)) = stream.frame().await {
            last = body;
        }
        assert_eq!(last["result"]["statusUpdate"]["status"]["state"], "TASK_STATE_CANCELED", "{last}");
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}

/// The messages that the handler says.
const SAID: usize = 40;

async fn talks(cx: HandlerContext, _: Message) -> Result<HandlerEnd, ToolError> {
    for said in 0..SAID {
        cx.say(&format!("word {said}")).await?;
        tokio::task::yield_now().await;
    }
    Ok(HandlerEnd::Completed)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_begins_at_any_moment_has_each_event_behind_its_beginning_once() {
    let system = System::builder("in memory").store(Arc::new(MemoryStore::new())).handler(talks);
    let system = system.start().await.unwrap();
    let host = actix(handler(&system)).await;
    for round in 0..5_usize {
        let mut first = connect(&host).await;
        let request = Binding::Rpc1.request("stream", &message(Binding::Rpc1, "go"), &[]);
        first.write_all(&request).await.unwrap();
        assert_eq!(first.head().await.0, 200);
        let mut whole = vec![first.frame().await.unwrap()];
        let id = whole[0].1["result"]["task"]["id"].clone();
        let later = (0..30_usize).map(|n| {
            let (host, id) = (&host, id.clone());
            async move {
                for _ in 0..n * (round + 1) {
                    tokio::task::yield_now().await;
                }
                let mut connection = connect(host).await;
                let request = Binding::Rpc1.request("subscribe", &json!({"id": id}), &[]);
                connection.write_all(&request).await.unwrap();
                let (_, head) = connection.head().await;
                // The task may be over by then.
                if !head.to_lowercase().contains("text/event-stream") {
                    return Vec::new();
                }
                let mut frames = Vec::new();
                while let Some(frame) = connection.frame().await {
                    frames.push(frame);
                }
                frames
            }
        });
        let all = async {
            while let Some(frame) = first.frame().await {
                whole.push(frame);
            }
        };
        let (later, ()) = tokio::join!(join_all(later), all);
        assert!(whole.len() > SAID, "{}", whole.len());
        for frames in later.iter().filter(|frames| !frames.is_empty()) {
            let from = version(&frames[0]);
            let behind: Vec<_> = whole.iter().filter(|frame| version(frame) > from).cloned().collect();
            assert_eq!(frames[1..], behind, "from version {from}");
        }
    }
    host.stop().await;
    system.shutdown().await.unwrap();
}
