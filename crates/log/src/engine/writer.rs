//! The one thread that extends the log. It takes the appends in the queue, up to a bound and without waiting
//! for more, makes them one group with one flush, and replies when the group is durable. After a failed write
//! it accepts no more appends: what the disk holds is then unknown until the log is reopened.

pub(crate) mod ask;
pub(crate) mod group;
#[cfg(all(test, shuttle))]
pub(crate) mod schedules;
pub(crate) mod shared;
pub(crate) mod sink;
#[cfg(all(test, not(shuttle)))]
pub(crate) mod tests;

use std::sync::{Arc, PoisonError};

use crate::api::append::{Append, Appended};
use crate::api::error::AppendError;
use crate::api::published_record::PublishedRecord;
use crate::api::reply_sink::AnswersBySink;
use crate::engine::head::Head;
use crate::engine::index::image;
use crate::engine::value::ValueBuilder;
pub(crate) use crate::engine::writer::ask::{ask, ask_with};
use crate::engine::writer::group::{Admission, AppendGroup};
use crate::engine::writer::shared::{Job, Shared};
use crate::engine::writer::sink::{Sink, WriterTail};
use crate::limits::{GROUP_APPENDS, HEAD_REWRITE_EVERY};
use crate::sync::{Instant, broadcast, mpsc, sleep_until};

/// A guard that poisons the store if the writer panics: the state of its last group is then unknown. However the writer
/// ends, nobody waits for room any more.
struct PanicGuard<'a>(&'a Shared);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.poisoned.set("the writer panicked".to_owned());
        }
        self.0.room.close();
    }
}

/// The writer's own state.
pub(crate) struct LogWriter<S> {
    sink: S,
    shared: Arc<Shared>,
    feed: Option<broadcast::Sender<Arc<PublishedRecord>>>,
    builder: ValueBuilder,
    tail: WriterTail,
    /// Whether a part of the index was handed over that waits for the next flush.
    unflushed: bool,
    head_stale: bool,
    head_due: Instant,
    /// The number of records when the log was opened.
    opened_with: usize,
}

impl<S: Sink> LogWriter<S> {
    /// Creates a writer that continues after the index, the frontier and the chunks.
    pub(crate) fn new(sink: S, shared: Arc<Shared>, tail: WriterTail) -> Self {
        let feed = shared.feed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let opened_with = shared.index.read().unwrap_or_else(PoisonError::into_inner).records();
        Self {
            sink,
            shared,
            feed,
            builder: ValueBuilder::new(),
            tail,
            unflushed: false,
            head_stale: false,
            head_due: Instant::now() + HEAD_REWRITE_EVERY,
            opened_with,
        }
    }

    /// Works until the store is closed or a write fails; queued appends are then written or refused. Returns
    /// why `HEAD` could not be rewritten at the end, if so.
    pub(crate) async fn run(mut self, mut queue: mpsc::Receiver<Job>) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        let _guard = PanicGuard(&shared);
        let mut jobs = Vec::new();
        let mut refusing = false;
        while shared.poisoned.get().is_none() {
            tokio::select! {
                biased;
                () = shared.closing.notified(), if !refusing => {
                    refuse_more(&shared, &mut queue);
                    refusing = true;
                }
                count = queue.recv_many(&mut jobs, GROUP_APPENDS) => {
                    if count == 0 {
                        break;
                    }
                    shared.room.add_permits(count);
                    self.write_group(&mut jobs);
                }
                // Only reached when nothing is queued; under load the time is checked after each group.
                () = sleep_until(self.head_due), if self.head_stale => {}
            }
            if self.head_stale && Instant::now() >= self.head_due {
                self.rewrite_head();
            }
        }
        refuse_rest(&shared, &mut queue).await;
        let written = if self.head_stale { self.write_head() } else { Ok(()) };
        // Data that the database has not written when it is closed looks like a tear at the next opening.
        if self.unflushed && shared.poisoned.get().is_none() {
            self.sink.sync()?;
        }
        if written.is_ok() && shared.poisoned.get().is_none() {
            self.keep_image();
        }
        written
    }

    /// Keeps an image of the index for the next opening, if the log has grown much since the last one.
    fn keep_image(&mut self) {
        let index = self.shared.index.read().unwrap_or_else(PoisonError::into_inner);
        let WriterTail { frontier, blocks, .. } = &self.tail;
        // What was only read is closed as it was found.
        if index.records() == self.opened_with || !image::is_due(&index, blocks.imaged()) {
            return;
        }
        let head = Head { position: index.head(), frontier: frontier.clone() };
        let mut make = |log| image::encode(log, &index, blocks, head.clone());
        if let Err(why) = self.sink.keep_image(&mut make) {
            tracing::debug!(why, "the image of the index was not written; the next opening loads its blocks");
        }
    }

    fn write_group(&mut self, jobs: &mut Vec<Job>) {
        let shared = Arc::clone(&self.shared);
        let mut group = AppendGroup::after(&shared);
        let mut answers = Vec::with_capacity(jobs.len());
        for Job { append, reply } in jobs.drain(..) {
            answers.push((reply, group.admit(append, &self.sink)));
        }
        let began = Instant::now();
        let written = group.write(&mut self.builder, &mut self.tail.next_chunk, &mut self.sink);
        match &written {
            Ok(()) => {
                if !group.is_empty() {
                    let (sizes, micros) = &shared.groups;
                    sizes.record(group.len() as u64);
                    micros.record(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
                }
                self.unflushed &= group.is_empty();
                self.commit(&group);
            }
            Err(why) => {
                tracing::error!(
                    why,
                    "a write to the log failed; the log accepts no more appends until it is reopened"
                );
                let _ = self.shared.poisoned.set(why.clone());
            }
        }
        let mut by_sink = AnswersBySink::default();
        for (reply, admission) in answers {
            reply.answer_or_add(result_for(&group, admission, written.as_ref().err()), &mut by_sink);
        }
        by_sink.hand_over();
        self.save_blocks();
    }

    /// Hands over the finished parts of the index: they are made durable by the next flush.
    fn save_blocks(&mut self) {
        for (ordinal, block) in self.tail.blocks.take_finished() {
            self.unflushed = true;
            if let Err(why) = self.sink.put_block(ordinal, &block) {
                tracing::warn!(why, "writing the index failed; the next opening reads the log instead");
                let _ = self.shared.poisoned.set(why);
                return;
            }
        }
    }

    /// Writes appends of another log, each with the epoch in which it was written. For a log that is not in
    /// use yet: the first refused append ends the import.
    pub(crate) fn adopt(&mut self, appends: Vec<Append>) -> Result<(), AppendError> {
        let shared = Arc::clone(&self.shared);
        let mut group = AppendGroup::of_another_log(&shared);
        for append in appends {
            match group.admit(append, &self.sink) {
                Admission::Admitted(_) => {}
                Admission::Known(_) => {
                    return Err(crate::api::check::invalid("its set id was used for an earlier append"));
                }
                Admission::Refused(error) => return Err(error),
            }
        }
        let written = group.write(&mut self.builder, &mut self.tail.next_chunk, &mut self.sink);
        written.map_err(|why| AppendError::NotWritten { why })?;
        self.commit(&group);
        self.save_blocks();
        Ok(())
    }

    /// Writes `HEAD` at the end of an import.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        self.write_head()
    }

    /// Returns the sink.
    pub(crate) fn sink(&self) -> &S {
        &self.sink
    }

    /// Publishes a durable group to the index and to subscribers. Callers get their replies after that.
    fn commit(&mut self, group: &AppendGroup<'_>) {
        if group.is_empty() {
            return;
        }
        {
            let mut index = self.shared.index.write().unwrap_or_else(PoisonError::into_inner);
            group.enter(&mut index, &mut self.tail.blocks);
            let WriterTail { frontier, blocks, .. } = &mut self.tail;
            group.records().for_each(|record| frontier.push(record.hash()));
            let position = index.head();
            blocks.end_group(index.next_ordinal(), || Head { position, frontier: frontier.clone() });
        }
        self.head_stale = true;
        if let Some(feed) = self.feed.as_ref().filter(|feed| feed.receiver_count() > 0) {
            for record in group.published() {
                // An error means that nobody subscribes.
                let _ = feed.send(Arc::new(record));
            }
        }
    }

    fn rewrite_head(&mut self) {
        self.head_due = Instant::now() + HEAD_REWRITE_EVERY;
        if let Err(why) = self.write_head() {
            tracing::warn!(why, "rewriting HEAD failed; it is retried");
        }
    }

    fn write_head(&mut self) -> Result<(), String> {
        let index = self.shared.index.read().unwrap_or_else(PoisonError::into_inner);
        let head = Head { position: index.head(), frontier: self.tail.frontier.clone() };
        drop(index);
        if let Err(why) = self.sink.vouch() {
            let _ = self.shared.poisoned.set(why.clone());
            return Err(why);
        }
        self.sink.write_head(&head)?;
        self.head_stale = false;
        // Never before HEAD, so that HEAD can be compared with what is read after the watermark.
        if let Some(mark) = self.tail.blocks.take_mark() {
            self.unflushed = true;
            self.sink.put_watermark(&mark)?;
        }
        Ok(())
    }
}

fn result_for(
    group: &AppendGroup<'_>,
    admission: Admission,
    failure: Option<&String>,
) -> Result<Appended, AppendError> {
    match (admission, failure) {
        (Admission::Known(appended), _) => Ok(appended),
        (Admission::Refused(error), None) => Err(error),
        (Admission::Admitted(number), None) => Ok(group.appended(number)),
        (Admission::Admitted(number), Some(why)) => Err(group.failed(number, why)),
        // The refusal may depend on what this group did not write.
        (Admission::Refused(_), Some(why)) => Err(AppendError::Poisoned { why: why.clone() }),
    }
}

/// Refuses further appends, those included that wait for room. What is in the queue stays there.
fn refuse_more(shared: &Shared, queue: &mut mpsc::Receiver<Job>) {
    shared.room.close();
    queue.close();
}

async fn refuse_rest(shared: &Shared, queue: &mut mpsc::Receiver<Job>) {
    refuse_more(shared, queue);
    while let Some(job) = queue.recv().await {
        job.reply.answer(Err(shared.refusal()));
    }
}
