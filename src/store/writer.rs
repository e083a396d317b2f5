//! The one thread that extends the log. It takes whatever waits in the queue, up to a bound and never waiting for
//! more, makes it one group with one flush, and answers when that is durable. After a failed write it takes
//! nothing more: what the disk holds is unknown then, and only opening the log again tells.

mod ask;
mod group;
#[cfg(all(test, shuttle))]
mod interleaved;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::sync::{Arc, OnceLock, PoisonError};

use crate::limits::{GROUP_APPENDS, HEAD_REWRITE_EVERY, SUBSCRIBER_BUFFER};

pub(super) use self::ask::ask;
pub(super) use self::group::stored;
use self::group::{Group, Verdict};
use super::head::{Frontier, Head};
use super::index::Index;
use super::reading::Values;
use super::runs::{RunBuilder, Watermark};
use super::sync::{Instant, Mutex, Notify, RwLock, broadcast, mpsc, oneshot, sleep_until};
use super::value::ValueBuilder;
use super::{Append, AppendError, Appended, Feed, Fence, StoredRecord};

/// Where the writer writes.
pub(super) trait Sink: Values {
    /// Hands a value over. It need not be durable yet.
    fn put(&mut self, ordinal: u64, value: &[u8]) -> Result<(), String>;
    /// Hands a chunk over, before the value whose record names it. It need not be durable yet.
    fn put_chunk(&mut self, ordinal: u64, value: &[u8]) -> Result<(), String>;
    /// Makes all values and chunks durable that were handed over.
    fn sync(&mut self) -> Result<(), String>;
    /// Hands a run of the index over. It need not become durable soon.
    fn put_run(&mut self, ordinal: u64, run: &[u8]) -> Result<(), String>;
    /// Says how much of the log the runs cover that were handed over before.
    fn put_watermark(&mut self, mark: &Watermark) -> Result<(), String>;
    /// Replaces `HEAD`.
    fn write_head(&mut self, head: &Head) -> Result<(), String>;
}

/// Where a writer goes on.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) frontier: Frontier,
    pub(super) next_chunk: u64,
    pub(super) runs: RunBuilder,
}

/// An append in the queue.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) append: Append,
    pub(super) reply: oneshot::Sender<Result<Appended, AppendError>>,
}

/// What writer and readers share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) fence: Fence,
    pub(super) index: RwLock<Index>,
    pub(super) poisoned: OnceLock<String>,
    pub(super) closing: Notify,
    feed: Mutex<Option<broadcast::Sender<Arc<StoredRecord>>>>,
}

impl Shared {
    pub(super) fn new(fence: Fence, index: Index) -> Self {
        Self {
            fence,
            index: RwLock::new(index),
            poisoned: OnceLock::new(),
            closing: Notify::new(),
            feed: Mutex::new(Some(broadcast::Sender::new(SUBSCRIBER_BUFFER))),
        }
    }

    /// A feed of what becomes durable from now on; one that has ended, if the store was closed.
    pub(super) fn subscribe(&self) -> Feed {
        let feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        Feed::new(feed.as_ref().map_or_else(|| broadcast::channel(1).1, broadcast::Sender::subscribe))
    }

    /// Ends all feeds, once the writer has ended too.
    pub(super) fn end_feeds(&self) {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Why an append cannot be taken, after the writer has ended.
    pub(super) fn refusal(&self) -> AppendError {
        match self.poisoned.get() {
            Some(why) => AppendError::Poisoned { why: why.clone() },
            None => AppendError::Closed,
        }
    }
}

/// Poisons the store if the writer panics: nothing is known of its last group then.
struct PanicGuard<'a>(&'a Shared);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.poisoned.set("the writer panicked".to_owned());
        }
    }
}

/// The writer's own state.
pub(super) struct Writer<S> {
    sink: S,
    shared: Arc<Shared>,
    feed: Option<broadcast::Sender<Arc<StoredRecord>>>,
    builder: ValueBuilder,
    tail: Tail,
    /// Whether something of the index was handed over that waits for the next flush.
    unflushed: bool,
    head_stale: bool,
    head_due: Instant,
}

impl<S: Sink> Writer<S> {
    /// A writer that goes on where the index, the frontier and the chunks end.
    pub(super) fn new(sink: S, shared: Arc<Shared>, tail: Tail) -> Self {
        let feed = shared.feed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self {
            sink,
            shared,
            feed,
            builder: ValueBuilder::new(),
            tail,
            unflushed: false,
            head_stale: false,
            head_due: Instant::now() + HEAD_REWRITE_EVERY,
        }
    }

    /// Works until the store is closed or a write fails; what is queued then is done or answered. Says why `HEAD`
    /// could not be rewritten at the end, if so.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Job>) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        let _guard = PanicGuard(&shared);
        let mut jobs = Vec::new();
        let mut refusing = false;
        while shared.poisoned.get().is_none() {
            tokio::select! {
                biased;
                () = shared.closing.notified(), if !refusing => {
                    queue.close();
                    refusing = true;
                }
                count = queue.recv_many(&mut jobs, GROUP_APPENDS) => {
                    if count == 0 {
                        break;
                    }
                    self.write_group(&mut jobs);
                }
                // Only reached when nothing is queued; under load the time is looked at after each group.
                () = sleep_until(self.head_due), if self.head_stale => {}
            }
            if self.head_stale && Instant::now() >= self.head_due {
                self.rewrite_head();
            }
        }
        refuse_rest(&shared, &mut queue).await;
        let written = if self.head_stale { self.write_head() } else { Ok(()) };
        // What the database has not written when it is let go looks torn to the next opening.
        if self.unflushed && shared.poisoned.get().is_none() {
            self.sink.sync()?;
        }
        written
    }

    fn write_group(&mut self, jobs: &mut Vec<Job>) {
        let shared = Arc::clone(&self.shared);
        let mut group = Group::after(&shared);
        let mut answers = Vec::with_capacity(jobs.len());
        for Job { append, reply } in jobs.drain(..) {
            answers.push((reply, group.admit(append, &self.sink)));
        }
        let written = group.write(&mut self.builder, &mut self.tail.next_chunk, &mut self.sink);
        match &written {
            Ok(()) => {
                self.unflushed &= group.is_empty();
                self.commit(&group);
            }
            Err(why) => {
                tracing::error!(why, "a write to the log failed; it takes no more appends");
                let _ = self.shared.poisoned.set(why.clone());
            }
        }
        for (reply, verdict) in answers {
            // A caller that has gone away does not take the append back.
            let _ = reply.send(answer(&group, verdict, written.as_ref().err()));
        }
        self.save_runs();
    }

    /// Hands over what is ready of the index: nobody waits for it, and the next flush takes it along.
    fn save_runs(&mut self) {
        for (ordinal, run) in self.tail.runs.take_finished() {
            self.unflushed = true;
            if let Err(why) = self.sink.put_run(ordinal, &run) {
                tracing::warn!(
                    why,
                    "the index could not be written; the next opening will read the log instead"
                );
                let _ = self.shared.poisoned.set(why);
                return;
            }
        }
    }

    /// Writes appends of another log, each with the epoch that it was written in. For a log that nobody else has yet:
    /// one that cannot be taken ends it all.
    pub(super) fn adopt(&mut self, appends: Vec<Append>) -> Result<(), AppendError> {
        let shared = Arc::clone(&self.shared);
        let mut group = Group::of_another_log(&shared);
        for append in appends {
            match group.admit(append, &self.sink) {
                Verdict::Admitted(_) => {}
                Verdict::Known(_) => return Err(super::check::invalid("its set id was used before")),
                Verdict::Refused(error) => return Err(error),
            }
        }
        let written = group.write(&mut self.builder, &mut self.tail.next_chunk, &mut self.sink);
        written.map_err(|why| AppendError::NotWritten { why })?;
        self.commit(&group);
        self.save_runs();
        Ok(())
    }

    /// Writes `HEAD` and gives the sink back.
    pub(super) fn end(mut self) -> Result<S, String> {
        self.write_head()?;
        Ok(self.sink)
    }

    /// Shows a durable group: to the index, to subscribers. Callers are answered after that.
    fn commit(&mut self, group: &Group<'_>) {
        if group.is_empty() {
            return;
        }
        {
            let mut index = self.shared.index.write().unwrap_or_else(PoisonError::into_inner);
            group.enter(&mut index, &mut self.tail.runs);
            let Tail { frontier, runs, .. } = &mut self.tail;
            group.records().for_each(|record| frontier.push(record.hash()));
            let position = index.head();
            runs.end_group(index.next_ordinal(), || Head { position, frontier: frontier.clone() });
        }
        self.head_stale = true;
        if let Some(feed) = self.feed.as_ref().filter(|feed| feed.receiver_count() > 0) {
            for record in group.stored() {
                // Without a subscriber nobody misses it.
                let _ = feed.send(Arc::new(record));
            }
        }
    }

    fn rewrite_head(&mut self) {
        self.head_due = Instant::now() + HEAD_REWRITE_EVERY;
        if let Err(why) = self.write_head() {
            tracing::warn!(why, "HEAD could not be rewritten; it will be tried again");
        }
    }

    fn write_head(&mut self) -> Result<(), String> {
        let index = self.shared.index.read().unwrap_or_else(PoisonError::into_inner);
        let head = Head { position: index.head(), frontier: self.tail.frontier.clone() };
        drop(index);
        self.sink.write_head(&head)?;
        self.head_stale = false;
        // Never before HEAD, so that HEAD can be compared with what is read behind the watermark.
        if let Some(mark) = self.tail.runs.take_mark() {
            self.unflushed = true;
            self.sink.put_watermark(&mark)?;
        }
        Ok(())
    }
}

fn answer(group: &Group<'_>, verdict: Verdict, failure: Option<&String>) -> Result<Appended, AppendError> {
    match (verdict, failure) {
        (Verdict::Known(appended), _) => Ok(appended),
        (Verdict::Refused(error), None) => Err(error),
        (Verdict::Admitted(number), None) => Ok(group.appended(number)),
        (Verdict::Admitted(number), Some(why)) => Err(group.failed(number, why)),
        // Its refusal may rest on what this group did not write.
        (Verdict::Refused(_), Some(why)) => Err(AppendError::Poisoned { why: why.clone() }),
    }
}

async fn refuse_rest(shared: &Shared, queue: &mut mpsc::Receiver<Job>) {
    queue.close();
    while let Some(job) = queue.recv().await {
        let _ = job.reply.send(Err(shared.refusal()));
    }
}
