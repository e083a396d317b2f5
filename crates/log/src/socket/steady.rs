//! A log that is read through a socket for as long as its program has it open, and from a private copy after that.

use std::sync::{Mutex, OnceLock, PoisonError};

use proto_events::id::{Position, StreamId, Version};

use crate::api::error::ReadError;
use crate::api::page::Page;
use crate::api::reader::EventReader;
use crate::api::record::{StoredRecord, StreamInfo};
use crate::sled::{LogHeader, ReadOnlyLog, ReadOnlyOptions};
use crate::socket::reader::SocketReader;

/// A reader that outlives the program behind a socket. Whatever it has read stays readable: the program had made it durable
/// before it was shown.
#[derive(Debug)]
pub struct SteadyReader {
    socket: SocketReader,
    options: ReadOnlyOptions,
    copy: OnceLock<ReadOnlyLog>,
    copying: Mutex<()>,
}

impl SteadyReader {
    /// Returns a reader that begins at a socket. `options` are for the copy.
    pub fn new(socket: SocketReader, options: ReadOnlyOptions) -> Self {
        Self { socket, options, copy: OnceLock::new(), copying: Mutex::default() }
    }

    /// Returns the header of the log.
    pub fn header(&self) -> LogHeader {
        self.socket.header()
    }

    /// Returns the socket at which the reader began.
    pub fn socket(&self) -> &SocketReader {
        &self.socket
    }

    /// Whether it still reads through the socket: once the program was gone for a moment, it reads the copy and no longer looks for one
    /// that comes back.
    pub fn is_at_socket(&self) -> bool {
        self.copy.get().is_none()
    }

    /// Returns the copy, which is made when it is first needed.
    fn copy(&self) -> Result<&ReadOnlyLog, ReadError> {
        let _one = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = self.copy.get() {
            return Ok(copy);
        }
        tracing::debug!(dir = %self.socket.dir().display(), "the program has closed its socket; a copy is read");
        let copy = ReadOnlyLog::open_with(self.socket.dir(), &self.options)
            .map_err(|error| ReadError::Io(error.to_string()))?;
        if copy.header().id != self.header().id {
            return Err(ReadError::Io("the directory has another log now".to_owned()));
        }
        Ok(self.copy.get_or_init(|| copy))
    }

    fn read<T>(&self, read: impl Fn(&dyn EventReader) -> Result<T, ReadError>) -> Result<T, ReadError> {
        if let Some(copy) = self.copy.get() {
            return read(copy);
        }
        match read(&self.socket) {
            Err(ReadError::Closed) => read(self.copy()?),
            heard => heard,
        }
    }
}

impl EventReader for SteadyReader {
    fn read_stream(
        &self,
        stream: &StreamId,
        from: Version,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.read(|log| log.read_stream(stream, from, limit))
    }

    fn read_all(&self, from: Position, limit: usize) -> Result<Vec<StoredRecord>, ReadError> {
        self.read(|log| log.read_all(from, limit))
    }

    fn page_stream(
        &self,
        stream: &StreamId,
        from: Version,
        page: Page,
    ) -> Result<Vec<StoredRecord>, ReadError> {
        self.read(|log| log.page_stream(stream, from, page))
    }

    fn page_all(&self, from: Position, page: Page) -> Result<Vec<StoredRecord>, ReadError> {
        self.read(|log| log.page_all(from, page))
    }

    fn head(&self) -> Result<Position, ReadError> {
        self.read(|log| log.head())
    }

    fn stream_version(&self, stream: &StreamId) -> Result<Version, ReadError> {
        self.read(|log| log.stream_version(stream))
    }

    fn list_streams(
        &self,
        prefix: &str,
        after: Option<&StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamInfo>, ReadError> {
        self.read(|log| log.list_streams(prefix, after, limit))
    }

    fn open_work(&self) -> Result<Vec<StreamId>, ReadError> {
        self.read(|log| log.open_work())
    }

    fn survey(&self, show: &mut dyn FnMut(Result<StoredRecord, ReadError>)) {
        self.survey_while(&|| true, show);
    }

    fn survey_while(
        &self,
        goes_on: &dyn Fn() -> bool,
        show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
    ) {
        let (mut last, mut is_lost) = (Position(0), self.copy.get().is_some());
        if !is_lost {
            self.socket.survey_while(goes_on, &mut |shown| match shown {
                Err(ReadError::Closed) => is_lost = true,
                Ok(record) => {
                    last = record.last_position();
                    show(Ok(record));
                }
                error => show(error),
            });
        }
        if !is_lost {
            return;
        }
        match self.copy() {
            Ok(copy) => survey_after(copy, last, goes_on, show),
            Err(error) => show(Err(error)),
        }
    }

    fn survey_index(&self, show: &mut dyn FnMut(ReadError)) {
        self.survey_index_while(&|| true, show);
    }

    fn survey_index_while(&self, goes_on: &dyn Fn() -> bool, show: &mut dyn FnMut(ReadError)) {
        let mut is_lost = self.copy.get().is_some();
        if !is_lost {
            self.socket.survey_index_while(goes_on, &mut |error| match error {
                ReadError::Closed => is_lost = true,
                error => show(error),
            });
        }
        if is_lost {
            match self.copy() {
                Ok(copy) => copy.survey_index_while(goes_on, show),
                Err(error) => show(error),
            }
        }
    }
}

/// Shows what a survey shows after a position.
fn survey_after(
    log: &dyn EventReader,
    last: Position,
    goes_on: &dyn Fn() -> bool,
    show: &mut dyn FnMut(Result<StoredRecord, ReadError>),
) {
    let mut is_after = last == Position(0);
    log.survey_while(goes_on, &mut |shown| {
        let begins_after = shown.as_ref().is_ok_and(|record| record.position > last);
        // Damage right behind the last record shown may have been shown before: once more does no harm.
        let is_last = shown.as_ref().is_ok_and(|record| record.last_position() == last);
        if is_after || begins_after {
            show(shown);
        }
        is_after |= begins_after || is_last;
    });
}
