//! What travels beside commands and events: who, when, why.

use std::fmt;
use std::time::Duration;

use crate::id::{Digest, Position, StreamId, Version};

/// How far the name of a principal may be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Basis {
    /// The caller says so.
    #[default]
    Asserted,
    /// A credential was checked.
    Authenticated,
}

/// Who caused a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Principal {
    /// Name; empty when nobody said.
    pub name: String,
    /// How far it may be trusted.
    pub basis: Basis,
}

/// A point in time: microseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The moment so many milliseconds later.
    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Self {
        let micros = i64::try_from(millis.saturating_mul(1_000)).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// The moment so much later.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)))
    }

    /// How much time has passed since an earlier moment; none if it is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Whole milliseconds that have passed since an earlier moment; 0 if it is later.
    pub fn millis_since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0) / 1_000).unwrap_or(0)
    }
}

impl fmt::Display for Timestamp {
    /// Protolink's form: `2026-11-21T07:03:20.123456+00:00`; no fraction when it is exactly zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(at) = jiff::Timestamp::from_microsecond(self.0) else {
            return write!(f, "{}us", self.0);
        };
        let text = if self.0.rem_euclid(1_000_000) == 0 {
            "%Y-%m-%dT%H:%M:%S+00:00"
        } else {
            "%Y-%m-%dT%H:%M:%S.%6f+00:00"
        };
        write!(f, "{}", at.strftime(text))
    }
}

/// Who, when and why: the same for all events of one command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// When the command was accepted.
    pub at: Timestamp,
    /// The command's own id. The same id with the same body gets the first answer again.
    pub command_id: String,
    /// SHA-256 of the command's body, to tell a repetition from a clash.
    pub command_digest: Digest,
    /// The one event or command that directly caused this; empty if a caller did.
    pub causation_id: String,
    /// The same for all that one outside request set off.
    pub correlation_id: String,
    /// Who.
    pub principal: Principal,
}

/// A command on its way to its actor.
#[derive(Debug, Clone)]
pub struct CommandEnvelope<C> {
    /// What is wished.
    pub command: C,
    /// Who, when, why.
    pub metadata: Metadata,
}

/// An event as stored: with its place and its metadata.
#[derive(Debug, Clone)]
pub struct Recorded<E> {
    /// The stream it belongs to.
    pub stream: StreamId,
    /// Its place in the stream.
    pub version: Version,
    /// Its place in the whole log.
    pub position: Position,
    /// Who, when, why.
    pub metadata: Metadata,
    /// What happened.
    pub event: E,
}

/// The answer to a command: where its last event stands.
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
    }
}
