//! What is going on and not in the log: the pieces of a model's answer while it comes in, and what tools say of their
//! progress. Hints (R10): bounded, throttled, dropped where nobody listens or somebody is slow, and never folded. The
//! router says them, handles on tasks hear them.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use proto_events::id::StreamId;
use tokio::sync::broadcast;

use crate::agent::infer::Deltas;
use crate::agent::tool::ProgressSink;
use crate::limits::{LIVE_BUFFER, LIVE_PIECE_BYTES, PROGRESS_PER_SECOND};

/// Something that happens now and is not in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Live {
    /// An attempt of a call was sent. Whatever was heard of the attempt before it came to nothing.
    Began {
        /// The call.
        call_id: Arc<str>,
        /// From 1.
        attempt: u32,
    },
    /// The next piece of a model's answer.
    Delta {
        /// The call.
        call_id: Arc<str>,
        /// The attempt that it belongs to.
        attempt: u32,
        /// Where it begins in what this attempt has said, in bytes: a gap shows that pieces were lost.
        at: usize,
        /// The piece.
        text: Arc<str>,
    },
    /// A tool says how far it is.
    Progress {
        /// The call.
        call_id: Arc<str>,
        /// The attempt that says it.
        attempt: u32,
        /// In its own words.
        text: Arc<str>,
    },
    /// This listener was too slow; the newest are heard next.
    Lost {
        /// How many were dropped.
        pieces: u64,
    },
}

/// Who listens to which task. One for each system, whatever its log is opened anew.
#[derive(Default)]
pub(crate) struct LiveHub {
    /// Listeners of all tasks: while there are none, nothing else is looked at.
    listeners: AtomicUsize,
    tasks: Mutex<Listened>,
}

#[derive(Default)]
struct Listened {
    feeds: HashMap<StreamId, broadcast::Sender<Live>>,
    closed: bool,
}

impl LiveHub {
    /// Hears what is said of a task from now on.
    pub(crate) fn listen(self: &Arc<Self>, stream: &StreamId) -> LiveFeed {
        let mut tasks = self.lock();
        let pieces = if tasks.closed {
            // Its sender is gone at once, so that the feed ends.
            broadcast::channel(1).1
        } else {
            let feed = tasks.feeds.entry(stream.clone());
            feed.or_insert_with(|| broadcast::channel(LIVE_BUFFER).0).subscribe()
        };
        self.listeners.fetch_add(1, Ordering::Relaxed);
        LiveFeed { hub: Arc::clone(self), stream: stream.clone(), pieces }
    }

    /// Ends all feeds: nothing happens any more.
    pub(crate) fn close(&self) {
        let mut tasks = self.lock();
        tasks.closed = true;
        tasks.feeds.clear();
    }

    /// What an attempt of a call says goes out through this.
    pub(crate) fn source(self: &Arc<Self>, stream: &StreamId, call_id: &str, attempt: u32) -> LiveSource {
        let (stream, call_id) = (stream.clone(), Arc::from(call_id));
        LiveSource { hub: Arc::clone(self), stream, call_id, attempt }
    }

    fn is_heard(&self, stream: &StreamId) -> bool {
        self.listeners.load(Ordering::Relaxed) > 0 && self.lock().feeds.contains_key(stream)
    }

    fn say(&self, stream: &StreamId, live: Live) {
        if let Some(feed) = self.lock().feeds.get(stream) {
            let _nobody_may_be_left = feed.send(live);
        }
    }

    /// The map is whole between any two steps, whatever panics.
    fn lock(&self) -> MutexGuard<'_, Listened> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One attempt's way to whoever listens.
pub(crate) struct LiveSource {
    hub: Arc<LiveHub>,
    stream: StreamId,
    call_id: Arc<str>,
    attempt: u32,
}

impl LiveSource {
    /// Says that the attempt is sent.
    pub(crate) fn began(&self) {
        if self.hub.is_heard(&self.stream) {
            self.hub
                .say(&self.stream, Live::Began { call_id: Arc::clone(&self.call_id), attempt: self.attempt });
        }
    }

    /// The sink for a model's answer. Where nobody listens when the attempt is sent, the model is told so and need
    /// not stream.
    pub(crate) fn deltas(self) -> Deltas {
        if !self.hub.is_heard(&self.stream) {
            return Deltas::default();
        }
        let said = AtomicUsize::new(0);
        Deltas::to(Arc::new(move |piece: &str| {
            let mut at = said.fetch_add(piece.len(), Ordering::Relaxed);
            if !self.is_listened() {
                return;
            }
            for text in pieces(piece) {
                let (call_id, attempt) = (Arc::clone(&self.call_id), self.attempt);
                self.hub.say(&self.stream, Live::Delta { call_id, attempt, at, text: Arc::from(text) });
                at += text.len();
            }
        }))
    }

    /// The sink for a tool's progress. Texts beyond so many a second are dropped, long ones are cut.
    pub(crate) fn progress(self) -> ProgressSink {
        let throttle = Mutex::new(Throttle::default());
        Arc::new(move |text: &str| {
            if !self.is_listened() || !throttle.lock().unwrap_or_else(PoisonError::into_inner).admits() {
                return;
            }
            let text = Arc::from(pieces(text).next().unwrap_or_default());
            let (call_id, attempt) = (Arc::clone(&self.call_id), self.attempt);
            self.hub.say(&self.stream, Live::Progress { call_id, attempt, text });
        })
    }

    fn is_listened(&self) -> bool {
        self.hub.listeners.load(Ordering::Relaxed) > 0
    }
}

/// The text in pieces of at most [`LIVE_PIECE_BYTES`].
fn pieces(mut rest: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let most = rest.len().min(LIVE_PIECE_BYTES);
        let end = (0..=most).rev().find(|at| rest.is_char_boundary(*at)).filter(|end| *end > 0)?;
        let (piece, behind) = rest.split_at_checked(end)?;
        rest = behind;
        Some(piece)
    })
}

/// Counts texts within a second.
struct Throttle {
    since: Instant,
    count: u32,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { since: Instant::now(), count: 0 }
    }
}

impl Throttle {
    fn admits(&mut self) -> bool {
        if self.since.elapsed() >= Duration::from_secs(1) {
            *self = Self::default();
        }
        self.count = self.count.saturating_add(1);
        self.count <= PROGRESS_PER_SECOND
    }
}

/// Hears what goes on in one task and is not in its log, from the moment it was taken. Dropping it ends it.
pub struct LiveFeed {
    hub: Arc<LiveHub>,
    stream: StreamId,
    pieces: broadcast::Receiver<Live>,
}

impl fmt::Debug for LiveFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveFeed").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl LiveFeed {
    /// Waits for what is said next; `None` once the system has stopped. It does not end with the task, which may be
    /// gone on with. Cancel-safe.
    pub async fn next(&mut self) -> Option<Live> {
        match self.pieces.recv().await {
            Ok(live) => Some(live),
            Err(broadcast::error::RecvError::Lagged(pieces)) => Some(Live::Lost { pieces }),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// What was said and not taken yet, without waiting.
    pub(crate) fn try_next(&mut self) -> Option<Live> {
        match self.pieces.try_recv() {
            Ok(live) => Some(live),
            Err(broadcast::error::TryRecvError::Lagged(pieces)) => Some(Live::Lost { pieces }),
            Err(_) => None,
        }
    }
}

impl Drop for LiveFeed {
    fn drop(&mut self) {
        let mut tasks = self.hub.lock();
        self.hub.listeners.fetch_sub(1, Ordering::Relaxed);
        // Ours is still counted: the last one takes the feed along.
        if tasks.feeds.get(&self.stream).is_some_and(|feed| feed.receiver_count() <= 1) {
            tasks.feeds.remove(&self.stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub() -> (Arc<LiveHub>, StreamId) {
        (Arc::default(), StreamId::task("agent", "t").unwrap())
    }

    #[test]
    fn nothing_is_kept_for_nobody_and_the_last_listener_takes_its_feed_along() {
        let (hub, stream) = hub();
        assert!(!hub.source(&stream, "c", 1).deltas().is_heard());
        let (first, second) = (hub.listen(&stream), hub.listen(&stream));
        assert!(hub.source(&stream, "c", 1).deltas().is_heard());
        drop(first);
        assert_eq!(hub.lock().feeds.len(), 1);
        drop(second);
        assert!(hub.lock().feeds.is_empty());
        assert_eq!(hub.listeners.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_slow_listener_is_told_how_many_it_lost_and_hears_the_newest() {
        let (hub, stream) = hub();
        let mut feed = hub.listen(&stream);
        let deltas = hub.source(&stream, "c", 1).deltas();
        for _ in 0..LIVE_BUFFER + 5 {
            deltas.say("ab");
        }
        assert_eq!(feed.try_next(), Some(Live::Lost { pieces: 5 }));
        let Some(Live::Delta { at, .. }) = feed.try_next() else { panic!("the newest are kept") };
        assert_eq!(at, 10, "where it stands shows the gap");
    }

    #[test]
    fn a_piece_that_is_too_long_comes_in_several_whole_letters_each() {
        let (hub, stream) = hub();
        let mut feed = hub.listen(&stream);
        let long = "é".repeat(LIVE_PIECE_BYTES);
        hub.source(&stream, "c", 1).deltas().say(&long);
        let mut heard = String::new();
        while let Some(Live::Delta { at, text, .. }) = feed.try_next() {
            assert_eq!(at, heard.len());
            assert!(text.len() <= LIVE_PIECE_BYTES);
            heard.push_str(&text);
        }
        assert_eq!(heard, long);
    }

    #[test]
    fn progress_is_throttled() {
        let (hub, stream) = hub();
        let mut feed = hub.listen(&stream);
        let progress = hub.source(&stream, "c", 1).progress();
        for _ in 0..PROGRESS_PER_SECOND * 4 {
            progress("half");
        }
        let heard = std::iter::from_fn(|| feed.try_next()).count();
        // The machine may have been so slow that a second went by.
        assert!((PROGRESS_PER_SECOND as usize..PROGRESS_PER_SECOND as usize * 4).contains(&heard), "{heard}");
    }

    #[tokio::test]
    async fn a_feed_ends_with_its_system() {
        let (hub, stream) = hub();
        let mut feed = hub.listen(&stream);
        hub.close();
        assert_eq!(feed.next().await, None);
        assert_eq!(hub.listen(&stream).next().await, None);
    }
}
