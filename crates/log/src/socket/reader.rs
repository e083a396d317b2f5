//! A log that another process holds, read through its socket.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use proto_events::id::{Position, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::holder::Holder;
use crate::api::page::Page;
use crate::api::reader::EventReader;
use crate::api::record::{StoredRecord, StreamInfo};
use crate::limits::{
    READ_PAGE_BYTES, READ_PAGE_RECORDS, READ_PAGE_STREAMS, SOCKET_DECISION_WITHIN, SOCKET_FRAME_WITHIN,
    SOCKET_REQUEST_BYTES, SOCKET_REQUEST_REST,
};
use crate::sled::LogHeader;
use crate::socket::error::{OperatorError, SocketError};
use crate::socket::follower::SocketFollower;
use crate::socket::link::{Heard, Link, Word, hear_page, introduced, unexpected};
use crate::socket::operator::{OperatorRefusal, OperatorReply, OperatorRequest, RefusalKind};
use crate::socket::wire::{Answer, Request, StreamName};

/// A reader of a log through the socket of the program that holds it. What it reads is what the program has made durable
/// by then: later reads may find more. A lost connection is made again by itself; once the program is gone, reads return
/// [`ReadError::Closed`].
pub struct SocketReader {
    dir: PathBuf,
    header: LogHeader,
    holder: Holder,
    takes_decisions: bool,
    /// Connections that no read uses.
    free: Mutex<Vec<Link>>,
    /// Time for which a survey waits for a word of the program.
    silent: Duration,
}

impl fmt::Debug for SocketReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketReader").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl SocketReader {
    /// Connects to the socket in the directory of a log.
    ///
    /// # Errors
    /// [`SocketError::Shut`] if no program has the socket open, others if it does not serve this client.
    pub fn connect(dir: impl AsRef<Path>) -> Result<Self, SocketError> {
        let dir = dir.as_ref();
        let link = Link::open(dir)?;
        let (header, holder) = introduced(dir, &link)?;
        let takes_decisions = link.welcome.takes_decisions;
        // Whole: the program may change its working directory.
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        let free = Mutex::new(vec![link]);
        Ok(Self { dir, header, holder, takes_decisions, free, silent: SOCKET_FRAME_WITHIN })
    }

    /// Sets the time for which a survey waits for a word of the program.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_silence_of_at_most(mut self, silent: Duration) -> Self {
        self.silent = silent;
        self
    }

    /// Returns the directory of the log, as an absolute path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the header of the log.
    pub fn header(&self) -> LogHeader {
        self.header
    }

    /// Returns the program that has the log open.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Whether the program takes a person's decisions.
    pub fn takes_decisions(&self) -> bool {
        self.takes_decisions
    }

    /// Returns the failure after which the program takes no appends; none of a program of a release that does not say it.
    ///
    /// # Errors
    /// [`SocketError`] if the program serves no other connection.
    pub fn poisoned(&self) -> Result<Option<String>, SocketError> {
        // A connection of its own: the state is told when one is made.
        self.open().map(|link| link.welcome.poisoned)
    }

    /// Follows the whole log, beginning with the record that holds this position; 1 is the first.
    ///
    /// # Errors
    /// [`SocketError`] if the program serves no other connection.
    pub fn follow(&self, from: Position) -> Result<SocketFollower, SocketError> {
        self.begin_follower(None, from.0)
    }

    /// Follows one stream, beginning with the record that holds this version; 1 is the first.
    ///
    /// # Errors
    /// As [`SocketReader::follow`].
    pub fn follow_stream(&self, stream: &StreamId, from: Version) -> Result<SocketFollower, SocketError> {
        self.begin_follower(Some(StreamName(stream.clone())), from.0)
    }

    /// Sends a person's decision to the program, which records it as that of the user of this process.
    ///
    /// # Errors
    /// [`OperatorError`] if the program refuses it or was not reached.
    pub fn decide(&self, request: OperatorRequest) -> Result<OperatorReply, OperatorError> {
        let bytes = serde_json::to_vec(&request).map_or(0, |text| text.len());
        if bytes > SOCKET_REQUEST_BYTES - SOCKET_REQUEST_REST {
            let why = format!("the decision has {bytes} bytes; a socket takes {SOCKET_REQUEST_BYTES}");
            return Err(OperatorError::Refused(OperatorRefusal { kind: RefusalKind::Input, why }));
        }
        // A connection of its own: one that was idle may be dropped just as the request is sent.
        let link = self.open()?;
        let request = Request::Operator(request);
        link.ask(&request).map_err(|source| OperatorError::LocalSocket(self.lost(source)))?;
        match link.hear_within(SOCKET_DECISION_WITHIN).map_err(OperatorError::NoAnswer)? {
            Word::Answer(Answer::Decided(reply)) => Ok(reply),
            Word::Answer(Answer::Refused(refusal)) => Err(OperatorError::Refused(refusal)),
            other => Err(OperatorError::NoAnswer(unexpected(&other))),
        }
    }

    /// Begins to follow through a free connection, or a new one if the program has dropped it.
    fn begin_follower(&self, stream: Option<StreamName>, from: u64) -> Result<SocketFollower, SocketError> {
        if let Some(link) = self.take_free()
            && let Ok(follower) = SocketFollower::start(link, stream.clone(), from)
        {
            return Ok(follower);
        }
        SocketFollower::start(self.open()?, stream, from).map_err(|source| self.lost(source))
    }

    fn take_free(&self) -> Option<Link> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn lost(&self, source: io::Error) -> SocketError {
        SocketError::Link { path: self.dir.clone(), source }
    }

    /// Makes a new connection, to the same log.
    fn open(&self) -> Result<Link, SocketError> {
        let link = Link::open(&self.dir)?;
        if introduced(&self.dir, &link)?.0.id != self.header.id {
            return Err(self.lost(io::Error::other("the directory has another log now")));
        }
        Ok(link)
    }

    /// Reads through a free connection. One that the program has dropped meanwhile is replaced.
    fn read<T>(&self, mut read: impl FnMut(&Link) -> Heard<T>) -> Result<T, ReadError> {
        if let Some(link) = self.take_free()
            && let Ok(heard) = read(&link)
        {
            self.give_back(link);
            return heard;
        }
        let link = self.open().map_err(|error| unread(&error))?;
        let heard = read(&link).map_err(|error| unread(&self.lost(error)))?;
        self.give_back(link);
        heard
    }

    fn give_back(&self, link: Link) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(link);
    }

    fn number(&self, request: &Request) -> Result<u64, ReadError> {
        self.read(|link| {
            link.ask(request)?;
            match link.hear()? {
                Word::Answer(Answer::Number(number)) => Ok(Ok(number)),
                Word::Answer(Answer::Failed(failure)) => Ok(Err(failure.into())),
                other => Err(unexpected(&other)),
            }
        })
    }

    fn streams(&self, request: &Request) -> Result<Vec<StreamInfo>, ReadError> {
        self.read(|link| {
            link.ask(request)?;
            let mut streams = Vec::new();
            loop {
                match link.hear()? {
                    Word::Answer(Answer::Streams(some)) => {
                        let some = some.into_iter();
                        streams.extend(
                            some.map(|(name, version)| StreamInfo {
                                stream: name.0,
                                version: Version(version),
                            }),
                        );
                    }
                    Word::Answer(Answer::Done) => return Ok(Ok(streams)),
                    Word::Answer(Answer::Failed(failure)) => return Ok(Err(failure.into())),
                    other => return Err(unexpected(&other)),
                }
            }
        })
    }

    /// Reads a page of any size from the pages that a socket gives.
    fn page(
        &self,
        page: Page,
        mut from: u64,
        request: impl Fn(u64, Page) -> Request,
        last: impl Fn(&StoredRecord) -> u64,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        let (mut records, mut bytes) = (Vec::new(), 0_usize);
        while records.len() < page.records && (records.is_empty() || bytes < page.bytes) {
            let wanted = Page {
                records: (page.records - records.len()).min(READ_PAGE_RECORDS),
                bytes: (page.bytes - bytes.min(page.bytes)).min(READ_PAGE_BYTES),
            };
            let request = request(from, wanted);
            let some = self.read(|link| hear_page(link, &request))?;
            let Some(end) = some.last().map(&last) else { break };
            bytes = some.iter().fold(bytes, |sum, record| sum.saturating_add(record.bytes_in_memory()));
            records.extend(some);
            let Some(next) = end.checked_add(1) else { break };
            from = next;
        }
        Ok(records)
    }

    /// Shows what a survey in the program shows.
    fn survey_there(
        &self,
        request: &Request,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        // A connection that is free may have been dropped: then no word comes through it.
        let free = self.take_free().and_then(|link| {
            let word = link.ask(request).and_then(|()| link.hear_within(self.silent)).ok()?;
            Some((link, Some(word)))
        });
        let opened = || {
            let link = self.open()?;
            link.ask(request).map_err(|source| self.lost(source))?;
            Ok((link, None))
        };
        let (link, mut word) = match free.map_or_else(opened, Ok) {
            Ok(begun) => begun,
            Err(error) => return show(Err(unread(&error))),
        };
        let mut shown = 0_usize;
        loop {
            let word = word.take().map_or_else(|| link.hear_within(self.silent), Ok);
            let is_quiet = matches!(word, Ok(Word::Answer(Answer::Quiet)));
            if (is_quiet || shown.is_multiple_of(READ_PAGE_RECORDS)) && !goes_on() {
                // The program ends its survey once the link is dropped.
                return;
            }
            match word {
                Ok(Word::Record(record)) => {
                    shown += 1;
                    show(Ok(*record));
                }
                Ok(Word::Newer(error)) => show(Err(error)),
                Ok(Word::Answer(Answer::Quiet)) => {}
                Ok(Word::Answer(Answer::Failed(failure))) => show(Err(failure.into())),
                Ok(Word::Answer(Answer::Done)) => return self.give_back(link),
                Ok(other) => return show(Err(unread(&self.lost(unexpected(&other))))),
                Err(error) => return show(Err(unread(&self.lost(error)))),
            }
        }
    }
}

/// Returns the error of a read without an answer: [`ReadError::Closed`] if the program has gone, is silent, or serves too
/// many others. That says nothing of the log, which can be read from a copy.
fn unread(error: &SocketError) -> ReadError {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock,
    };
    match error {
        SocketError::Shut { .. } | SocketError::Busy { .. } => ReadError::Closed,
        SocketError::Link { source, .. }
            if matches!(
                source.kind(),
                BrokenPipe | ConnectionAborted | ConnectionReset | TimedOut | UnexpectedEof | WouldBlock
            ) =>
        {
            ReadError::Closed
        }
        error => ReadError::Io(error.to_string()),
    }
}

impl EventReader for SocketReader {
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
        let request = |from, page: Page| {
            let (records, bytes) = (page.records as u64, page.bytes as u64);
            Request::PageStream { stream: StreamName(stream.clone()), from, records, bytes }
        };
        self.page(page, from.0, request, |stored| stored.record.last_version().0)
    }

    fn page_all(&self, from: Position, page: Page) -> Result<Vec<StoredRecord>, ReadError> {
        let request = |from, page: Page| {
            let (records, bytes) = (page.records as u64, page.bytes as u64);
            Request::PageAll { from, records, bytes }
        };
        self.page(page, from.0, request, |stored| stored.last_position().0)
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.number(&Request::Head).map(Position)
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.number(&Request::StreamVersion { stream: StreamName(stream.clone()) }).map(Version)
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        let (mut streams, mut after) = (Vec::new(), after.cloned());
        while streams.len() < limit {
            let wanted = (limit - streams.len()).min(READ_PAGE_STREAMS);
            let some = self.streams(&Request::ListStreams {
                prefix: prefix.to_owned(),
                after: after.map(StreamName),
                limit: wanted as u64,
            })?;
            let is_end = some.len() < wanted;
            after = some.last().map(|info| info.stream.clone());
            streams.extend(some);
            if is_end {
                break;
            }
        }
        Ok(streams)
    }

    fn open_work(&self) -> Result<Vec<StreamId>, ReadError> {
        let open = self.streams(&Request::OpenWork)?;
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
        self.survey_there(&Request::Survey, goes_on, show);
    }

    fn survey_index(&self, show: &mut dyn FnMut(ReadError)) {
        self.survey_index_while(&|| true, show);
    }

    fn survey_index_while(&self, goes_on: &dyn Fn() -> bool, show: &mut dyn FnMut(ReadError)) {
        self.survey_there(&Request::SurveyIndex, goes_on, &mut |shown| {
            if let Err(error) = shown {
                show(error);
            }
        });
    }
}
