//! Live events, which are not in the log: the pieces of a model's answer as they arrive, and the progress
//! reports of tools. They are hints (R10): bounded, throttled, dropped without a listener or a
//! listener is slow, and never folded. The router sends them, handles on tasks receive them.

pub(crate) mod event;

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::Stream;
use proto_events::call::CallRequested;
use proto_events::id::StreamId;
use taskreel_log::read::{Step, Steps};
use tokio::sync::broadcast;

use crate::grammar::answer_text::AnswerText;
use crate::limits::{LIVE_BUFFER, LIVE_PIECE_BYTES, PROGRESS_PER_SECOND};
use crate::live::event::{Live, reduced_by};
use crate::models::backend::Deltas;
use crate::tools::tool::ProgressSink;

/// The listeners of each task. A system has one hub, which outlives reopenings of its log.
#[derive(Default)]
pub(crate) struct LiveHub {
    /// The number of listeners of all tasks: while it is 0, the map is not read.
    listeners: AtomicUsize,
    tasks: Mutex<Feeds>,
}

#[derive(Default)]
struct Feeds {
    feeds: HashMap<StreamId, broadcast::Sender<Live>>,
    closed: bool,
}

impl LiveHub {
    /// Returns a feed of a task's live events from now on.
    pub(crate) fn listen(self: &Arc<Self>, stream: &StreamId) -> LiveFeed {
        let mut tasks = self.lock();
        let pieces = if tasks.closed {
            // The channel's sender is dropped at once, so that the feed ends.
            broadcast::channel(1).1
        } else {
            let feed = tasks.feeds.entry(stream.clone());
            feed.or_insert_with(|| broadcast::channel(LIVE_BUFFER).0).subscribe()
        };
        self.listeners.fetch_add(1, Ordering::Relaxed);
        LiveFeed { hub: Arc::clone(self), stream: stream.clone(), pieces: Steps::new(LiveListener(pieces)) }
    }

    /// Returns what tells this hub from others of the process.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Ends all feeds.
    pub(crate) fn close(&self) {
        let mut tasks = self.lock();
        tasks.closed = true;
        tasks.feeds.clear();
    }

    /// Returns the sender for an attempt's live events.
    pub(crate) fn source(self: &Arc<Self>, stream: &StreamId, call_id: &str, attempt: u32) -> LiveSource {
        let (stream, call_id) = (stream.clone(), Arc::from(call_id));
        LiveSource { hub: Arc::clone(self), stream, call_id, attempt }
    }

    fn is_heard(&self, stream: &StreamId) -> bool {
        self.listeners.load(Ordering::Relaxed) > 0 && self.lock().feeds.contains_key(stream)
    }

    /// Tells that a call waits before it is sent.
    pub(crate) fn waiting(&self, stream: &StreamId, call_id: &str, target: &str) {
        if self.listeners.load(Ordering::Relaxed) > 0 {
            let (call_id, target) = (Arc::from(call_id), Arc::from(target));
            self.publish(stream, Live::Waiting { call_id, target });
        }
    }

    fn publish(&self, stream: &StreamId, live: Live) {
        if let Some(feed) = self.lock().feeds.get(stream) {
            let _ = feed.send(live);
        }
    }

    /// Ignores poisoning: the map is consistent between any two steps.
    fn lock(&self) -> MutexGuard<'_, Feeds> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sender of one attempt's live events.
pub(crate) struct LiveSource {
    hub: Arc<LiveHub>,
    stream: StreamId,
    call_id: Arc<str>,
    attempt: u32,
}

impl LiveSource {
    /// Returns what tells the system of this source from others of the process.
    pub(crate) fn system(&self) -> usize {
        self.hub.address()
    }

    /// Reports that the attempt is sent.
    pub(crate) fn began(&self) {
        if self.hub.is_heard(&self.stream) {
            self.hub.publish(
                &self.stream,
                Live::Began { call_id: Arc::clone(&self.call_id), attempt: self.attempt },
            );
        }
    }

    /// Reports that the model is shown less than all messages, once for each intent.
    pub(crate) fn reduced(&self, request: &CallRequested) {
        if self.attempt == 1
            && self.hub.is_heard(&self.stream)
            && let Some((before, after)) = reduced_by(request)
        {
            let call_id = Arc::clone(&self.call_id);
            self.hub.publish(&self.stream, Live::ContextReduced { call_id, before, after });
        }
    }

    /// Returns the sink for a model's answer. Without a listener when the attempt is sent, the sink is
    /// off and the model need not stream. `may_talk`: a reply that is not an action is an answer.
    pub(crate) fn deltas(self, may_talk: bool) -> Deltas {
        if !self.hub.is_heard(&self.stream) {
            return Deltas::default();
        }
        let said = AtomicUsize::new(0);
        let answer = Mutex::new((AnswerText::new(may_talk), 0_usize));
        Deltas::to(Arc::new(move |piece: &str| {
            let mut at = said.fetch_add(piece.len(), Ordering::Relaxed);
            if !self.is_listened() {
                return;
            }
            for text in split_pieces(piece) {
                let (call_id, attempt) = (Arc::clone(&self.call_id), self.attempt);
                self.hub.publish(&self.stream, Live::Delta { call_id, attempt, at, text: Arc::from(text) });
                at += text.len();
            }
            let (reader, told) = &mut *answer.lock().unwrap_or_else(PoisonError::into_inner);
            for text in split_pieces(&reader.accept_piece(piece)) {
                let (call_id, attempt, at) = (Arc::clone(&self.call_id), self.attempt, *told);
                self.hub.publish(&self.stream, Live::Answer { call_id, attempt, at, text: Arc::from(text) });
                *told += text.len();
            }
        }))
    }

    /// Returns the sink for a tool's progress. Texts above the limit per second are dropped, long ones are
    /// cut.
    pub(crate) fn progress(self) -> ProgressSink {
        let throttle = Mutex::new(Throttle::default());
        Arc::new(move |text: &str| {
            if !self.is_listened() || !throttle.lock().unwrap_or_else(PoisonError::into_inner).admits() {
                return;
            }
            let text = Arc::from(split_pieces(text).next().unwrap_or_default());
            let (call_id, attempt) = (Arc::clone(&self.call_id), self.attempt);
            self.hub.publish(&self.stream, Live::Progress { call_id, attempt, text });
        })
    }

    fn is_listened(&self) -> bool {
        self.hub.listeners.load(Ordering::Relaxed) > 0
    }
}

/// Splits the text into pieces of at most [`LIVE_PIECE_BYTES`].
fn split_pieces(mut rest: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let most = rest.len().min(LIVE_PIECE_BYTES);
        let end = (0..=most).rev().find(|at| rest.is_char_boundary(*at)).filter(|end| *end > 0)?;
        let (piece, behind) = rest.split_at_checked(end)?;
        rest = behind;
        Some(piece)
    })
}

/// A count of the texts within one second.
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

/// A feed of one task's live events, from the moment it was taken: a stream that ends with the system. Dropping it ends it.
pub struct LiveFeed {
    hub: Arc<LiveHub>,
    stream: StreamId,
    pieces: Steps<LiveListener>,
}

/// The receiver of a feed.
struct LiveListener(broadcast::Receiver<Live>);

impl Step for LiveListener {
    type Item = Live;

    async fn step(&mut self) -> Option<Live> {
        match self.0.recv().await {
            Ok(live) => Some(live),
            Err(broadcast::error::RecvError::Lagged(pieces)) => Some(Live::Lost { pieces }),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl Stream for LiveFeed {
    type Item = Live;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Live>> {
        self.pieces.poll_step(cx)
    }
}

impl fmt::Debug for LiveFeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveFeed").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl LiveFeed {
    /// Waits for the next event; `None` once the system has stopped. The feed does not end with the task,
    /// which may be continued. Cancel-safe.
    pub async fn next(&mut self) -> Option<Live> {
        self.pieces.next().await
    }

    /// Returns the next event that has arrived already, without waiting.
    pub(crate) fn try_next(&mut self) -> Option<Live> {
        match self.pieces.idle_mut()?.0.try_recv() {
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
        // This receiver still counts: the last one removes the feed.
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
        assert!(!hub.source(&stream, "c", 1).deltas(false).is_heard());
        let (first, second) = (hub.listen(&stream), hub.listen(&stream));
        assert!(hub.source(&stream, "c", 1).deltas(false).is_heard());
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
        let deltas = hub.source(&stream, "c", 1).deltas(false);
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
        hub.source(&stream, "c", 1).deltas(false).say(&long);
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
        // A slow machine may take longer than a second.
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
