//! The names of streams: category, agent and id, so that each name splits one way only.

use std::fmt;
use std::sync::Arc;

use crate::id::check::{IdError, check_id};
use crate::limits::ID_BYTES_MAX;

/// The kind of subject whose events a stream holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// A task.
    Task,
    /// A conversation session.
    Session,
    /// The values that a tool keeps.
    Tool,
    /// The starts and ends of the programs that write to a partition.
    System,
    /// The definition of an agent.
    Agent,
    /// The flow state of a run.
    Flow,
    /// A registry of agents.
    Registry,
}

impl Category {
    /// Every category that this version knows.
    pub const ALL: [Self; 7] =
        [Self::Task, Self::Session, Self::Tool, Self::System, Self::Agent, Self::Flow, Self::Registry];

    /// Returns the word with which the names of its streams begin.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Session => "session",
            Self::Tool => "tool",
            Self::System => "system",
            Self::Agent => "agent",
            Self::Flow => "flow",
            Self::Registry => "registry",
        }
    }

    /// The beginning of its streams' names that no other category's streams share.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Task => "task-",
            Self::Session => "session-",
            Self::Tool => "tool-",
            Self::System => "system-",
            Self::Agent => "agent-",
            Self::Flow => "flow-",
            Self::Registry => "registry-",
        }
    }

    /// Whether the names of its streams have one component instead of an agent and an id.
    const fn has_one_component(self) -> bool {
        matches!(self, Self::System | Self::Agent | Self::Registry)
    }

    /// The category of the stream of this name; none for a category that this version does not know.
    pub fn from_stream(stream: &str) -> Option<Self> {
        let (word, _) = stream.split_once('-')?;
        Self::ALL.into_iter().find(|category| category.as_str() == word)
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of one stream: `<category>-<agent>/<id>`, agent and id percent-encoded, so that the first `-` and
/// the only `/` separate the fields unambiguously. The streams `system-<partition>`, `agent-<name>` and
/// `registry-<name>` have one component and no `/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(Arc<str>);

impl StreamId {
    /// Returns the stream id of a task.
    ///
    /// # Errors
    /// [`IdError`] if `agent` or `id` cannot be an id.
    pub fn task(agent: &str, id: &str) -> Result<Self, IdError> {
        Self::new(Category::Task.as_str(), agent, id)
    }

    /// Returns the stream id of a conversation session.
    ///
    /// # Errors
    /// [`IdError`] if `agent` or `id` cannot be an id.
    pub fn session(agent: &str, id: &str) -> Result<Self, IdError> {
        Self::new(Category::Session.as_str(), agent, id)
    }

    /// Returns the stream id of a tool's store.
    ///
    /// # Errors
    /// [`IdError`] if `agent` or `name` cannot be an id.
    pub fn tool(agent: &str, name: &str) -> Result<Self, IdError> {
        Self::new(Category::Tool.as_str(), agent, name)
    }

    /// Returns the stream id of the flow state of a run.
    ///
    /// # Errors
    /// [`IdError`] if `agent` or `run` cannot be an id.
    pub fn flow(agent: &str, run: &str) -> Result<Self, IdError> {
        Self::new(Category::Flow.as_str(), agent, run)
    }

    /// Returns the beginning of the names of an agent's streams of this category, which no other agent's share.
    pub fn prefix_of(category: Category, agent: &str) -> String {
        format!("{}{}/", category.prefix(), encode(agent))
    }

    /// Returns the stream id of the programs that write to a partition.
    pub fn of_system(partition: u32) -> Self {
        Self(format!("{}{partition}", Category::System.prefix()).into())
    }

    /// Returns the stream id of an agent's definition.
    ///
    /// # Errors
    /// [`IdError`] if `name` cannot be an id.
    pub fn of_agent(name: &str) -> Result<Self, IdError> {
        check_id(name)?;
        Ok(Self(format!("{}{}", Category::Agent.prefix(), encode(name)).into()))
    }

    /// Returns the stream id of a registry.
    ///
    /// # Errors
    /// [`IdError`] if `name` cannot be an id.
    pub fn of_registry(name: &str) -> Result<Self, IdError> {
        check_id(name)?;
        Ok(Self(format!("{}{}", Category::Registry.prefix(), encode(name)).into()))
    }

    fn new(category: &str, agent: &str, id: &str) -> Result<Self, IdError> {
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
        if Category::from_stream(text).is_some_and(Category::has_one_component) {
            let name = decode(rest).ok_or_else(wrong)?;
            check_id(&name)?;
            return if encode(&name) == rest { Ok(Self(text.into())) } else { Err(wrong()) };
        }
        let (agent, id) = rest.split_once('/').ok_or_else(wrong)?;
        let known = !category.is_empty() && category.bytes().all(|b| b.is_ascii_lowercase());
        if known && stands_for_itself(agent) && stands_for_itself(id) {
            // The common case, taken for nearly every record read: nothing needs to be decoded.
            return Ok(Self(text.into()));
        }
        let agent = decode(agent).ok_or_else(wrong)?;
        let id = decode(id).ok_or_else(wrong)?;
        let stream = Self::new(category, &agent, &id)?;
        if known && &*stream.0 == text { Ok(stream) } else { Err(wrong()) }
    }

    /// Returns the whole text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the stream's category; `None` for a category that this version does not know.
    pub fn category(&self) -> Option<Category> {
        Category::from_stream(&self.0)
    }

    /// Returns the agent's name, decoded; empty for the streams of a partition's programs and of registries.
    pub fn agent(&self) -> String {
        let (agent, id) = self.components();
        let agent = if self.category() == Some(Category::Agent) { id } else { agent };
        decode(agent).unwrap_or_default()
    }

    /// Returns the caller's own id of the task, session or run, the tool's, the agent's or the registry's name, or the
    /// partition, decoded.
    pub fn id(&self) -> String {
        decode(self.components().1).unwrap_or_default()
    }

    /// Returns the agent and the id as they are written; no agent if there is one component.
    fn components(&self) -> (&str, &str) {
        let (_, rest) = self.0.split_once('-').unwrap_or_default();
        rest.split_once('/').unwrap_or(("", rest))
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
            assert_eq!(Category::from_stream(&format!("{}a/b", category.prefix())), Some(category));
            assert_eq!(category.prefix(), format!("{category}-"));
        }
        assert_eq!(StreamId::parse("flow-a/b").unwrap().category(), Some(Category::Flow));
        assert_eq!(StreamId::parse("timer-a/b").unwrap().category(), None);
        assert_eq!(Category::from_stream("tasks-a/b"), None);
    }

    #[test]
    fn a_stream_of_a_system_or_an_agent_has_one_component() {
        let system = StreamId::of_system(12);
        assert_eq!(system.as_str(), "system-12");
        assert_eq!(
            (system.category(), system.agent(), system.id()),
            (Some(Category::System), String::new(), "12".into())
        );
        for name in ["desk", "a/b-c %", "é ☃"] {
            let agent = StreamId::of_agent(name).unwrap();
            assert_eq!(
                (agent.category(), agent.agent(), agent.id()),
                (Some(Category::Agent), name.into(), name.into())
            );
            assert_eq!(StreamId::parse(agent.as_str()).unwrap(), agent);
        }
        let registry = StreamId::of_registry("main floor").unwrap();
        assert_eq!(registry.as_str(), "registry-main%20floor");
        assert_eq!(
            (registry.category(), registry.agent(), registry.id()),
            (Some(Category::Registry), String::new(), "main floor".into())
        );
        assert_eq!(StreamId::parse(registry.as_str()).unwrap(), registry);
        for wrong in
            ["agent-", "agent-a/b", "agent-%61", "system-", "system-0/1", "registry-", "registry-a/b"]
        {
            assert!(StreamId::parse(wrong).is_err(), "{wrong}");
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
}
