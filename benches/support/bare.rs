//! The bare minimum beside which commands are measured: one actix actor for each task, which answers atomically; a record of
//! the same length, encoded and hashed; one writer thread that writes a group and calls `fdatasync` once; one channel back to
//! the actor. It decides nothing, checks nothing and remembers nothing.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::thread::JoinHandle;

use actix::{Actor, ActorFutureExt as _, Addr, AtomicResponse, Context, Handler, Message, WrapFuture as _};
use actix_rt::ArbiterHandle;
use proto_events::id::Digest;
use tokio::sync::{mpsc, oneshot};

use super::Failure;

/// The bytes of a digest, of which a record has three: that of the record before, that of its body, its own.
const DIGEST_BYTES: usize = 32;
/// The most records of one group.
const GROUP: usize = 1_024;

struct Job {
    record: Vec<u8>,
    reply: oneshot::Sender<()>,
}

/// The actors' thread and the writer.
pub(crate) struct Bare {
    thread: Option<JoinHandle<()>>,
    writer: Option<JoinHandle<()>>,
    arbiter: ArbiterHandle,
    queue: Option<mpsc::Sender<Job>>,
    /// The length of a record with its body, in bytes.
    record_bytes: usize,
}

/// The actor of one task.
pub(crate) struct BareTask {
    record_bytes: usize,
    queue: mpsc::Sender<Job>,
    version: u64,
    previous: Digest,
}

/// A command with the content of its event.
#[derive(Message)]
#[rtype(result = "u64")]
pub(crate) struct BareCommand(pub(crate) Vec<u8>);

impl Bare {
    /// Starts the threads. `record_bytes` is the length of what each command writes.
    pub(crate) fn start(path: &Path, record_bytes: usize) -> Result<Self, Failure> {
        let mut file = File::create_new(path)?;
        let (queue, mut jobs) = mpsc::channel::<Job>(8_192);
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let writer = std::thread::spawn(move || {
            runtime.block_on(async {
                let (mut group, mut bytes) = (Vec::new(), Vec::new());
                while jobs.recv_many(&mut group, GROUP).await > 0 {
                    bytes.clear();
                    for job in &group {
                        bytes.extend_from_slice(&job.record);
                    }
                    if file.write_all(&bytes).and_then(|()| file.sync_data()).is_err() {
                        return;
                    }
                    for Job { reply, .. } in group.drain(..) {
                        let _a_caller_may_be_gone = reply.send(());
                    }
                }
            });
        });
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            let runner = actix::System::with_tokio_rt(move || runtime);
            let _the_starter_waits = tell.send(actix_rt::System::current().arbiter().clone());
            let _at_the_end = runner.run();
        });
        let arbiter = told.recv()?;
        Ok(Self { thread: Some(thread), writer: Some(writer), arbiter, queue: Some(queue), record_bytes })
    }

    /// Starts a task's actor.
    pub(crate) fn task(&self) -> Result<Addr<BareTask>, Failure> {
        let queue = self.queue.clone().ok_or("the writer has ended")?;
        let record_bytes = self.record_bytes;
        let task = move |_: &mut Context<BareTask>| BareTask {
            record_bytes,
            queue,
            version: 0,
            previous: Digest::default(),
        };
        Ok(BareTask::start_in_arbiter(&self.arbiter, task))
    }

    pub(crate) fn stop(mut self) {
        self.queue = None;
        self.arbiter.spawn_fn(|| actix_rt::System::current().stop());
        for thread in [self.thread.take(), self.writer.take()].into_iter().flatten() {
            let _it_has_ended = thread.join();
        }
    }
}

impl Actor for BareTask {
    type Context = Context<Self>;
}

impl Handler<BareCommand> for BareTask {
    type Result = AtomicResponse<Self, u64>;

    fn handle(&mut self, BareCommand(body): BareCommand, _: &mut Self::Context) -> Self::Result {
        let mut record = Vec::with_capacity(self.record_bytes);
        record.extend_from_slice(&self.previous.0);
        record.extend_from_slice(&self.version.to_be_bytes());
        record.resize(self.record_bytes.saturating_sub(body.len() + 2 * DIGEST_BYTES), 0x5a);
        record.extend_from_slice(&Digest::of_parts(&[&[7; 16], &body]).0);
        self.previous = Digest::of_parts(&[&[0], &record]);
        record.extend_from_slice(&self.previous.0);
        record.extend_from_slice(&body);
        let (reply, written) = oneshot::channel();
        let queue = self.queue.clone();
        let sent = async move {
            if queue.send(Job { record, reply }).await.is_ok() {
                let _the_writer_may_have_ended = written.await;
            }
        };
        AtomicResponse::new(Box::pin(sent.into_actor(self).map(|(), actor, _| {
            actor.version += 1;
            actor.version
        })))
    }
}
