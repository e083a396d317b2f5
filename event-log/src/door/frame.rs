//! Frames: what goes through a door in either direction. Each read and write of one has a deadline.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | length of what follows, big-endian |
//! | 1 | kind |
//! | n | contents |

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A request or an answer as JSON.
    Json,
    /// A record, without the bodies that are stored outside it.
    Record,
    /// A piece of such a body.
    Body,
}

impl Kind {
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
    pub(crate) kind: Kind,
    pub(crate) bytes: Vec<u8>,
}

/// A stream whose reads or writes together must end within a time: a client that sends a byte now and then cannot keep
/// a connection busy.
struct Timed<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
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

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        let mut stream = self.stream;
        stream.read(buffer).map_err(timed_out)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        let mut stream = self.stream;
        stream.write(bytes).map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a frame.
pub(crate) fn write(stream: &UnixStream, kind: Kind, bytes: &[u8], within: Duration) -> io::Result<()> {
    let length = u32::try_from(bytes.len() + 1).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut frame = Vec::with_capacity(bytes.len() + 5);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.push(kind.code());
    frame.extend_from_slice(bytes);
    Timed { stream, until: Instant::now() + within }.write_all(&frame)
}

/// Reads the next frame, of at most `limit` bytes; `None` if the other side has closed the connection before it.
pub(crate) fn read(stream: &UnixStream, limit: usize, within: Duration) -> io::Result<Option<Frame>> {
    let mut from = Timed { stream, until: Instant::now() + within };
    let mut head = [0; 5];
    let mut filled = 0;
    while let Some(rest) = head.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let [a, b, c, d, code] = head;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let kind = Kind::of_code(code).ok_or_else(|| wrong(format!("a frame has the unknown kind {code}")))?;
    let length = length.checked_sub(1).ok_or_else(|| wrong("a frame is empty".to_owned()))?;
    if length > limit {
        return Err(wrong(format!("a frame of {length} bytes is over the limit of {limit}")));
    }
    // Grows with what comes: a length alone takes no memory.
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(Frame { kind, bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(200);

    #[test]
    fn a_frame_comes_as_it_was_sent_and_an_end_between_frames_is_no_error() {
        let (here, there) = UnixStream::pair().unwrap();
        for (kind, bytes) in
            [(Kind::Json, b"{}".to_vec()), (Kind::Record, vec![]), (Kind::Body, vec![7; 70_000])]
        {
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
        let sent = (0..1_000).map(|_| write(&there, Kind::Body, &[0; 10_000], SOON));
        let refused = sent.into_iter().find_map(Result::err).unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    }
}
