//! Frames: what goes through a socket in either direction. Each read and write of one has a deadline.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | length of what follows, big-endian |
//! | 1 | kind |
//! | n | contents |

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The bytes before the contents of a frame.
const HEAD_BYTES: usize = 5;

/// The bytes that are read ahead at once.
const AHEAD_BYTES: usize = 16 * 1024;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// A request or an answer as JSON.
    Json,
    /// A record, without the bodies that are stored outside it.
    Record,
    /// A piece of such a body.
    Body,
}

impl FrameKind {
    const fn code(self) -> u8 {
        match self {
            Self::Json => b'J',
            Self::Record => b'R',
            Self::Body => b'B',
        }
    }

    fn of_code(code: u8) -> Option<Self> {
        [Self::Json, Self::Record, Self::Body].into_iter().find(|kind| kind.code() == code)
    }
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) bytes: Vec<u8>,
}

/// A stream whose reads or writes together must end within a time: a client that sends a byte now and then cannot keep
/// a connection busy.
struct TimedStream<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl TimedStream<'_> {
    fn time_left(&self) -> io::Result<Option<Duration>> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

/// Gives an expired time-out of a socket its own kind.
fn timed_out(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

impl Read for TimedStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.time_left()?)?;
        let mut stream = self.stream;
        stream.read(buffer).map_err(timed_out)
    }
}

impl Write for TimedStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.time_left()?)?;
        let mut stream = self.stream;
        stream.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a frame.
pub(crate) fn write(stream: &UnixStream, kind: FrameKind, bytes: &[u8], within: Duration) -> io::Result<()> {
    let mut frame = Vec::with_capacity(bytes.len() + HEAD_BYTES);
    push_frame(&mut frame, kind, bytes)?;
    write_all(stream, &frame, within)
}

/// Puts a frame behind others that are written together.
pub(crate) fn push_frame(frames: &mut Vec<u8>, kind: FrameKind, bytes: &[u8]) -> io::Result<()> {
    put_parts(frames, kind, &[bytes])
}

/// Puts a frame whose contents are these parts behind others that are written together.
pub(crate) fn put_parts(frames: &mut Vec<u8>, kind: FrameKind, parts: &[&[u8]]) -> io::Result<()> {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(bytes + 1).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    frames.extend_from_slice(&length.to_be_bytes());
    frames.push(kind.code());
    for part in parts {
        frames.extend_from_slice(part);
    }
    Ok(())
}

/// Writes frames.
pub(crate) fn write_all(stream: &UnixStream, frames: &[u8], within: Duration) -> io::Result<()> {
    TimedStream { stream, until: Instant::now() + within }.write_all(frames)
}

/// Returns the kind of a frame, and the length of its contents.
fn head([a, b, c, d, code]: [u8; HEAD_BYTES], limit: usize) -> io::Result<(FrameKind, usize)> {
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let kind =
        FrameKind::of_code(code).ok_or_else(|| wrong(format!("a frame has the unknown kind {code}")))?;
    let length = length.checked_sub(1).ok_or_else(|| wrong("a frame is empty".to_owned()))?;
    if length > limit {
        return Err(wrong(format!("a frame of {length} bytes is over the limit of {limit}")));
    }
    Ok((kind, length))
}

/// Reads the next frame, of at most `limit` bytes; `None` if the other side has closed the connection before it.
pub(crate) fn read(stream: &UnixStream, limit: usize, within: Duration) -> io::Result<Option<Frame>> {
    let mut from = TimedStream { stream, until: Instant::now() + within };
    let mut begin = [0; HEAD_BYTES];
    let mut filled = 0;
    while let Some(rest) = begin.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let (kind, length) = head(begin, limit)?;
    // Grows with what comes: a length alone takes no memory.
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(Frame { kind, bytes }))
}

/// The frames that come through a connection, read ahead: several of them often come together, and each read of its own would
/// cost as much as all of them.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    bytes: Vec<u8>,
    /// The number of bytes that were taken.
    taken: usize,
}

impl FrameReader {
    /// Returns the next frame, of at most `limit` bytes; `None` if the other side has closed the connection before it.
    pub(crate) fn read(
        &mut self,
        stream: &UnixStream,
        limit: usize,
        within: Duration,
    ) -> io::Result<Option<Frame>> {
        let mut from = TimedStream { stream, until: Instant::now() + within };
        loop {
            if let Some(frame) = self.next_frame(limit)? {
                return Ok(Some(frame));
            }
            self.bytes.drain(..self.taken);
            self.taken = 0;
            // Grows with what comes: a length alone takes no memory.
            let mut piece = [0; AHEAD_BYTES];
            match from.read(&mut piece) {
                Ok(0) if self.bytes.is_empty() => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.bytes.extend_from_slice(piece.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the next frame if all of it is there.
    fn next_frame(&mut self, limit: usize) -> io::Result<Option<Frame>> {
        let there = self.bytes.get(self.taken..).unwrap_or_default();
        let Some((begin, rest)) = there.split_first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let (kind, length) = head(*begin, limit)?;
        let Some(contents) = rest.get(..length) else { return Ok(None) };
        let bytes = contents.to_vec();
        self.taken += HEAD_BYTES + length;
        Ok(Some(Frame { kind, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_come_together_or_in_pieces_are_read_one_by_one() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut frames = Vec::new();
        let sent =
            [(FrameKind::Json, 2), (FrameKind::Record, 0), (FrameKind::Body, 70_000), (FrameKind::Record, 9)];
        for (kind, length) in sent {
            push_frame(&mut frames, kind, &vec![kind.code(); length]).unwrap();
        }
        let mut incoming = FrameReader::default();
        let reader = std::thread::spawn(move || {
            let mut read = || incoming.read(&there, 100_000, Duration::from_secs(20));
            let found: Vec<_> = std::iter::from_fn(|| read().transpose()).map(Result::unwrap).collect();
            assert!(matches!(read(), Ok(None)), "the end of the connection is no error between frames");
            found
        });
        for piece in frames.chunks(7_001) {
            write_all(&here, piece, SOON).unwrap();
        }
        drop(here);
        let found = reader.join().unwrap();
        assert_eq!(found.iter().map(|frame| (frame.kind, frame.bytes.len())).collect::<Vec<_>>(), sent);
        assert!(found.iter().all(|frame| frame.bytes.iter().all(|byte| *byte == frame.kind.code())));
    }

    #[test]
    fn what_is_cut_off_too_long_or_of_no_kind_is_an_error_when_read_ahead_too() {
        let read = |bytes: &[u8]| {
            let (here, there) = UnixStream::pair().unwrap();
            write_all(&here, bytes, SOON).unwrap();
            drop(here);
            let mut incoming = FrameReader::default();
            (0..2).map(|_| incoming.read(&there, 10, SOON)).find(Result::is_err)
        };
        let mut whole = Vec::new();
        push_frame(&mut whole, FrameKind::Json, b"{}").unwrap();
        assert!(read(&whole).is_none());
        let kind = |bytes: &[u8]| read(bytes).map(|error| error.unwrap_err().kind());
        assert_eq!(kind(&whole[..6]), Some(io::ErrorKind::UnexpectedEof));
        assert_eq!(kind(&[0, 0, 0, 12, b'J']), Some(io::ErrorKind::InvalidData), "over the limit");
        assert_eq!(kind(&[0, 0, 0, 0, b'J']), Some(io::ErrorKind::InvalidData), "empty");
        assert_eq!(kind(&[0, 0, 0, 2, b'?', 0]), Some(io::ErrorKind::InvalidData), "of no kind");
    }

    const SOON: Duration = Duration::from_millis(200);

    #[test]
    fn a_frame_comes_as_it_was_sent_and_an_end_between_frames_is_no_error() {
        let (here, there) = UnixStream::pair().unwrap();
        for (kind, bytes) in [
            (FrameKind::Json, b"{}".to_vec()),
            (FrameKind::Record, vec![]),
            (FrameKind::Body, vec![7; 70_000]),
        ] {
            write(&here, kind, &bytes, SOON).unwrap();
            assert_eq!(read(&there, 70_000, SOON).unwrap(), Some(Frame { kind, bytes }));
        }
        drop(here);
        assert_eq!(read(&there, 10, SOON).unwrap(), None);
    }

    #[test]
    fn a_frame_that_is_too_long_cut_off_unknown_or_slow_is_an_error() {
        for (sent, kind) in [
            (&[0xff, 0xff, 0xff, 0xff, b'J'][..], io::ErrorKind::InvalidData),
            (&[0, 0, 0, 0, b'J'], io::ErrorKind::InvalidData),
            (&[0, 0, 0, 2, b'x', 1], io::ErrorKind::InvalidData),
            (&[0, 0, 0, 9, b'J', 1], io::ErrorKind::UnexpectedEof),
            (&[0, 0], io::ErrorKind::UnexpectedEof),
        ] {
            let (mut here, there) = UnixStream::pair().unwrap();
            here.write_all(sent).unwrap();
            drop(here);
            assert_eq!(read(&there, 100, SOON).unwrap_err().kind(), kind, "{sent:?}");
        }
        let (mut here, there) = UnixStream::pair().unwrap();
        here.write_all(&[0, 0, 0, 9, b'J', 1]).unwrap();
        assert_eq!(read(&there, 100, SOON).unwrap_err().kind(), io::ErrorKind::TimedOut);
        // Nobody reads: the socket's buffer fills up.
        let sent = (0..1_000).map(|_| write(&there, FrameKind::Body, &[0; 10_000], SOON));
        let refused = sent.into_iter().find_map(Result::err).unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    }
}
