//! A log behind a server, read through its live API as any other log: page by page, from any thread that is not a worker of
//! an async runtime.

pub(crate) mod about;
pub(crate) mod error;
pub(crate) mod follower;
pub(crate) mod link;

use std::path::Path;

use proto_events::id::{Position, StreamId, Version};
use proto_events::json::{JsonText, JsonValue};
use taskreel_log::api::{EventReader, Page, ReadError, StoredRecord, StreamInfo};

use crate::api::client::about::LogAbout;
use crate::api::client::error::HttpLogError;
use crate::api::client::follower::HttpFollower;
use crate::api::client::link::{ApiLink, Query};
use crate::api::wire::{WireLine, Word};
use crate::limits::PAGE_ITEMS_MAX;

/// A reader of a log behind a server. What it reads is what the server has made durable by then; every record is compared
/// with its hashes here once more.
///
/// Its calls block, so they belong on a thread of their own, not on a worker of an async runtime.
pub struct HttpLog {
    link: ApiLink,
    about: LogAbout,
}

impl std::fmt::Debug for HttpLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpLog").field("url", &self.link.url()).finish_non_exhaustive()
    }
}

impl HttpLog {
    /// Connects to the server at an address such as `http://127.0.0.1:8080`, with a bearer token if one is given.
    ///
    /// # Errors
    /// [`HttpLogError`] if the address is not valid, or the server cannot be reached, refuses, or is not a taskreel.
    pub fn connect(url: &str, token: Option<&str>) -> Result<Self, HttpLogError> {
        let link = ApiLink::new(url, token)?;
        let about = LogAbout::read(&link.json("v1/log", &[])?)?;
        Ok(Self { link, about })
    }

    /// Returns the token that a file holds, without the blanks around it.
    ///
    /// # Errors
    /// [`HttpLogError::Token`] if the file cannot be read or is empty.
    pub fn token_in(file: &Path) -> Result<String, HttpLogError> {
        let of = |why: String| HttpLogError::Token { file: file.to_path_buf(), why };
        let text = std::fs::read_to_string(file).map_err(|error| of(error.to_string()))?;
        let token = text.trim();
        if token.is_empty() { Err(of("it is empty".to_owned())) } else { Ok(token.to_owned()) }
    }

    /// Returns the address of the server.
    pub fn url(&self) -> &str {
        self.link.url()
    }

    /// Returns what the server said of its log when the connection was made.
    pub fn about(&self) -> &LogAbout {
        &self.about
    }

    /// Asks what the server says of its log now.
    ///
    /// # Errors
    /// [`HttpLogError`] if it cannot be asked.
    pub fn about_now(&self) -> Result<LogAbout, HttpLogError> {
        LogAbout::read(&self.link.json("v1/log", &[])?)
    }

    /// Follows the whole log, beginning with the record that holds this position; 1 is the first.
    ///
    /// # Errors
    /// [`HttpLogError`] if the server does not serve it.
    pub fn follow(&self, from: Position) -> Result<HttpFollower<'_>, HttpLogError> {
        self.follower(None, from.0)
    }

    /// Follows one stream, beginning with the record that holds this version; 1 is the first.
    ///
    /// # Errors
    /// As [`HttpLog::follow`].
    pub fn follow_stream(&self, stream: &StreamId, from: Version) -> Result<HttpFollower<'_>, HttpLogError> {
        self.follower(Some(stream), from.0)
    }

    fn follower(&self, stream: Option<&StreamId>, from: u64) -> Result<HttpFollower<'_>, HttpLogError> {
        let mut query = vec![("follow", "true".to_owned()), ("from", from.to_string())];
        query.extend(stream.map(|stream| ("stream", stream.to_string())));
        Ok(HttpFollower::new(self.link.lines("v1/records", &query)?))
    }

    /// Sends a decision about a task, which is named by its stream: the last piece of a route such as `approve`, and the
    /// body that it takes. Returns the decision in the form `taskreel.decision/1`.
    ///
    /// # Errors
    /// [`HttpLogError`] if the server refuses it or was not reached.
    pub fn decide(&self, task: &StreamId, decision: &str, body: &JsonText) -> Result<JsonText, HttpLogError> {
        self.link.post(&["v1", "tasks", task.as_str(), decision], body)
    }

    /// Reads records until the last word.
    fn records(&self, query: &Query<'_>, show: &mut dyn FnMut(Result<StoredRecord, ReadError>) -> bool) {
        let mut lines = match self.link.lines("v1/records", query) {
            Ok(lines) => lines,
            Err(error) => {
                show(Err(error.into()));
                return;
            }
        };
        loop {
            let goes_on = match lines.next() {
                Ok(WireLine::Record(record)) => show(Ok(*record)),
                Ok(WireLine::Word(Word::Failed(failure))) => show(Err(failure.into())),
                Ok(WireLine::Word(Word::Done(_) | Word::Ended(_))) => return,
                Ok(WireLine::Word(_)) => true,
                Err(error) => {
                    show(Err(error.into()));
                    false
                }
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Returns the records from a position of the log on, or from a version of a stream, of which an event fits a condition over
    /// the fields of events, until the word that all were looked at. The server looks through the log, and only those records
    /// travel.
    ///
    /// # Errors
    /// [`HttpLogError`] if the server refuses the condition, as one does that does not know it, or was not reached.
    pub fn records_where(
        &self,
        stream: Option<&StreamId>,
        from: u64,
        condition: &str,
    ) -> Result<HttpFollower<'_>, HttpLogError> {
        let mut query = vec![("from", from.to_string()), ("where", condition.to_owned())];
        query.extend(stream.map(|stream| ("stream", stream.to_string())));
        Ok(HttpFollower::new(self.link.lines("v1/records", &query)?))
    }

    /// Reads a page. A page is read once more where its answer was lost: nothing was shown of it yet.
    fn page(&self, stream: Option<&StreamId>, from: u64, page: Page) -> Result<Vec<StoredRecord>, ReadError> {
        let mut query = vec![("from", from.to_string()), ("records", page.records.to_string())];
        query.push(("bytes", page.bytes.to_string()));
        query.extend(stream.map(|stream| ("stream", stream.to_string())));
        let read = || {
            let (mut records, mut failed) = (Vec::new(), None);
            self.records(&query, &mut |read| {
                match read {
                    Ok(record) => records.push(record),
                    Err(error) => failed = Some(error),
                }
                failed.is_none()
            });
            failed.map_or(Ok(records), Err)
        };
        twice(read)
    }

    fn streams(&self, query: &Query<'_>) -> Result<Vec<StreamInfo>, ReadError> {
        let page = self.link.json("v1/streams", query)?.tree();
        let nonsense = || ReadError::from(self.link.nonsense("a page of streams is not as it should be"));
        let items = page.get("items").and_then(JsonValue::as_array).ok_or_else(nonsense)?;
        let info = |item: &JsonValue| {
            let stream = StreamId::parse(item.get("stream")?.as_str()?).ok()?;
            Some(StreamInfo { stream, version: Version(item.get("version")?.as_u64()?) })
        };
        items.iter().map(|item| info(item).ok_or_else(nonsense)).collect()
    }

    /// Lists streams page by page.
    fn listed(
        &self,
        more: &Query<'_>,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        let (mut found, mut after) = (Vec::new(), after.cloned());
        while found.len() < limit {
            let wanted = (limit - found.len()).min(PAGE_ITEMS_MAX);
            let mut query = more.to_vec();
            query.push(("limit", wanted.to_string()));
            query.extend(after.as_ref().map(|after| ("after", after.to_string())));
            let some = self.streams(&query)?;
            let is_end = some.len() < wanted;
            after = some.last().map(|info| info.stream.clone());
            found.extend(some);
            if is_end {
                break;
            }
        }
        Ok(found)
    }

    fn surveyed(
        &self,
        what: &str,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        self.records(&[("survey", what.to_owned())], &mut |read| {
            let is_lost = read.as_ref().is_err_and(ReadError::is_of_reader);
            show(read);
            !is_lost && goes_on()
        });
    }
}

/// Reads once more where the log was not heard of: the connection may have been lost.
fn twice<T>(read: impl Fn() -> Result<T, ReadError>) -> Result<T, ReadError> {
    match read() {
        Err(error) if error.is_of_reader() => read(),
        heard => heard,
    }
}

impl EventReader for HttpLog {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.page_stream(stream, from, Page::with_limit(limit))
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.page_all(from, Page::with_limit(limit))
    }

    fn page_stream(
        &self,
        stream: &StreamId,
        from: Version,
        page: Page,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.page(Some(stream), from.0, page)
    }

    fn page_all(&self, from: Position, page: Page) -> Result<Vec<StoredRecord>, ReadError> {
        self.page(None, from.0, page)
    }

    fn head(&self) -> Result<Position, ReadError> {
        twice(|| Ok(self.about_now()?.end))
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        // Of the streams whose names begin with a name, the one with this name is the first.
        let query = [("prefix", stream.to_string()), ("limit", "1".to_owned())];
        let found = twice(|| self.streams(&query))?;
        let found = found.first().filter(|info| info.stream == *stream);
        Ok(found.map_or(Version(0), |info| info.version))
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        let prefix = (!prefix.is_empty()).then(|| ("prefix", prefix.to_owned()));
        self.listed(&prefix.into_iter().collect::<Vec<_>>(), after, limit)
    }

    fn open_work(&self) -> Result<Vec<StreamId>, ReadError> {
        let open = self.listed(&[("open", "true".to_owned())], None, usize::MAX)?;
        Ok(open.into_iter().map(|info| info.stream).collect())
    }

    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.survey_while(&|| true, show);
    }

    fn survey_while(
        &self,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        self.surveyed("log", goes_on, show);
    }

    fn survey_index(&self, show: &mut dyn FnMut(ReadError)) {
        self.survey_index_while(&|| true, show);
    }

    fn survey_index_while(&self, goes_on: &dyn Fn() -> bool, show: &mut dyn FnMut(ReadError)) {
        self.surveyed("index", goes_on, &mut |read| {
            if let Err(error) = read {
                show(error);
            }
        });
    }
}
