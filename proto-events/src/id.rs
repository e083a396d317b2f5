//! Names of streams, places in them, and ids. No id is made here: [`Mint`] is the door through which made
//! ids and times arrive.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::ID_BYTES_MAX;

/// The only way by which new ids and times reach the pure crate: whoever has a clock and randomness
/// implements it.
pub trait Mint {
    /// A new id that begins with `prefix`, in Protolink's form `<prefix><UTC stamp>_<8 hex>`.
    fn id(&mut self, prefix: &str) -> String;
    /// A new id in plain UUID form, as Protolink gives to LLM messages.
    fn uuid(&mut self) -> String;
    /// The time now in Protolink's form, `2026-11-21T07:03:20.123456+00:00`.
    fn timestamp(&mut self) -> String;
}

/// Why a text cannot be an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The id has no character.
    #[error("the id is empty; give it 1 to {ID_BYTES_MAX} bytes")]
    Empty,
    /// The id is too long.
    #[error("the id has {bytes} bytes; the limit is {ID_BYTES_MAX}")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The id holds a control character.
    #[error("the id holds the control character U+{code:04X} at byte {at}; use printable characters")]
    Control {
        /// The character's code point.
        code: u32,
        /// Where it stands.
        at: usize,
    },
    /// The text is not `category-agent/id`.
    #[error("`{0}` is not a stream id; expected `task-<agent>/<id>`, percent-encoded")]
    NotAStream(String),
}

/// Checks a caller's id: 1 to 200 bytes, no control characters.
///
/// # Errors
/// [`IdError`], saying which rule it breaks.
pub fn check_id(id: &str) -> Result<(), IdError> {
    if id.is_empty() {
        return Err(IdError::Empty);
    }
    if id.len() > ID_BYTES_MAX {
        return Err(IdError::TooLong { bytes: id.len() });
    }
    match id.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, c)) => Err(IdError::Control { code: c.into(), at }),
        None => Ok(()),
    }
}

/// The name of one actor's stream: `<category>-<agent>/<id>`, agent and id percent-encoded, so that the
/// first `-` and the only `/` split it one way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(Arc<str>);

impl StreamId {
    /// The stream of a task.
    ///
    /// # Errors
    /// [`IdError`] if `agent` or `id` cannot be an id.
    pub fn task(agent: &str, id: &str) -> Result<Self, IdError> {
        Self::of("task", agent, id)
    }

    /// The stream of a conversation session.
    ///
    /// # Errors
    /// [`IdError`] if `agent` or `id` cannot be an id.
    pub fn session(agent: &str, id: &str) -> Result<Self, IdError> {
        Self::of("session", agent, id)
    }

    /// The stream of what a tool keeps.
    ///
    /// # Errors
    /// [`IdError`] if `agent` or `name` cannot be an id.
    pub fn tool(agent: &str, name: &str) -> Result<Self, IdError> {
        Self::of("tool", agent, name)
    }

    fn of(category: &str, agent: &str, id: &str) -> Result<Self, IdError> {
        check_id(agent)?;
        check_id(id)?;
        Ok(Self(format!("{category}-{}/{}", encode(agent), encode(id)).into()))
    }

    /// Reads a stream id back from its text.
    ///
    /// # Errors
    /// [`IdError::NotAStream`] if it is not in canonical form.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::NotAStream(text.chars().take(80).collect());
        let (category, rest) = text.split_once('-').ok_or_else(wrong)?;
        let (agent, id) = rest.split_once('/').ok_or_else(wrong)?;
        let known = !category.is_empty() && category.bytes().all(|b| b.is_ascii_lowercase());
        if known && stands_for_itself(agent) && stands_for_itself(id) {
            // By far the most, and each record that is read has one: nothing needs to be decoded.
            return Ok(Self(text.into()));
        }
        let agent = decode(agent).ok_or_else(wrong)?;
        let id = decode(id).ok_or_else(wrong)?;
        let stream = Self::of(category, &agent, &id)?;
        if known && &*stream.0 == text { Ok(stream) } else { Err(wrong()) }
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What it is the stream of: `task`, `session` or `tool`.
    pub fn category(&self) -> &str {
        self.0.split_once('-').map_or("", |(category, _)| category)
    }

    /// The agent's name, decoded.
    pub fn agent(&self) -> String {
        self.components().map_or_else(String::new, |(agent, _)| decode(agent).unwrap_or_default())
    }

    /// The caller's own id of the task or session, or the tool's name, decoded.
    pub fn id(&self) -> String {
        self.components().map_or_else(String::new, |(_, id)| decode(id).unwrap_or_default())
    }

    fn components(&self) -> Option<(&str, &str)> {
        self.0.split_once('-')?.1.split_once('/')
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The unreserved characters of RFC 3986.
fn unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Whether a text is an id whose encoded form is the text itself.
fn stands_for_itself(text: &str) -> bool {
    (1..=ID_BYTES_MAX).contains(&text.len()) && text.bytes().all(unreserved)
}

/// Percent-encodes all but the unreserved characters.
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if unreserved(byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(hex(byte >> 4));
            out.push(hex(byte & 15));
        }
    }
    out
}

fn hex(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).map_or('0', |c| c.to_ascii_uppercase())
}

fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

/// A place within one stream. 0 is the empty stream, the first event has 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Version(pub u64);

/// A place in the whole log, counted in events. 0 is before everything, the first event has 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Position(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The condition of an append. Every writer is an actor that knows its stream's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// The stream must not exist yet.
    NoStream,
    /// The stream must end with exactly this version.
    Exact(Version),
}

impl ExpectedVersion {
    /// The condition that a stream still ends where the writer saw it end.
    pub fn at(version: Version) -> Self {
        if version == Version(0) { Self::NoStream } else { Self::Exact(version) }
    }

    /// The version that the stream must have; 0 for none.
    pub fn version(self) -> Version {
        match self {
            Self::NoStream => Version(0),
            Self::Exact(version) => version,
        }
    }
}

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self::of_parts(&[bytes])
    }

    /// The digest of the parts, one after another.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        Self::of_all(parts.iter().copied())
    }

    /// The digest of whatever parts come, one after another.
    pub fn of_all<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        use sha2::Digest as _;
        let mut hasher = sha2::Sha256::new();
        for part in parts {
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_id_splits_one_way_only_whatever_its_parts_hold() {
        for (agent, id) in [("a", "b"), ("a-b", "c/d"), ("a/b", "-c"), ("%2F", "é ☃"), ("x", "a%2Fb")] {
            let stream = StreamId::task(agent, id).unwrap();
            assert_eq!((stream.category(), stream.agent(), stream.id()), ("task", agent.into(), id.into()));
            assert_eq!(StreamId::parse(stream.as_str()).unwrap(), stream);
        }
    }

    #[test]
    fn a_text_that_is_not_canonical_is_no_stream_id() {
        for text in
            ["", "task", "task-a", "task-a/b/c", "task-a/%2f", "task-a/%41", "Task-a/b", "-a/b", "task-/b"]
        {
            assert!(StreamId::parse(text).is_err(), "{text}");
        }
        let long = "x".repeat(ID_BYTES_MAX);
        assert!(StreamId::parse(&format!("task-{long}/{long}")).is_ok());
        assert!(StreamId::parse(&format!("task-{long}x/{long}")).is_err());
        assert!(StreamId::parse(&format!("task-{long}/{long}x")).is_err());
    }

    #[test]
    fn an_id_has_1_to_200_bytes_and_no_control_characters() {
        assert_eq!(check_id(""), Err(IdError::Empty));
        assert_eq!(check_id(&"x".repeat(201)), Err(IdError::TooLong { bytes: 201 }));
        assert_eq!(check_id("a\nb"), Err(IdError::Control { code: 10, at: 1 }));
        assert_eq!(check_id(&"x".repeat(200)), Ok(()));
    }
}
