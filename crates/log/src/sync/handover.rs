//! The handover of a stream from one actor to the next, as a model of `src/actors/shared/live_actors.rs`
//! and `supervisor.rs`: actix itself cannot be scheduled here. The supervisor counts the messages it sends to
//! an actor, the actor those it has processed; only when both agree is the actor stopped and forgotten, and
//! the next message starts another.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use shuttle::future::{JoinHandle, block_on, spawn, yield_now};
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicBool, AtomicU64};

use crate::sync::models::mpsc::{Receiver, Sender, channel};
use crate::sync::schedulers::{is_found, try_interleavings};

/// The number of streams; then of callers, and of messages from each caller to each stream.
const STREAMS: u64 = 2;
const CALLERS: u64 = 2;
const EACH: u64 = 3;

/// The capacity of a mailbox: more than there are messages.
const ENOUGH: usize = 100;

/// A message to the supervisor.
enum ToSupervisor {
    Command { stream: u64, caller: u64, number: u64 },
    Sweep,
}

/// A message to an actor.
enum ToActor {
    Command { caller: u64, number: u64 },
    Passivate,
}

/// The shared state: the log, and whether an actor is at work on each stream.
#[derive(Default)]
struct World {
    log: Mutex<Vec<(u64, u64, u64)>>,
    busy: Mutex<HashMap<u64, bool>>,
}

/// The state that an actor shows its supervisor.
#[derive(Default)]
struct IdleState {
    carried_out: AtomicU64,
    is_idle: AtomicBool,
}

struct Entry {
    mailbox: Sender<ToActor>,
    sent: u64,
    idle_state: Arc<IdleState>,
}

async fn actor(world: Arc<World>, stream: u64, idle_state: Arc<IdleState>, mut mailbox: Receiver<ToActor>) {
    while let Some(message) = mailbox.recv().await {
        match message {
            ToActor::Command { caller, number } => {
                idle_state.is_idle.store(false, Ordering::SeqCst);
                let alone = !world.busy.lock().unwrap().insert(stream, true).unwrap_or_default();
                assert!(alone, "two actors are at work on one stream");
                // While the command is persisted.
                yield_now().await;
                world.log.lock().unwrap().push((stream, caller, number));
                world.busy.lock().unwrap().insert(stream, false);
                idle_state.carried_out.fetch_add(1, Ordering::SeqCst);
                idle_state.is_idle.store(true, Ordering::SeqCst);
            }
            ToActor::Passivate => {
                assert!(mailbox.is_empty(), "a message waits behind the end");
                return;
            }
        }
    }
}

/// Runs the supervisor. `counts` is true if it waits until all messages it sent were processed.
async fn supervisor(world: Arc<World>, counts: bool, mut mailbox: Receiver<ToSupervisor>) {
    let mut live: HashMap<u64, Entry> = HashMap::new();
    let mut started: Vec<JoinHandle<()>> = Vec::new();
    while let Some(message) = mailbox.recv().await {
        match message {
            ToSupervisor::Command { stream, caller, number } => {
                let entry = live.entry(stream).or_insert_with(|| {
                    let (sender, receiver) = channel(ENOUGH);
                    let idle_state = Arc::new(IdleState::default());
                    started.push(spawn(actor(Arc::clone(&world), stream, Arc::clone(&idle_state), receiver)));
                    Entry { mailbox: sender, sent: 0, idle_state }
                });
                entry.sent += 1;
                assert!(
                    entry.mailbox.try_send(ToActor::Command { caller, number }).is_ok(),
                    "the actor has ended"
                );
            }
            ToSupervisor::Sweep => live.retain(|_, entry| {
                let is_idle = entry.idle_state.is_idle.load(Ordering::SeqCst)
                    && (!counts || entry.idle_state.carried_out.load(Ordering::SeqCst) == entry.sent);
                if is_idle {
                    assert!(entry.mailbox.try_send(ToActor::Passivate).is_ok(), "the actor has ended");
                }
                !is_idle
            }),
        }
    }
    drop(live);
    for actor in started {
        actor.await.unwrap();
    }
}

fn hand_over(counts: bool) {
    block_on(async move {
        let world = Arc::new(World::default());
        let (socket, mailbox) = channel(ENOUGH);
        let supervising = spawn(supervisor(Arc::clone(&world), counts, mailbox));
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let socket = socket.clone();
                spawn(async move {
                    for number in 0..EACH {
                        for stream in 0..STREAMS {
                            assert!(
                                socket.try_send(ToSupervisor::Command { stream, caller, number }).is_ok()
                            );
                            yield_now().await;
                        }
                    }
                })
            })
            .collect();
        for _ in 0..4 {
            assert!(socket.try_send(ToSupervisor::Sweep).is_ok());
            yield_now().await;
        }
        drop(socket);
        for caller in callers {
            caller.await.unwrap();
        }
        supervising.await.unwrap();
        let log = world.log.lock().unwrap();
        for (stream, caller) in
            (0..STREAMS).flat_map(|stream| (0..CALLERS).map(move |caller| (stream, caller)))
        {
            let of = log.iter().filter(|entry| (entry.0, entry.1) == (stream, caller));
            let numbers: Vec<u64> = of.map(|entry| entry.2).collect();
            assert_eq!(numbers, (0..EACH).collect::<Vec<_>>(), "each once, in order");
        }
    });
}

#[test]
fn going_to_sleep_loses_no_message_and_never_are_two_actors_at_work_on_one_stream() {
    try_interleavings(|| hand_over(true));
}

#[test]
fn a_supervisor_that_does_not_count_would_be_found() {
    assert!(is_found(|| hand_over(false)));
}
