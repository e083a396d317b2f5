//! The list of what needs a person. It is made once for each state of the log, beside the pages, since it takes a pass over the log. A page
//! waits a moment for it, and else shows the last one that is known.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use proto_events::id::Position;
use taskreel_log::api::EventReader as _;
use taskreel_log::ports::{Clock as _, SystemClock};
use taskreel_log::views::{AttentionRow, AttentionWatch, attention_since};
use tokio::sync::{Semaphore, watch};

use crate::api::bounded_reads::{read, unread};
use crate::inspect::frame::Cx;
use crate::inspect::source::InspectedLog;
use crate::inspect::words;
use crate::limits::{INSPECT_NEEDS_FRESH, INSPECT_NEEDS_WITHIN};

/// The list, as far as it is known.
#[derive(Debug, Clone)]
pub(crate) struct KnownNeeds {
    /// The end of the log when the list was made.
    pub(crate) head: Position,
    /// The list, or the reason why it could not be made.
    pub(crate) rows: Result<Arc<Vec<AttentionRow>>, String>,
    made: Instant,
}

/// The list of a log, kept between pages.
#[derive(Debug)]
pub(crate) struct Needs {
    known: watch::Sender<Option<KnownNeeds>>,
    is_being_made: AtomicBool,
    /// The part of the log that was read already, so that a list costs what is new.
    watch: Arc<Mutex<AttentionWatch>>,
}

impl Default for Needs {
    fn default() -> Self {
        Self { known: watch::Sender::new(None), is_being_made: AtomicBool::new(false), watch: Arc::default() }
    }
}

impl Needs {
    /// Returns the list; `None` if none was made yet, and this one takes longer than a page waits.
    pub(crate) async fn now(
        self: &Arc<Self>,
        log: &Arc<InspectedLog>,
        turns: &Arc<Semaphore>,
    ) -> Option<KnownNeeds> {
        let mut known = self.known.subscribe();
        known.borrow_and_update();
        if !self.is_being_made.swap(true, Ordering::AcqRel) {
            let (needs, log, turns) = (Arc::clone(self), Arc::clone(log), Arc::clone(turns));
            tokio::spawn(async move {
                // Also if the future is dropped in the middle.
                let _over = Over(&needs.is_being_made);
                needs.make(&log, &turns).await;
            });
        }
        let _ = tokio::time::timeout(INSPECT_NEEDS_WITHIN, known.changed()).await;
        known.borrow().clone()
    }

    async fn make(&self, log: &InspectedLog, turns: &Arc<Semaphore>) {
        let (used, last) = (log.use_of(), self.known.borrow().clone());
        let watch = Arc::clone(&self.watch);
        let made = read(turns, Arc::clone(log.reader()), move |log| {
            let head = log.head().map_err(unread)?;
            let is_fresh = |last: &KnownNeeds| last.head == head && last.made.elapsed() < INSPECT_NEEDS_FRESH;
            if let Some(last) = last.filter(is_fresh) {
                return Ok(last);
            }
            let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
            let rows =
                attention_since(&mut watch, log, used, SystemClock.now()).map(|found| Arc::new(found.rows));
            Ok(KnownNeeds { head, rows: rows.map_err(|error| error.to_string()), made: Instant::now() })
        });
        let made = made.await.unwrap_or_else(|problem| KnownNeeds {
            head: Position(0),
            rows: Err(problem.message().to_owned()),
            made: Instant::now(),
        });
        self.known.send_replace(Some(made));
    }
}

/// Returns what is known to need a person, and what is to be said of it.
pub(crate) fn told<'a>(cx: &Cx, needs: Option<&'a KnownNeeds>) -> (&'a [AttentionRow], Option<String>) {
    match needs {
        None => (
            &[],
            Some(
                "The log is being looked through for what needs a person; look again in a moment.".to_owned(),
            ),
        ),
        Some(KnownNeeds { rows: Err(why), .. }) => {
            (&[], Some(format!("What needs a person cannot be told: {why}")))
        }
        Some(KnownNeeds { rows: Ok(rows), head, .. }) => {
            let is_old = cx.head.is_some_and(|now| now != *head);
            (rows, is_old.then(|| format!("As of event {}.", words::count(head.0))))
        }
    }
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
