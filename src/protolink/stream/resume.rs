//! The place in a task's events from which a subscriber continues. Events that follow from the log are counted from the end
//! of a record; the pieces of an answer, which are not in the log, are told by their number of bytes and a checksum, so
//! that what comes next begins where the last piece ended.

use std::fmt;
use std::str::FromStr;

use proto_events::id::Version;

use crate::protolink::stream::event::TaskStreamEvent;

/// A place in a task's events, from which a subscriber continues without a gap and without a repetition, also after a
/// restart. Its text is the version of the task's stream up to which all was told; in the middle of a record, or of an
/// answer, more follows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResumePoint {
    /// All events of the log up to this version were told.
    pub(crate) version: Version,
    /// The events of the next record that were told.
    pub(crate) further: u32,
    /// The part of an answer that was told before the log had the answer.
    pub(crate) told: Option<ToldAnswer>,
}

/// A text that is no [`ResumePoint`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no place in the events of a task")]
pub struct ResumePointError(String);

impl From<Version> for ResumePoint {
    fn from(version: Version) -> Self {
        Self { version, ..Self::default() }
    }
}

impl ResumePoint {
    /// The version up to which all events of the log were told.
    pub fn version(&self) -> Version {
        self.version
    }
}

impl fmt::Display for ResumePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.version.0)?;
        if self.further > 0 {
            write!(f, ".{}", self.further)?;
        }
        match &self.told {
            Some(ToldAnswer { call, attempt, bytes, check }) => {
                write!(f, "~{call:016x}.{attempt}.{bytes}.{check:016x}")
            }
            None => Ok(()),
        }
    }
}

impl FromStr for ResumePoint {
    type Err = ResumePointError;

    fn from_str(text: &str) -> Result<Self, ResumePointError> {
        read(text).ok_or_else(|| ResumePointError(text.chars().take(100).collect()))
    }
}

fn read(text: &str) -> Option<ResumePoint> {
    let (place, told) = text.split_once('~').map_or((text, None), |(place, told)| (place, Some(told)));
    let (version, further) = place.split_once('.').unwrap_or((place, "0"));
    let told = match told {
        Some(told) => Some(read_told(told)?),
        None => None,
    };
    Some(ResumePoint { version: Version(version.parse().ok()?), further: further.parse().ok()?, told })
}

fn read_told(text: &str) -> Option<ToldAnswer> {
    let mut fields = text.split('.');
    let mut next = || fields.next();
    let call = u64::from_str_radix(next()?, 16).ok()?;
    let (attempt, bytes) = (next()?.parse().ok()?, next()?.parse().ok()?);
    let check = u64::from_str_radix(next()?, 16).ok()?;
    fields.next().is_none().then_some(ToldAnswer { call, attempt, bytes, check })
}

/// The beginning of an answer that was told while it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToldAnswer {
    /// The checksum of the call's id.
    call: u64,
    attempt: u32,
    bytes: usize,
    check: u64,
}

/// The pieces told of one attempt's answer.
#[derive(Debug, Clone)]
pub(crate) struct Pieces {
    pub(crate) attempt: u32,
    /// The bytes told.
    pub(crate) bytes: usize,
    check: Checksum,
}

impl Default for Pieces {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Pieces {
    /// Returns that nothing was told of an attempt.
    pub(crate) fn new(attempt: u32) -> Self {
        Self { attempt, bytes: 0, check: Checksum::EMPTY }
    }

    /// Adds a piece.
    pub(crate) fn add(&mut self, text: &str) {
        self.bytes += text.len();
        self.check = self.check.with(text.as_bytes());
    }

    /// Returns the part of an answer that was not told yet; `None` if the answer does not begin with what was told.
    pub(crate) fn unseen_text<'a>(&self, answer: &'a str) -> Option<&'a str> {
        let (told, rest) = answer.split_at_checked(self.bytes)?;
        (Checksum::EMPTY.with(told.as_bytes()) == self.check).then_some(rest)
    }

    /// Returns what was told of the answer to a call.
    pub(crate) fn told_answer(&self, call_id: &str) -> ToldAnswer {
        let call = Checksum::EMPTY.with(call_id.as_bytes()).0;
        ToldAnswer { call, attempt: self.attempt, bytes: self.bytes, check: self.check.0 }
    }
}

impl ToldAnswer {
    /// Returns the pieces told of this attempt; `None` if they are another one's.
    pub(crate) fn of_attempt(&self, call_id: &str, attempt: u32) -> Option<Pieces> {
        let is_this = self.call == Checksum::EMPTY.with(call_id.as_bytes()).0 && self.attempt == attempt;
        is_this.then_some(Pieces { attempt, bytes: self.bytes, check: Checksum(self.check) })
    }
}

/// A checksum (FNV-1a of 64 bits) of a text that arrives in pieces: it shows a mistake, not an intention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Checksum(u64);

impl Checksum {
    const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    fn with(self, bytes: &[u8]) -> Self {
        let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Self(bytes.iter().fold(self.0, step))
    }
}

/// An event for a subscriber, and what it does to the place.
#[derive(Debug)]
pub(crate) struct StreamedEvent {
    pub(crate) event: TaskStreamEvent,
    /// Whether the event follows from the log alone, so that another subscriber gets it too.
    pub(crate) is_fixed: bool,
    /// The part of an answer that was told with this event, until the log has the answer.
    pub(crate) told: Option<ToldAnswer>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_its_text() {
        let mut pieces = Pieces::new(2);
        pieces.add("Grüße");
        let told = Some(pieces.told_answer("call-1"));
        for (point, text) in [
            (ResumePoint::from(Version(7)), Some("7")),
            (ResumePoint { version: Version(7), further: 3, told: None }, Some("7.3")),
            (ResumePoint { version: Version(0), further: 0, told: told.clone() }, None),
            (ResumePoint { version: Version(9), further: 1, told }, None),
        ] {
            let written = point.to_string();
            assert_eq!(text.unwrap_or(&written), written);
            assert_eq!(written.parse(), Ok(point));
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in ["", "x", "-1", "7.", "7.x", "7~", "7~1.2.3", "7~1.2.3.4.5", "99999999999999999999"] {
            assert!(text.parse::<ResumePoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_rest_of_an_answer_begins_where_the_pieces_ended() {
        let mut pieces = Pieces::new(1);
        assert_eq!(pieces.unseen_text("Grüße"), Some("Grüße"));
        pieces.add("Gr");
        pieces.add("ü");
        let again = pieces.told_answer("c").of_attempt("c", 1).unwrap();
        assert_eq!(again.unseen_text("Grüße"), Some("ße"));
        assert_eq!(again.unseen_text("Große"), None);
        assert_eq!(again.unseen_text("Grü"), Some(""));
        assert_eq!(again.unseen_text("G"), None);
        assert!(pieces.told_answer("c").of_attempt("c", 2).is_none());
        assert!(pieces.told_answer("c").of_attempt("d", 1).is_none());
    }
}
