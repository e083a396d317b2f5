//! Reading for a request: on the blocking pool, a bounded number of reads at a time, and no longer than somebody waits
//! for the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;
use proto_events::id::{Position, StreamId, Version};
use taskreel::Error;
use taskreel_log::api::{
    Compare, EventReader, EventStore, Page, ReadError, ScanStep, ScannedRecord, StoredRecord, StreamInfo,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Problem;
use crate::limits::READ_TURN;

/// A log that is read for somebody. Every read ends soon after nobody waits any more.
pub(crate) struct WatchedLog<L: ?Sized = dyn EventStore> {
    log: Arc<L>,
    is_over: Arc<AtomicBool>,
}

/// The end of somebody's waiting, when it is dropped.
pub(crate) struct WaitGuard(Arc<AtomicBool>);

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl WatchedLog {
    /// Returns the failure after which the log takes no more appends.
    pub(crate) fn poisoned(&self) -> Option<String> {
        self.log.poisoned()
    }
}

impl<L: EventReader + ?Sized> WatchedLog<L> {
    /// Returns a log that is read until the second value is dropped.
    pub(crate) fn new(log: Arc<L>) -> (Self, WaitGuard) {
        let is_over = Arc::new(AtomicBool::new(false));
        (Self { log, is_over: Arc::clone(&is_over) }, WaitGuard(is_over))
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn go_on(&self) -> Result<&L, ReadError> {
        if self.is_over() { Err(ReadError::Closed) } else { Ok(self.log.as_ref()) }
    }
}

/// Carries out reads on the blocking pool. If the future is dropped, the reads end.
///
/// # Errors
/// The error of `read`, or [`Problem`] if too many others read.
pub(crate) async fn read<T: Send + 'static, L: EventReader + ?Sized + 'static>(
    turns: &Arc<Semaphore>,
    log: Arc<L>,
    read: impl FnOnce(&WatchedLog<L>) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let turn = turn(turns).await?;
    let (watched, waiting) = WatchedLog::new(log);
    let work = move || {
        let _turn = turn;
        read(&watched)
    };
    let done = tokio::task::spawn_blocking(work).await;
    drop(waiting);
    done.unwrap_or_else(|error| Err(internal(&error)))
}

/// Waits for a turn to read.
///
/// # Errors
/// [`Problem`] if too many others read.
pub(crate) async fn turn(turns: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    let turn = tokio::time::timeout(READ_TURN, Arc::clone(turns).acquire_owned()).await;
    turn.ok().and_then(Result::ok).ok_or_else(|| {
        Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "overloaded",
            "too many others read the log at this moment",
        )
    })
}

/// Returns the problem of work that failed on our side.
pub(crate) fn internal(error: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%error, "a request to the live API failed");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the work for the request failed")
}

/// Returns the problem of a log that cannot be read.
pub(crate) fn unread(error: ReadError) -> Problem {
    Problem::from(Error::from(error))
}

impl<L: EventReader + ?Sized> EventReader for WatchedLog<L> {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.go_on()?.read_stream(stream, from, limit)
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.go_on()?.read_all(from, limit)
    }

    fn page_stream(
        &self,
        stream: &StreamId,
        from: Version,
        page: Page,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.go_on()?.page_stream(stream, from, page)
    }

    fn page_all(&self, from: Position, page: Page) -> Result<Vec<StoredRecord>, ReadError> {
        self.go_on()?.page_all(from, page)
    }

    fn scan(
        &self,
        from: Position,
        compare: Compare,
        visit: &mut dyn FnMut(&ScannedRecord<'_>) -> ScanStep,
    ) -> Result<(), ReadError> {
        self.go_on()?.scan(from, compare, &mut |scanned| {
            if self.is_over() { Err(ReadError::Closed) } else { visit(scanned) }
        })
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.go_on()?.head()
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.go_on()?.stream_version(stream)
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        self.go_on()?.list_streams(prefix, after, limit)
    }

    fn open_work(&self) -> Result<Vec<StreamId>, ReadError> {
        self.go_on()?.open_work()
    }

    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.survey_while(&|| true, show);
    }

    fn survey_while(
        &self,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        self.log.survey_while(&|| !self.is_over() && goes_on(), show);
    }

    fn survey_index(&self, show: &mut dyn FnMut(ReadError)) {
        self.survey_index_while(&|| true, show);
    }

    fn survey_index_while(&self, goes_on: &dyn Fn() -> bool, show: &mut dyn FnMut(ReadError)) {
        self.log.survey_index_while(&|| !self.is_over() && goes_on(), show);
    }

    fn survey_stream(&self, stream: &StreamId, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.log.survey_stream(stream, show);
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use taskreel_log::memory::MemoryStore;

    use super::*;

    #[test]
    fn a_read_ends_once_nobody_waits() {
        let (watched, waiting) = WatchedLog::new(Arc::new(MemoryStore::new()));
        assert_eq!(watched.head(), Ok(Position(0)));
        drop(waiting);
        assert_eq!(watched.head(), Err(ReadError::Closed));
        let visited = watched.scan(Position(1), Compare::Checksums, &mut |_| Ok(ControlFlow::Continue(())));
        assert_eq!(visited, Err(ReadError::Closed));
    }

    #[tokio::test(start_paused = true)]
    async fn one_read_too_many_is_refused_after_a_while_and_does_not_wait_for_ever() {
        let turns = Arc::new(Semaphore::new(1));
        let held = turn(&turns).await.unwrap();
        assert_eq!(turn(&turns).await.unwrap_err().status(), StatusCode::TOO_MANY_REQUESTS);
        drop(held);
        assert!(turn(&turns).await.is_ok());
    }
}
