//! The connection of a client to a socket.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use proto_events::id::LogId;

use crate::api::durability::Durability;
use crate::api::error::ReadError;
use crate::api::holder::Holder;
use crate::api::record::StoredRecord;
use crate::limits::{SOCKET_FRAME_BYTES, SOCKET_FRAME_WITHIN, SOCKET_HELLO_WITHIN};
use crate::sled::LogHeader;
use crate::socket::error::SocketError;
use crate::socket::frame::{FrameKind, FrameReader};
use crate::socket::place::SocketDirectory;
use crate::socket::wire::{Answer, PROTOCOL, Request, Welcome};
use crate::socket::{frame, records};

/// A connection whose first request was answered.
#[derive(Debug)]
pub(crate) struct Link {
    stream: UnixStream,
    incoming: Mutex<FrameReader>,
    pub(crate) welcome: Welcome,
}

/// The result of a read: the link may fail, or the program may not be able to read.
pub(crate) type Heard<T> = io::Result<Result<T, ReadError>>;

/// A word of the program.
#[derive(Debug)]
pub(crate) enum Word {
    Answer(Answer),
    Record(Box<StoredRecord>),
    /// A record that this release cannot decode, since a newer one wrote it.
    Newer(ReadError),
}

impl Link {
    /// Connects to the socket in `dir`.
    pub(crate) fn open(dir: &Path) -> Result<Self, SocketError> {
        let failed = |source: io::Error| {
            let path = dir.to_owned();
            match source.kind() {
                // Nobody listens, or the socket or the directory is missing.
                io::ErrorKind::NotFound
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::Unsupported => SocketError::Shut { path },
                io::ErrorKind::PermissionDenied => SocketError::NotAllowed { path },
                io::ErrorKind::WouldBlock => SocketError::Busy { path },
                _ => SocketError::Link { path, source },
            }
        };
        let place = SocketDirectory::from_dir(dir).map_err(failed)?;
        let stream = place.connect().map_err(failed)?;
        let hello = Request::Hello { protocol: PROTOCOL };
        let path = dir.to_owned();
        // A program that has no place for us, or refuses us, may close before we speak.
        let _ = write(&stream, &hello, SOCKET_HELLO_WITHIN);
        let incoming = Mutex::default();
        match read(&stream, &incoming, SOCKET_HELLO_WITHIN)
            .map_err(|source| SocketError::Link { path: path.clone(), source })?
        {
            Word::Answer(Answer::Welcome(welcome)) => Ok(Self { stream, incoming, welcome }),
            Word::Answer(Answer::Busy) => Err(SocketError::Busy { path }),
            Word::Answer(Answer::NotAllowed) => Err(SocketError::NotAllowed { path }),
            Word::Answer(Answer::OtherProtocol { protocol }) => {
                Err(SocketError::OtherProtocol { path, theirs: protocol, ours: PROTOCOL })
            }
            other => Err(SocketError::Link { path, source: unexpected(&other) }),
        }
    }

    /// Sends a request.
    pub(crate) fn ask(&self, request: &Request) -> io::Result<()> {
        write(&self.stream, request, SOCKET_FRAME_WITHIN)
    }

    /// Waits for the next word.
    pub(crate) fn hear(&self) -> io::Result<Word> {
        self.hear_within(SOCKET_FRAME_WITHIN)
    }

    /// Waits for the next word for at most this time.
    pub(crate) fn hear_within(&self, within: Duration) -> io::Result<Word> {
        read(&self.stream, &self.incoming, within)
    }
}

fn write(stream: &UnixStream, request: &Request, within: Duration) -> io::Result<()> {
    let bytes = serde_json::to_vec(request).map_err(io::Error::other)?;
    frame::write(stream, FrameKind::Json, &bytes, within)
}

fn read(stream: &UnixStream, incoming: &Mutex<FrameReader>, within: Duration) -> io::Result<Word> {
    let mut incoming = incoming.lock().unwrap_or_else(PoisonError::into_inner);
    let mut next = || incoming.read(stream, SOCKET_FRAME_BYTES, within);
    let frame = next()?;
    let frame = frame.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    match frame.kind {
        FrameKind::Json => Ok(Word::Answer(serde_json::from_slice(&frame.bytes)?)),
        FrameKind::Record => {
            let read = records::read(&frame.bytes, &mut next)?;
            Ok(read.map_or_else(Word::Newer, |record| Word::Record(Box::new(record))))
        }
        FrameKind::Body => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "a piece of a body without its record"))
        }
    }
}

/// Returns the error of an answer that does not answer the request.
pub(crate) fn unexpected(word: &Word) -> io::Error {
    let what = match word {
        Word::Answer(Answer::Misunderstood { why }) => format!("the program did not understand: {why}"),
        Word::Answer(Answer::Ended) => return io::ErrorKind::ConnectionAborted.into(),
        Word::Answer(_) => "the program gave another answer than the one that was asked for".to_owned(),
        Word::Record(_) | Word::Newer(_) => "the program sent a record that was not asked for".to_owned(),
    };
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Returns the log and the program that a link leads to.
pub(crate) fn introduced(dir: &Path, link: &Link) -> Result<(LogHeader, Holder), SocketError> {
    let welcome = &link.welcome;
    let header = || {
        let (id, durability) = (LogId::parse(&welcome.log)?, Durability::of_name(&welcome.durability)?);
        Some(LogHeader { format: welcome.format, id, durability })
    };
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the program does not name its log");
    let header = header().ok_or_else(|| SocketError::Link { path: dir.to_owned(), source: wrong() })?;
    let (program, started) = (welcome.program.clone(), welcome.started.clone());
    Ok((header, Holder { pid: welcome.pid, program, started }))
}

/// Asks for a page and returns its records.
pub(crate) fn hear_page(link: &Link, request: &Request) -> Heard<Vec<StoredRecord>> {
    link.ask(request)?;
    let (mut records, mut newer) = (Vec::new(), None);
    loop {
        match link.hear()? {
            Word::Record(record) => records.push(*record),
            // The answer is heard to its end: the link is used again.
            Word::Newer(error) => newer = newer.or(Some(error)),
            Word::Answer(Answer::Done) => return Ok(newer.map_or(Ok(records), Err)),
            Word::Answer(Answer::Failed(failure)) => return Ok(Err(failure.into())),
            other @ Word::Answer(_) => return Err(unexpected(&other)),
        }
    }
}
