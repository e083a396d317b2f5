//! Stream names, versions, positions and ids. No id is generated here: ids and times arrive through [`Mint`].

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::ID_BYTES_MAX;

/// The only source of new ids and times in the pure crate, implemented by code that has a clock and
/// randomness.
pub trait Mint {
    /// Returns a new id that begins with `prefix`, in Protolink's form `<prefix><UTC stamp>_<8 hex>`.
    fn id(&mut self, prefix: &str) -> String;
    /// Returns a new id in plain UUID form, as Protolink gives to LLM messages.
    fn uuid(&mut self) -> String;
    /// Returns the current time in Protolink's form, `2026-11-21T07:03:20.123456+00:00`.
    fn timestamp(&mut self) -> String;
}

/// The reason why a text cannot be an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The id is empty.
    #[error("the id is empty; give it 1 to {ID_BYTES_MAX} bytes")]
    Empty,
    /// The id is too long.
    #[error("the id has {bytes} bytes; the limit is {ID_BYTES_MAX}")]
    TooLong {
        /// The length in bytes.
        bytes: usize,
    },
    /// The id holds a control character.
    #[error("the id holds the control character U+{code:04X} at byte {at}; use printable characters")]
    Control {
        /// The character's code point.
        code: u32,
        /// The byte index of the character.
        at: usize,
    },
    /// The text has not the form `category-agent/id`.
    #[error("`{0}` is not a stream id; expected `task-<agent>/<id>`, percent-encoded")]
    NotAStream(String),
}

/// Checks a caller's id: 1 to 200 bytes, no control characters.
///
/// # Errors
/// [`IdError`], naming the broken rule.
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

/// The id of a log, drawn when it is created. Its exports and copies keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LogId(pub [u8; 16]);

impl LogId {
    /// Parses the printed form.
    pub fn parse(text: &str) -> Option<Self> {
        let canonical = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        u128::from_str_radix(text, 16).ok().filter(|_| canonical).map(|id| Self(id.to_be_bytes()))
    }
}

impl fmt::Display for LogId {
    /// Prints 32 hexadecimal digits, lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The kind of subject whose events a stream holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// A task.
    Task,
    /// A conversation session.
    Session,
    /// The values that a tool keeps.
    Tool,
}

impl Category {
    /// Every category that this version knows.
    pub const ALL: [Self; 3] = [Self::Task, Self::Session, Self::Tool];

    /// Returns the word with which the names of its streams begin.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Session => "session",
            Self::Tool => "tool",
        }
    }

    /// The beginning of its streams' names that no other category's streams share.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Task => "task-",
            Self::Session => "session-",
            Self::Tool => "tool-",
        }
    }

    /// The category of the stream of this name; none for a category that this version does not know.
    pub fn of(stream: &str) -> Option<Self> {
        let (word, _) = stream.split_once('-')?;
        Self::ALL.into_iter().find(|category| category.as_str() == word)
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of one actor's stream: `<category>-<agent>/<id>`, agent and id percent-encoded, so that the first
/// `-` and the only `/` separate the fields unambiguously.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(Arc<str>);

impl StreamId {
    /// Returns the stream id of a task.
    ///
    /// # Errors
    /// [`IdError`] if `agent` or `id` cannot be an id.
    pub fn task(agent: &str, id: &str) -> Result<Self, IdError> {
        Self::of(Category::Task.as_str(), agent, id)
    }

    /// Returns the stream id of a conversation session.
    ///
    /// # Errors
    /// [`IdError`] if `agent` or `id` cannot be an id.
    pub fn session(agent: &str, id: &str) -> Result<Self, IdError> {
        Self::of(Category::Session.as_str(), agent, id)
    }

    /// Returns the stream id of a tool's store.
    ///
    /// # Errors
    /// [`IdError`] if `agent` or `name` cannot be an id.
    pub fn tool(agent: &str, name: &str) -> Result<Self, IdError> {
        Self::of(Category::Tool.as_str(), agent, name)
    }

    fn of(category: &str, agent: &str, id: &str) -> Result<Self, IdError> {
        check_id(agent)?;
        check_id(id)?;
        Ok(Self(format!("{category}-{}/{}", encode(agent), encode(id)).into()))
    }

    /// Parses a stream id.
    ///
    /// # Errors
    /// [`IdError::NotAStream`] if it is not in canonical form.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::NotAStream(text.chars().take(80).collect());
        let (category, rest) = text.split_once('-').ok_or_else(wrong)?;
        let (agent, id) = rest.split_once('/').ok_or_else(wrong)?;
        let known = !category.is_empty() && category.bytes().all(|b| b.is_ascii_lowercase());
        if known && stands_for_itself(agent) && stands_for_itself(id) {
            // The common case, taken for nearly every record read: nothing needs to be decoded.
            return Ok(Self(text.into()));
        }
        let agent = decode(agent).ok_or_else(wrong)?;
        let id = decode(id).ok_or_else(wrong)?;
        let stream = Self::of(category, &agent, &id)?;
        if known && &*stream.0 == text { Ok(stream) } else { Err(wrong()) }
    }

    /// Returns the whole text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the stream's category; `None` for a category that this version does not know.
    pub fn category(&self) -> Option<Category> {
        Category::of(&self.0)
    }

    /// Returns the agent's name, decoded.
    pub fn agent(&self) -> String {
        self.components().map_or_else(String::new, |(agent, _)| decode(agent).unwrap_or_default())
    }

    /// Returns the caller's own id of the task or session, or the tool's name, decoded.
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

/// Whether a byte is an unreserved character of RFC 3986.
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

/// The version of an event in its stream: 0 is the empty stream, the first event has 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Version(pub u64);

/// The position of an event in the whole log, counted in events: 0 is before all, the first event has 1.
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
    /// The stream does not exist yet.
    NoStream,
    /// The stream ends with exactly this version.
    Exact(Version),
}

impl ExpectedVersion {
    /// Returns the condition that the stream still ends at this version.
    pub fn at(version: Version) -> Self {
        if version == Version(0) { Self::NoStream } else { Self::Exact(version) }
    }

    /// Returns the version that the stream must have; 0 if it must not exist.
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
    /// Returns the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self::of_parts(&[bytes])
    }

    /// Returns the digest of the concatenated parts.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        Self::of_all(parts.iter().copied())
    }

    /// Returns the digest of the concatenated parts of an iterator.
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
            let parts = (stream.category(), stream.agent(), stream.id());
            assert_eq!(parts, (Some(Category::Task), agent.into(), id.into()));
            assert_eq!(StreamId::parse(stream.as_str()).unwrap(), stream);
        }
    }

    #[test]
    fn a_category_is_told_by_the_name_of_its_streams() {
        for category in Category::ALL {
            assert_eq!(Category::of(&format!("{}a/b", category.prefix())), Some(category));
            assert_eq!(category.prefix(), format!("{category}-"));
        }
        assert_eq!(StreamId::parse("flow-a/b").unwrap().category(), None);
        assert_eq!(Category::of("tasks-a/b"), None);
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
    fn a_log_id_is_read_back_from_its_printed_form_and_from_no_other() {
        let id = LogId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(id.to_string(), "000102030405060708090a0b0c0d0eff");
        assert_eq!(LogId::parse(&id.to_string()), Some(id));
        for wrong in ["", "ff", "000102030405060708090A0B0C0D0EFF", "+00102030405060708090a0b0c0d0eff"] {
            assert_eq!(LogId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_id_has_1_to_200_bytes_and_no_control_characters() {
        assert_eq!(check_id(""), Err(IdError::Empty));
        assert_eq!(check_id(&"x".repeat(201)), Err(IdError::TooLong { bytes: 201 }));
        assert_eq!(check_id("a\nb"), Err(IdError::Control { code: 10, at: 1 }));
        assert_eq!(check_id(&"x".repeat(200)), Ok(()));
    }
}
