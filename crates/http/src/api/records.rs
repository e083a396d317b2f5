//! Raw records as an export has them, from a place on, line by line; with `follow` those that are
//! written, with `survey` every record and every place that cannot be read,
//! with `where` those with an event that is wanted.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, stream};
use proto_events::id::{Position, StreamId, Version};
use taskreel_log::api::{EventReader as _, EventStore, Page, ReadError, StoredRecord};
use taskreel_log::read::{Delivery, Subscription};
use taskreel_log::views::{Expression, event_rows};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::api::bounded_reads::{WatchedLog, internal, read, turn, unread};
use crate::api::lists::condition;
use crate::api::routed_request::RoutedRequest;
use crate::api::wire::{Word, put_record};
use crate::error::Problem;
use crate::limits::QUIET_AFTER;

/// The pieces of a survey that wait for a slow client.
const SURVEYED_WAITING: usize = 4;

/// The bytes of lines that are sent together.
const PIECE_BYTES: usize = 256 * 1024;

/// The lines of an answer.
pub(crate) type Lines = BoxStream<'static, Bytes>;

/// The place from which records are read.
#[derive(Debug, Clone)]
struct RecordsStart {
    stream: Option<StreamId>,
    next: u64,
}

impl RecordsStart {
    fn from_request(asked: &RoutedRequest) -> Result<Self, Problem> {
        let stream = asked.text("stream").map(StreamId::parse).transpose();
        let stream = stream.map_err(|error| Problem::not_found(format!("`stream`: {error}")))?;
        Ok(Self { stream, next: asked.number("from")?.unwrap_or(1) })
    }

    fn page(&self, log: &WatchedLog, page: Page) -> Result<Vec<StoredRecord>, ReadError> {
        use taskreel_log::api::EventReader;
        match &self.stream {
            None => log.page_all(Position(self.next), page),
            Some(stream) => log.page_stream(stream, Version(self.next), page),
        }
    }

    /// Moves behind a record.
    fn pass(&mut self, stored: &StoredRecord) {
        let last = match self.stream {
            None => stored.last_position().0,
            Some(_) => stored.record.last_version().0,
        };
        self.next = last.saturating_add(1);
    }
}

/// Answers a request for records.
///
/// # Errors
/// [`Problem`] if the parameters contradict each other, or the first record cannot be read.
pub(crate) async fn records(
    asked: &RoutedRequest,
    log: Arc<dyn EventStore>,
    (turns, followers): (Arc<Semaphore>, Arc<Semaphore>),
) -> Result<Lines, Problem> {
    let (survey, follows) = (asked.text("survey"), asked.flag("follow"));
    let bounded = ["records", "bytes"].iter().any(|name| asked.text(name).is_some());
    let placed = ["from", "stream"].iter().any(|name| asked.text(name).is_some());
    if survey.is_some() && (follows || bounded || placed) {
        return Err(Problem::malformed("a survey reads the whole log and takes no other parameter"));
    }
    if asked.text("where").is_some() && (survey.is_some() || follows || bounded) {
        return Err(Problem::malformed("`where` takes no survey, no bounds, and no `follow`"));
    }
    if follows && bounded {
        return Err(Problem::malformed("`follow` goes on without an end and takes no bounds"));
    }
    match survey {
        Some(what) => surveyed(what == "index", log, turn(&turns).await?),
        None if follows => {
            let place = turn_to_follow(&followers)?;
            Ok(followed(RecordsStart::from_request(asked)?, log, place))
        }
        None => paged(asked, log, turns).await,
    }
}

/// Takes a place among the followers.
///
/// # Errors
/// [`Problem`] if there are too many.
pub(crate) fn turn_to_follow(followers: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    Arc::clone(followers).try_acquire_owned().map_err(|_| {
        let status = http::StatusCode::TOO_MANY_REQUESTS;
        Problem::new(status, "overloaded", "too many others follow the log at this moment")
    })
}

/// The records that are still to be sent.
struct PagedRecords {
    place: RecordsStart,
    log: Arc<dyn EventStore>,
    turns: Arc<Semaphore>,
    /// The records and bytes that may still be sent.
    left: Page,
    sent: u64,
    /// The condition of which an event of each record must hold.
    only: Option<Arc<Expression>>,
    /// The last position that is read: that of the log when it was asked for, where the client sets no bound.
    end: Position,
}

/// Reads page by page: the next one is read when the one before was taken. The first page is read before the answer
/// begins, so that a log that cannot be read is an error of the request.
async fn paged(
    asked: &RoutedRequest,
    log: Arc<dyn EventStore>,
    turns: Arc<Semaphore>,
) -> Result<Lines, Problem> {
    let left = Page {
        records: asked.number("records")?.unwrap_or(usize::MAX),
        bytes: asked.number("bytes")?.unwrap_or(usize::MAX),
    };
    let only = condition(asked, "taskreel.event/1")?.map(Arc::new);
    // A program may write all the time. Of a damaged log whose end is not known, all is sent that stands before the damage.
    let end = match &only {
        Some(_) => read(&turns, Arc::clone(&log), |log| Ok(log.head().unwrap_or(Position(u64::MAX)))).await?,
        None => Position(u64::MAX),
    };
    let mut paged =
        PagedRecords { place: RecordsStart::from_request(asked)?, log, turns, left, sent: 0, only, end };
    let (first, goes_on) = paged.next().await?;
    let state = goes_on.then_some(paged);
    let rest = stream::unfold(state, |state| async {
        let mut paged = state?;
        match paged.next().await {
            Ok((lines, goes_on)) => Some((lines, goes_on.then_some(paged))),
            Err(problem) => {
                let failed = Word::Failed(ReadError::Io(problem.message().to_owned()).into());
                Some((Bytes::from(failed.to_line()), None))
            }
        }
    });
    Ok(stream::iter([first]).chain(rest).boxed())
}

impl PagedRecords {
    /// Reads the next page. Returns its lines, and whether others follow.
    async fn next(&mut self) -> Result<(Bytes, bool), Problem> {
        let usual = Page::default();
        let wanted =
            Page { records: self.left.records.min(usual.records), bytes: self.left.bytes.min(usual.bytes) };
        let (mut place, only, end) = (self.place.clone(), self.only.clone(), self.end);
        let page = read(&self.turns, Arc::clone(&self.log), move |log| {
            let page = place.page(log, wanted);
            let mut lines = String::new();
            let (mut records, mut bytes, mut put, mut is_over) = (0, 0_usize, 0, false);
            let failure = page.as_ref().err().cloned();
            for stored in page.unwrap_or_default() {
                is_over = stored.last_position() >= end;
                if stored.position > end {
                    break;
                }
                if only.as_ref().is_none_or(|only| has_event(&stored, only)) {
                    put_record(&mut lines, &stored);
                    put += 1;
                }
                place.pass(&stored);
                (records, bytes) = (records + 1, bytes.saturating_add(stored.bytes_in_memory()));
            }
            Ok((lines, place, (records, bytes, put, is_over), failure))
        });
        let (mut lines, place, (records, bytes, put, is_over), failure) = page.await?;
        (self.place, self.sent) = (place, self.sent + put);
        if let Some(error) = failure {
            if self.sent == 0 {
                return Err(unread(error));
            }
            lines.push_str(&Word::Failed(error.into()).to_line());
            return Ok((Bytes::from(lines), false));
        }
        self.left.records = self.left.records.saturating_sub(records);
        let is_full = bytes >= self.left.bytes;
        self.left.bytes = self.left.bytes.saturating_sub(bytes);
        let goes_on = records > 0 && self.left.records > 0 && !is_full && !is_over;
        if !goes_on {
            lines.push_str(&Word::Done(self.sent).to_line());
        } else if lines.is_empty() {
            // Nothing of the page is wanted: the client hears that the log is looked through.
            lines.push_str(&Word::Quiet(true).to_line());
        }
        Ok((Bytes::from(lines), goes_on))
    }
}

/// Whether a condition holds for an event of a record.
fn has_event(stored: &StoredRecord, only: &Expression) -> bool {
    event_rows(stored).iter().any(|row| row.fits(only))
}

/// Surveys the log on a thread of its own, which ends once the client is gone.
fn surveyed(of_index: bool, log: Arc<dyn EventStore>, turn: OwnedSemaphorePermit) -> Result<Lines, Problem> {
    let (send, receive) = mpsc::channel::<Bytes>(SURVEYED_WAITING);
    let (watched, waiting) = WatchedLog::new(log);
    let work = move || {
        let _turn = turn;
        let (mut lines, mut shown) = (String::new(), 0);
        let mut show = |read: Result<StoredRecord, ReadError>| {
            match read {
                Ok(stored) => {
                    put_record(&mut lines, &stored);
                    shown += 1;
                }
                Err(error) => lines.push_str(&Word::Failed(error.into()).to_line()),
            }
            if lines.len() >= PIECE_BYTES {
                // A client that is gone takes no more; the survey ends by itself.
                drop(send.blocking_send(Bytes::from(std::mem::take(&mut lines))));
            }
        };
        if of_index {
            watched.survey_index_while(&|| true, &mut |error| show(Err(error)));
        } else {
            watched.survey_while(&|| true, &mut show);
        }
        lines.push_str(&Word::Done(shown).to_line());
        drop(send.blocking_send(Bytes::from(lines)));
    };
    let runtime = tokio::runtime::Handle::try_current().map_err(|error| internal(&error))?;
    runtime.spawn_blocking(work);
    let lines = stream::unfold((receive, waiting), |(mut receive, waiting)| async {
        let lines = receive.recv().await?;
        Some((lines, (receive, waiting)))
    });
    Ok(lines.boxed())
}

/// A follower of records.
struct FollowedRecords {
    /// The subscription; none after the last word.
    subscription: Option<Subscription>,
    _place: OwnedSemaphorePermit,
}

/// Follows the log from a place on.
fn followed(place: RecordsStart, log: Arc<dyn EventStore>, follower: OwnedSemaphorePermit) -> Lines {
    let subscription = match place.stream {
        None => Subscription::all(log, Position(place.next)),
        Some(stream) => Subscription::stream(log, stream, Version(place.next)),
    };
    let state = FollowedRecords { subscription: Some(subscription), _place: follower };
    stream::unfold(state, |mut state| async {
        let line = state.next().await?;
        Some((Bytes::from(line), state))
    })
    .boxed()
}

impl FollowedRecords {
    async fn next(&mut self) -> Option<String> {
        let subscription = self.subscription.as_mut()?;
        let (line, is_last) = match tokio::time::timeout(QUIET_AFTER, subscription.next()).await {
            Ok(Some(Ok(Delivery::Record(stored)))) => {
                let mut line = String::new();
                put_record(&mut line, &stored);
                (line, false)
            }
            Ok(Some(Ok(Delivery::Lagged { from, to }))) => {
                (Word::Lagged { from: from.0, to: to.0 }.to_line(), false)
            }
            Ok(Some(Err(error))) => (Word::Failed(error.into()).to_line(), true),
            Ok(None) => (Word::Ended(true).to_line(), true),
            Err(_) | Ok(Some(Ok(_))) => (Word::Quiet(true).to_line(), false),
        };
        if is_last {
            self.subscription = None;
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::Method;
    use taskreel_log::api::Append;
    use taskreel_log::memory::MemoryStore;
    use taskreel_log::testing::conformance::{Author, stream};
    use taskreel_log::testing::{DelegatingStore, Overrides};

    use super::*;

    /// The records at the beginning: more than a page. Each has an error, since its event is not an event of ours.
    const BEFORE: usize = 300;

    /// A program that writes a record before each page of its log is read, so many times.
    struct Writing(Mutex<Vec<Append>>);

    impl Overrides for Writing {
        fn page_all(
            &self,
            log: &dyn EventStore,
            from: Position,
            page: Page,
        ) -> Result<Vec<StoredRecord>, ReadError> {
            if let Some(next) = self.0.lock().unwrap().pop() {
                futures_util::future::FutureExt::now_or_never(log.append(next)).unwrap().unwrap();
            }
            log.page_all(from, page)
        }
    }

    #[tokio::test]
    async fn what_fits_a_condition_ends_where_the_log_ended_when_it_was_asked_for() {
        let store = Arc::new(MemoryStore::new());
        let mut author = Author::new(store.fence());
        for _ in 0..BEFORE {
            store.append(author.append_one(&stream("s"), b"before")).await.unwrap();
        }
        let mut later: Vec<Append> = (0..100).map(|_| author.append_one(&stream("s"), b"later")).collect();
        later.reverse();
        let log: Arc<dyn EventStore> = Arc::new(DelegatingStore::new(store, Writing(Mutex::new(later))));
        let asked = RoutedRequest::read(&Method::GET, "/v1/records", Some("where=error")).unwrap();
        let turns = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(1)));
        let lines: Vec<Bytes> = records(&asked, log, turns).await.unwrap().collect().await;
        let lines = String::from_utf8(lines.concat()).unwrap();
        assert_eq!(lines.lines().last().unwrap(), Word::Done(BEFORE as u64).to_line().trim_end());
    }
}
