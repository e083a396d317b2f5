//! Records in frames: the bytes that the log has, then the bodies that it stores outside them, in pieces.
//!
//! | bytes of the frame `Record` | field, integers big-endian |
//! |---|---|
//! | 8 | position of the first event |
//! | 32 | leaf hash |
//! | 4 + n | length and bytes of the record |
//! | 4 | number of bodies that follow in frames `Body` |
//! | 4 + 8 each | number of the event and length of its body |

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use proto_events::codec::record::{Record, RecordError, RecordView};
use proto_events::id::{Digest, Position, StreamId};

use crate::api::error::ReadError;
use crate::api::published_record::NextRecord;
use crate::api::record::StoredRecord;
use crate::limits::SOCKET_PIECE_BYTES;
use crate::socket::frame;
use crate::socket::frame::{Frame, FrameKind};

/// Writes a record.
pub(crate) fn write(stream: &UnixStream, stored: &StoredRecord, within: Duration) -> io::Result<()> {
    let bodies = detached(stored)?;
    frame::write(stream, FrameKind::Record, &contents(stored, &bodies)?, within)?;
    for piece in bodies.iter().flat_map(|(_, body)| body.chunks(SOCKET_PIECE_BYTES)) {
        frame::write(stream, FrameKind::Body, piece, within)?;
    }
    Ok(())
}

/// Puts a record behind other frames that are written together. Returns false for one with bodies outside it, which may be
/// large.
pub(crate) fn push_record(frames: &mut Vec<u8>, record: &NextRecord) -> io::Result<bool> {
    match record {
        // Not decoded: it goes on as its author encoded it.
        NextRecord::Published(published) => {
            let encoded = published.encoded();
            if !encoded.detached().is_empty() {
                return Ok(false);
            }
            put_bytes(frames, record.position(), encoded.hash(), encoded.bytes())
        }
        NextRecord::Stored(stored) => put_stored(frames, stored),
    }
}

/// Puts a record that was read behind other frames, as [`put`] does.
pub(crate) fn put_stored(frames: &mut Vec<u8>, stored: &StoredRecord) -> io::Result<bool> {
    if !detached(stored)?.is_empty() {
        return Ok(false);
    }
    put_bytes(frames, stored.position, stored.hash, &stored.bytes)
}

fn put_bytes(frames: &mut Vec<u8>, position: Position, hash: Digest, bytes: &[u8]) -> io::Result<bool> {
    let (size, bodies) = (length(bytes.len())?.to_be_bytes(), [0; 4]);
    frame::put_parts(
        frames,
        FrameKind::Record,
        &[&position.0.to_be_bytes(), &hash.0, &size, bytes, &bodies],
    )?;
    Ok(true)
}

/// Returns the contents of the frame `Record`.
fn contents(stored: &StoredRecord, bodies: &[(usize, &[u8])]) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(stored.bytes.len() + 48 + bodies.len() * 12);
    head.extend_from_slice(&stored.position.0.to_be_bytes());
    head.extend_from_slice(&stored.hash.0);
    head.extend_from_slice(&length(stored.bytes.len())?.to_be_bytes());
    head.extend_from_slice(&stored.bytes);
    head.extend_from_slice(&length(bodies.len())?.to_be_bytes());
    for (number, body) in bodies {
        head.extend_from_slice(&length(*number)?.to_be_bytes());
        head.extend_from_slice(&(body.len() as u64).to_be_bytes());
    }
    Ok(head)
}

/// Returns the bodies that are not in the record's bytes, with the numbers of their events.
fn detached(stored: &StoredRecord) -> io::Result<Vec<(usize, &[u8])>> {
    let view = RecordView::peek(&stored.bytes).map_err(wrong)?;
    let mut bodies = Vec::new();
    for (number, (event, kept)) in view.events().zip(&stored.record.events).enumerate() {
        if event.map_err(wrong)?.body.is_none()
            && let Some(body) = kept.body()
        {
            bodies.push((number, body));
        }
    }
    Ok(bodies)
}

fn length(count: usize) -> io::Result<u32> {
    u32::try_from(count).map_err(wrong)
}

fn wrong(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a record cannot be read: {error}"))
}

/// Reads a record whose frame `Record` has come, and the frames of its bodies, which `next` returns. It is compared with its hash and its
/// bodies with their digests, as in any other read. The inner error is that of a record that only a newer release can decode: its
/// bodies are taken all the same, since the next word comes behind them.
pub(crate) fn read(
    head: &[u8],
    next: &mut dyn FnMut() -> io::Result<Option<Frame>>,
) -> io::Result<Result<StoredRecord, ReadError>> {
    let cut = || wrong("its frame is cut off");
    let (position, rest) = head.split_first_chunk::<8>().ok_or_else(cut)?;
    let (hash, rest) = rest.split_first_chunk::<32>().ok_or_else(cut)?;
    let (bytes, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let (bytes, rest) = rest.split_at_checked(u32::from_be_bytes(*bytes) as usize).ok_or_else(cut)?;
    let (count, mut table) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let (position, hash) = (Position(u64::from_be_bytes(*position)), Digest(*hash));
    let mut decoded = decode(bytes, hash, position)?;
    for _ in 0..u32::from_be_bytes(*count) {
        let (number, rest) = table.split_first_chunk::<4>().ok_or_else(cut)?;
        let (bytes, rest) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
        table = rest;
        let body = read_body(u64::from_be_bytes(*bytes), next)?;
        if let Ok(record) = &mut decoded {
            record.put_body(u32::from_be_bytes(*number) as usize, body).map_err(wrong)?;
        }
    }
    let record = match decoded {
        Ok(record) => record,
        Err(error) => return Ok(Err(error)),
    };
    record.check_bodies().map_err(wrong)?;
    Ok(Ok(StoredRecord { position, hash, record, bytes: Arc::from(bytes) }))
}

/// Decodes a record, without the bodies that are stored outside it, and compares it with its hash.
fn decode(bytes: &[u8], hash: Digest, position: Position) -> io::Result<Result<Record, ReadError>> {
    let view = match RecordView::peek(bytes) {
        Ok(view) => view,
        Err(error) => return newer(&error, None, position).map(Err),
    };
    if view.leaf_hash() != hash {
        return Err(wrong("it does not have its leaf hash"));
    }
    match Record::of_view(&view) {
        Ok(record) => Ok(Ok(record)),
        Err(error) => newer(&error, Some(&view), position).map(Err),
    }
}

/// Returns the error of a record that a newer release wrote. Any other that cannot be decoded is an error of the link: what the
/// program sends it has read and compared before.
fn newer(error: &RecordError, view: Option<&RecordView<'_>>, position: Position) -> io::Result<ReadError> {
    if !error.is_newer() {
        return Err(wrong(error));
    }
    Ok(ReadError::Newer {
        what: error.to_string(),
        stream: view.and_then(|view| StreamId::parse(view.stream).ok()),
        version: view.map(|view| view.first_version),
        position: Some(position),
    })
}

fn read_body(bytes: u64, next: &mut dyn FnMut() -> io::Result<Option<Frame>>) -> io::Result<Vec<u8>> {
    let mut body: Vec<u8> = Vec::new();
    while (body.len() as u64) < bytes {
        match next()? {
            Some(Frame { kind: FrameKind::Body, bytes }) if !bytes.is_empty() => {
                body.extend_from_slice(&bytes);
            }
            Some(_) => return Err(wrong("a piece of a body is missing")),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
    if body.len() as u64 == bytes { Ok(body) } else { Err(wrong("a body is longer than stated")) }
}
