//! Metadata of commands and events: origin, time and cause.

use std::fmt;
use std::time::{Duration, SystemTime};

use jiff::tz::Offset;

use crate::id::{Digest, Position, StreamId, Version};

/// The degree of trust in the name of a principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Basis {
    /// The caller asserts the name.
    #[default]
    Asserted,
    /// A credential was checked.
    Authenticated,
}

impl Basis {
    /// Returns the word in printed output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asserted => "asserted",
            Self::Authenticated => "authenticated",
        }
    }
}

/// The person or program that caused a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Principal {
    /// The name; empty if unknown.
    pub name: String,
    /// The degree of trust in the name.
    pub basis: Basis,
}

impl Principal {
    /// Returns a principal whose name nobody has checked.
    pub fn asserted(name: impl Into<String>) -> Self {
        Self { name: name.into(), basis: Basis::Asserted }
    }

    /// Returns a principal whose credential the caller has checked.
    pub fn authenticated(name: impl Into<String>) -> Self {
        Self { name: name.into(), basis: Basis::Authenticated }
    }
}

/// A name alone is asserted.
impl From<&str> for Principal {
    fn from(name: &str) -> Self {
        Self::asserted(name)
    }
}

/// A name alone is asserted.
impl From<String> for Principal {
    fn from(name: String) -> Self {
        Self::asserted(name)
    }
}

impl fmt::Display for Principal {
    /// Prints the name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A point in time: microseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the time `millis` milliseconds later.
    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Self {
        let micros = i64::try_from(millis.saturating_mul(1_000)).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// Returns the time later by the given duration.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Returns the time passed since an earlier moment; zero if that moment is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns the whole milliseconds passed since an earlier moment; 0 if that moment is later.
    pub fn millis_since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0) / 1_000).unwrap_or(0)
    }
}

/// A time beyond what microseconds can state is the first or the last one that they can.
impl From<SystemTime> for Timestamp {
    fn from(at: SystemTime) -> Self {
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        Self(match at.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => micros(after),
            Err(before) => -micros(before.duration()),
        })
    }
}

impl fmt::Display for Timestamp {
    /// Formats the time as Protolink does: `2026-11-21T07:03:20.123456+00:00`, without a zero fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(at) = jiff::Timestamp::from_microsecond(self.0) else {
            return write!(f, "{}us", self.0);
        };
        let micros = self.0.rem_euclid(1_000_000);
        let at = Offset::UTC.to_datetime(at);
        if !(0..=9_999).contains(&at.year()) {
            let text = if micros == 0 { "%Y-%m-%dT%H:%M:%S+00:00" } else { "%Y-%m-%dT%H:%M:%S.%6f+00:00" };
            return write!(f, "{}", at.strftime(text));
        }
        // By hand: each message has a time, and the general formatter costs ten times as much.
        let (date, time) = (at.date(), at.time());
        let mut text = *b"0000-00-00T00:00:00.000000+00:00";
        put_digits(&mut text, 0, 4, date.year().into());
        put_digits(&mut text, 5, 2, date.month().into());
        put_digits(&mut text, 8, 2, date.day().into());
        put_digits(&mut text, 11, 2, time.hour().into());
        put_digits(&mut text, 14, 2, time.minute().into());
        put_digits(&mut text, 17, 2, time.second().into());
        put_digits(&mut text, 20, 6, micros);
        let text = std::str::from_utf8(&text).unwrap_or_default();
        match text.split_once('.') {
            Some((whole, _)) if micros == 0 => write!(f, "{whole}+00:00"),
            _ => f.write_str(text),
        }
    }
}

/// Writes a number of this many digits at a place of a text.
fn put_digits(text: &mut [u8], at: usize, digits: usize, mut number: i64) {
    for digit in text.iter_mut().skip(at).take(digits).rev() {
        *digit = u8::try_from(number % 10).map_or(b'0', |number| b'0' + number);
        number /= 10;
    }
}

/// The salted digest of a command's content. Its salt comes from the salts of the record's events: once one of
/// them is erased, the digest no longer lets anybody guess a short content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandDigest {
    /// The SHA-256 of the salts of the record's events, in their order.
    pub salt: Digest,
    /// The SHA-256(salt ‖ content).
    pub digest: Digest,
}

impl CommandDigest {
    /// Returns the digest of a content in a record whose events have these salts.
    pub fn new<'a>(salts: impl IntoIterator<Item = &'a [u8; 16]>, content: &[u8]) -> Self {
        let salt = Self::salt(salts);
        Self { salt, digest: Digest::of_parts(&[&salt.0, content]) }
    }

    /// Returns the salt for a record whose events have these salts.
    pub fn salt<'a>(salts: impl IntoIterator<Item = &'a [u8; 16]>) -> Digest {
        Digest::of_all(salts.into_iter().map(<[u8; 16]>::as_slice))
    }

    /// Whether this is the digest of the content.
    pub fn matches(&self, content: &[u8]) -> bool {
        Digest::of_parts(&[&self.salt.0, content]) == self.digest
    }
}

/// The first character of the ids of commands that the system sends to itself; no caller's id has it.
pub const OWN_COMMAND: char = '~';

/// The first characters of the ids that are made for commands whose caller names none. Such an id comes twice only when
/// its command's answer was in doubt, so that it is looked for in the log and not remembered.
pub const MADE_COMMAND: &str = "cmd-";

/// Whether an id was made for a command whose caller named none: [`MADE_COMMAND`] and 32 hexadecimal digits.
#[allow(
    clippy::needless_bitwise_bool,
    reason = "no branch: all digits are compared, several at a time, also after one that is none"
)]
pub fn is_made_command(id: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() | (b'a'..=b'f').contains(&byte);
    let digits = id.strip_prefix(MADE_COMMAND).map(str::as_bytes);
    digits
        .and_then(|digits| <&[u8; 32]>::try_from(digits).ok())
        .is_some_and(|digits| digits.iter().fold(true, |all, byte| all & is_digit(*byte)))
}

/// The first characters of the ids of the system's own commands that may come twice: each submits a task that another agent
/// asks for, and its content is kept as that of a caller's command is.
pub const DELEGATED_COMMAND: &str = "~delegated:";

/// Origin, time and cause: equal for all events of one command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// The time at which the command was accepted.
    pub at: Timestamp,
    /// The command's own id. The same id with the same body returns the first result again.
    pub command_id: String,
    /// The salted digest of the command's content, which distinguishes a repetition from a clash; only of a
    /// command whose id its caller chose.
    pub command_digest: Option<CommandDigest>,
    /// The one event or command that directly caused this one; empty if a caller did.
    pub causation_id: String,
    /// The correlation id, equal for everything that one outside request caused.
    pub correlation_id: String,
    /// The principal that caused the command.
    pub principal: Principal,
}

/// An event as stored, with its version, position and metadata.
#[derive(Debug, Clone)]
pub struct RecordedEvent<E> {
    /// The stream of the event.
    pub stream: StreamId,
    /// The version in the stream.
    pub version: Version,
    /// The event's position in the whole log.
    pub position: Position,
    /// The metadata of the record.
    pub metadata: Metadata,
    /// The event itself.
    pub event: E,
}

/// The result of a command: the version and position of its last event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The stream's version after the command.
    pub version: Version,
    /// The position of the command's last event; of the stream's last event when it appended none.
    pub position: Position,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_prints_as_protolink_prints_it() {
        assert_eq!(Timestamp(1_795_000_000_123_456).to_string(), "2026-11-18T11:06:40.123456+00:00");
        assert_eq!(Timestamp(1_795_000_000_000_000).to_string(), "2026-11-18T11:06:40+00:00");
        assert_eq!(Timestamp(i64::MAX).to_string(), format!("{}us", i64::MAX));
    }

    #[test]
    fn each_time_prints_as_the_general_formatter_prints_it() {
        let (first, last) = (-377_705_023_201_000_000_i64, 253_402_207_200_999_999_i64);
        let step = (last / 20_000) - (first / 20_000);
        let spread = (0..20_000).map(|n| first + n * step + n % 7 * 1_000_003);
        let years = (-1..=10_000).map(|year| (year - 1_970) * 31_556_952_000_000);
        let near =
            [0, -1, 1, 999_999, 1_000_000, first, last, -62_167_219_200_000_000, -62_167_219_200_000_001];
        for micros in spread.chain(years).chain(near) {
            let Ok(at) = jiff::Timestamp::from_microsecond(micros) else { continue };
            let whole = micros.rem_euclid(1_000_000) == 0;
            let text = if whole { "%Y-%m-%dT%H:%M:%S+00:00" } else { "%Y-%m-%dT%H:%M:%S.%6f+00:00" };
            assert_eq!(Timestamp(micros).to_string(), at.strftime(text).to_string(), "{micros}");
        }
    }
}
