//! The streams that a request names.

use proto_events::id::{Category, StreamId, Version};
use taskreel_log::api::{EventReader, ReadError};

use crate::api::bounded_reads::unread;
use crate::error::Problem;

/// The most agents that are looked through for an id.
const AGENTS_MAX: usize = 10_000;

/// The agent that a request names, and the one that it means otherwise.
#[derive(Debug, Clone)]
pub(crate) struct Agents {
    pub(crate) named: Option<String>,
    pub(crate) usual: String,
}

impl Agents {
    /// Returns the stream of a task or session: of the named agent, else the stream of this name, else that of the usual
    /// agent, else that of the only other agent with such an id.
    ///
    /// # Errors
    /// [`Problem`] if nothing has the name, as of a text that cannot be an id, or there are several.
    pub(crate) fn find(
        &self,
        reader: &dyn EventReader,
        category: Category,
        id: &str,
    ) -> Result<StreamId, Problem> {
        let of = |agent: &str| match category {
            Category::Session => StreamId::session(agent, id),
            _ => StreamId::task(agent, id),
        };
        let of = |agent: &str| of(agent).map_err(|error| Problem::not_found(error.to_string()));
        let unknown = || Problem::not_found(format!("there is no {} with the id `{id}`", word(category)));
        let is_there =
            |stream: &StreamId| Ok::<_, Problem>(reader.stream_version(stream).map_err(unread)? > Version(0));
        if let Some(agent) = &self.named {
            let stream = of(agent)?;
            return if is_there(&stream)? { Ok(stream) } else { Err(unknown()) };
        }
        if let Ok(stream) = StreamId::parse(id)
            && stream.category() == Some(category)
            && is_there(&stream)?
        {
            return Ok(stream);
        }
        let usual = of(&self.usual)?;
        if is_there(&usual)? {
            return Ok(usual);
        }
        let mut others = Vec::new();
        for agent in agents_in(reader).map_err(unread)? {
            let stream = of(&agent)?;
            if is_there(&stream)? {
                others.push(stream);
            }
        }
        match (others.pop(), others.is_empty()) {
            (Some(stream), true) => Ok(stream),
            (None, _) => Err(unknown()),
            (Some(_), false) => {
                Err(Problem::malformed(format!("several agents have `{id}`; name one with `agent`")))
            }
        }
    }
}

fn word(category: Category) -> &'static str {
    if category == Category::Session { "session" } else { "task" }
}

/// Returns the agents whose definitions stand in the log, in the order of their names.
pub(crate) fn agents_in(reader: &dyn EventReader) -> Result<Vec<String>, ReadError> {
    let listed = reader.list_streams(Category::Agent.prefix(), None, AGENTS_MAX)?;
    Ok(listed.into_iter().map(|info| info.stream.id()).collect())
}
