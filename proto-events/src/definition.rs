//! The definition of an agent: what its tasks are decided with. Each change is a revision in the stream
//! `agent-<name>`, so that the log holds each distinct text once, and every prompt can be rendered again.

use std::sync::Arc;

use crate::decider::Decider;
use crate::envelope::Metadata;

/// An event of an agent's definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEvent {
    /// The definition was changed.
    Revised(Box<DefinitionRevision>),
}

/// A revision of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionRevision {
    /// The number of the revision, from 1.
    pub number: u32,
    /// The texts of the definition, in the order of [`Aspect::ALL`].
    pub texts: [RevisedText; Aspect::ALL.len()],
}

/// A text of a revision: written where it is new, and named by the revision that wrote it elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisedText {
    /// The revision that holds the text.
    pub since: u32,
    /// The text, if this revision is that one.
    pub text: Option<Arc<str>>,
}

/// The aspect of an agent that a text of its definition describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aspect {
    /// The backend and the model, as `<backend>/<model>`; empty without one.
    Model,
    /// The embedder's system prompt; empty without one.
    SystemPrompt,
    /// The tools: a JSON array of name, description, input schema and policy.
    Tools,
    /// The other agents that a model may ask: a JSON array of name, description, skills and policy.
    Agents,
    /// The parameters of inferences: a JSON object of the backend's own (`backend`) and of the most model calls
    /// for one part (`steps`), and the policy of the agent's handler (`handler`) where it has one.
    Parameters,
}

impl Aspect {
    /// All aspects, in the order in which they are stored.
    pub const ALL: [Self; 5] = [Self::Model, Self::SystemPrompt, Self::Tools, Self::Agents, Self::Parameters];

    /// Returns the name in printed output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::SystemPrompt => "system_prompt",
            Self::Tools => "tools",
            Self::Agents => "agents",
            Self::Parameters => "parameters",
        }
    }
}

/// A whole definition: a text for each of [`Aspect::ALL`]. Clones share the texts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Definition(pub [Arc<str>; Aspect::ALL.len()]);

impl Definition {
    /// Returns the text of an aspect.
    pub fn text(&self, aspect: Aspect) -> &str {
        let mut texts = Aspect::ALL.into_iter().zip(&self.0);
        texts.find(|(of, _)| *of == aspect).map_or("", |(_, text)| text)
    }
}

/// The definitions that an agent has had: the fold of its stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentHistory(Vec<Definition>);

impl AgentHistory {
    /// Returns the number of the newest revision; 0 before the first.
    pub fn number(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Returns the newest definition.
    pub fn newest(&self) -> Option<&Definition> {
        self.0.last()
    }

    /// Returns the definition of a revision, by its number from 1.
    pub fn revision(&self, number: u32) -> Option<&Definition> {
        self.0.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    /// Returns the revision that first had this text at this place.
    fn first_with(&self, place: usize, text: &Arc<str>) -> Option<u32> {
        let at = self.0.iter().position(|definition| definition.0.get(place) == Some(text))?;
        u32::try_from(at + 1).ok()
    }
}

/// The decision about a definition never fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionRejection {}

impl Decider for AgentHistory {
    /// The definition that holds from now on. The newest one again adds nothing.
    type Command = Definition;
    type Event = AgentEvent;
    type Rejection = DefinitionRejection;

    fn decide(&self, definition: Definition) -> Result<Vec<AgentEvent>, DefinitionRejection> {
        if self.newest() == Some(&definition) {
            return Ok(Vec::new());
        }
        let number = self.number().saturating_add(1);
        let mut place = 0;
        let texts = definition.0.map(|text| {
            let since = self.first_with(place, &text);
            place += 1;
            RevisedText { since: since.unwrap_or(number), text: since.is_none().then_some(text) }
        });
        Ok(vec![AgentEvent::Revised(Box::new(DefinitionRevision { number, texts }))])
    }

    /// A text that no earlier revision holds is empty: `verify` reports it.
    fn evolve(&mut self, event: &AgentEvent, _: &Metadata) {
        let AgentEvent::Revised(revised) = event;
        let mut place = 0;
        let texts = revised.texts.clone().map(|RevisedText { since, text }| {
            let earlier = || self.revision(since)?.0.get(place).cloned();
            let text = text.or_else(earlier).unwrap_or_default();
            place += 1;
            text
        });
        self.0.push(Definition(texts));
    }
}
