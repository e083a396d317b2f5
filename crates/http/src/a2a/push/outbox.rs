//! The outbox: a worker for each registration to which something may be owed. What is owed stands in the log; nothing else of it
//! is kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto_events::id::{Position, StreamId};
use taskreel::System;
use taskreel_log::read::{Delivery, Subscription};
use taskreel_log::views::tasks_with_webhooks;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use crate::a2a::push::format::Place;
use crate::a2a::push::means::{Means, Retries};
use crate::a2a::push::sender::Sender;
use crate::a2a::push::worker::PushWorker;
use crate::limits::PUSH_STOP_TIME;

/// The pause before the log is read again that could not be read.
const READ_AGAIN: Duration = Duration::from_millis(500);

/// A worker that goes on.
struct OutboxEntry {
    number: u64,
    wake: Arc<Notify>,
    abort: AbortHandle,
}

#[derive(Default)]
struct Workers {
    of_tasks: HashMap<StreamId, HashMap<String, OutboxEntry>>,
    /// The number of workers so far.
    count: u64,
}

/// The parts that the outbox and its own tasks share.
struct OutboxState {
    means: Arc<Means>,
    workers: Mutex<Workers>,
    /// Told when there is a first worker, and when the last one has ended.
    changed: Notify,
    stopping: watch::Sender<bool>,
    runtime: Handle,
}

/// The outbox.
pub(crate) struct Outbox {
    shared: Arc<OutboxState>,
    own: [AbortHandle; 2],
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("workers", &self.shared.lock().of_tasks.len()).finish_non_exhaustive()
    }
}

impl Outbox {
    /// Begins with what the log says is owed.
    pub(crate) fn start(system: &System, sender: Sender, retries: Retries) -> Self {
        let runtime = Handle::current();
        let shared = Arc::new(OutboxState {
            means: Arc::new(Means::new(system, sender, retries)),
            workers: Mutex::default(),
            changed: Notify::new(),
            stopping: watch::Sender::new(false),
            runtime,
        });
        let recovering = shared.runtime.spawn(recover(Arc::clone(&shared)));
        let listening = shared.runtime.spawn(listen(Arc::clone(&shared)));
        Self { shared, own: [recovering.abort_handle(), listening.abort_handle()] }
    }

    /// Returns the client of webhooks.
    pub(crate) fn sender(&self) -> &Sender {
        &self.shared.means.sender
    }

    /// Begins to deliver to a registration that was made or replaced.
    pub(crate) fn set(&self, place: Place) {
        self.shared.start_worker(place);
    }

    /// Ends the deliveries to a registration that was removed.
    pub(crate) fn removed(&self, (stream, id): &Place) {
        let entry = self.shared.lock().of_tasks.get_mut(stream).and_then(|of_task| of_task.remove(id));
        if let Some(entry) = entry {
            entry.abort.abort();
        }
        self.shared.tidy(stream);
    }

    /// Ends all deliveries: what is under way has a moment, and progress is noted.
    pub(crate) async fn stop(&self) {
        self.shared.stopping.send_replace(true);
        let ended = async {
            while !self.shared.lock().of_tasks.is_empty() {
                self.shared.changed.notified().await;
            }
        };
        // Twice: the request that is under way, then the note of it.
        let _ = tokio::time::timeout(PUSH_STOP_TIME.saturating_mul(2), ended).await;
        self.end();
    }

    /// Ends all deliveries at once.
    pub(crate) fn end(&self) {
        self.shared.stopping.send_replace(true);
        self.own.iter().for_each(AbortHandle::abort);
        let workers = std::mem::take(&mut self.shared.lock().of_tasks);
        workers.into_values().flat_map(HashMap::into_values).for_each(|entry| entry.abort.abort());
    }
}

impl OutboxState {
    fn lock(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to deliver to a registration, in the place of a worker that it may have.
    fn start_worker(self: &Arc<Self>, place: Place) {
        if *self.stopping.borrow() {
            return;
        }
        let (stream, id) = place.clone();
        let wake = Arc::new(Notify::new());
        let mut workers = self.lock();
        workers.count += 1;
        let number = workers.count;
        let (shared, waking) = (Arc::clone(self), Arc::clone(&wake));
        let (means, stopping) = (Arc::clone(&self.means), self.stopping.subscribe());
        let working = self.runtime.spawn(async move {
            let over = Over { shared, place: place.clone(), number };
            PushWorker::new(means, place, waking, stopping).run().await;
            drop(over);
        });
        let entry = OutboxEntry { number, wake, abort: working.abort_handle() };
        let before = workers.of_tasks.entry(stream).or_default().insert(id, entry);
        drop(workers);
        if let Some(before) = before {
            before.abort.abort();
        }
        self.changed.notify_one();
    }

    /// Notes that a worker has ended, unless another has taken its place.
    fn worker_ended(&self, (stream, id): &Place, number: u64) {
        let mut workers = self.lock();
        if let Some(of_task) = workers.of_tasks.get_mut(stream)
            && of_task.get(id).is_some_and(|entry| entry.number == number)
        {
            of_task.remove(id);
        }
        drop(workers);
        self.tidy(stream);
    }

    fn tidy(&self, stream: &StreamId) {
        let mut workers = self.lock();
        if workers.of_tasks.get(stream).is_some_and(HashMap::is_empty) {
            workers.of_tasks.remove(stream);
        }
        let is_last = workers.of_tasks.is_empty();
        drop(workers);
        if is_last {
            self.changed.notify_waiters();
        }
    }

    fn is_idle(&self) -> bool {
        self.lock().of_tasks.is_empty()
    }

    fn wake(&self, stream: &StreamId) {
        let workers = self.lock();
        workers
            .of_tasks
            .get(stream)
            .into_iter()
            .flat_map(HashMap::values)
            .for_each(|one| one.wake.notify_one());
    }

    fn wake_all(&self) {
        let workers = self.lock();
        workers.of_tasks.values().flat_map(HashMap::values).for_each(|entry| entry.wake.notify_one());
    }
}

/// Notes the end of a worker, also of one that panicked or was aborted.
struct Over {
    shared: Arc<OutboxState>,
    place: Place,
    number: u64,
}

impl Drop for Over {
    fn drop(&mut self) {
        self.shared.worker_ended(&self.place, self.number);
    }
}

/// Begins to deliver what the log says is owed.
async fn recover(shared: Arc<OutboxState>) {
    loop {
        let store = shared.means.system.log();
        let found = tokio::task::spawn_blocking(move || tasks_with_webhooks(store.as_ref())).await;
        match found {
            Ok(Ok(found)) => {
                for (stream, ids) in found {
                    for id in ids {
                        shared.start_worker((stream.clone(), id));
                    }
                }
                return;
            }
            Ok(Err(error)) => tracing::warn!(%error, "the log cannot be read for what webhooks are owed"),
            Err(error) => tracing::warn!(%error, "the log cannot be read for what webhooks are owed"),
        }
        tokio::time::sleep(READ_AGAIN).await;
    }
}

/// Wakes the workers of tasks that have news. Without workers, nothing is followed.
async fn listen(shared: Arc<OutboxState>) {
    loop {
        while shared.is_idle() {
            shared.changed.notified().await;
        }
        let store = shared.means.system.log();
        let reading = Arc::clone(&store);
        let Ok(Ok(head)) = tokio::task::spawn_blocking(move || reading.head()).await else {
            tokio::time::sleep(READ_AGAIN).await;
            continue;
        };
        let mut all = Subscription::all(store, Position(head.0.saturating_add(1)));
        // What they have read may be older than the head.
        shared.wake_all();
        loop {
            match all.next().await {
                Some(Ok(Delivery::Record(record))) => shared.wake(&record.record.stream),
                Some(Ok(_)) => shared.wake_all(),
                Some(Err(_)) | None => {
                    // The log is opened again, or the system has ended.
                    tokio::time::sleep(READ_AGAIN).await;
                    break;
                }
            }
            if shared.is_idle() {
                break;
            }
        }
    }
}
