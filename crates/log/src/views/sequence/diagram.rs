//! The parts of a sequence diagram.

use std::collections::BTreeSet;

use proto_events::envelope::Timestamp;
use proto_events::id::{StreamId, Version};
use proto_events::json::JsonText;

use crate::audit::json::{number, object, text};

/// The kind of a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ParticipantKind {
    /// The caller that posted the task.
    Caller,
    /// A person who decides or answers.
    Person,
    /// The stream itself: a task, or a session.
    Subject,
    /// A task of a session.
    Task,
    /// A model.
    Model,
    /// A tool.
    Tool,
    /// Another agent.
    Agent,
    /// The embedder's own code.
    Handler,
}

impl ParticipantKind {
    /// Returns the word before its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Person => "person",
            Self::Subject | Self::Task => "task",
            Self::Model => "model",
            Self::Tool => "tool",
            Self::Agent => "agent",
            Self::Handler => "handler",
        }
    }
}

/// A participant of a diagram.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Participant {
    /// The kind.
    pub kind: ParticipantKind,
    /// The name as it is shown.
    pub name: String,
}

/// A step: an event, and the participants between which it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceStep {
    /// The version of the event.
    pub version: Version,
    /// The time.
    pub at: Timestamp,
    /// The name of the event's kind.
    pub kind: &'static str,
    /// The number of the participant from which it goes.
    pub from: usize,
    /// The number of the participant to which it goes; the same one for what happens there.
    pub to: usize,
    /// The event in words, cut.
    pub text: String,
    /// Whether it tells of a failure.
    pub is_failed: bool,
}

impl SequenceDiagram {
    /// Leaves out the participants that no step names.
    pub(super) fn leave_out_who_takes_no_part(&mut self) {
        let named: BTreeSet<usize> = self.steps.iter().flat_map(|step| [step.from, step.to]).collect();
        let place = |at: usize| named.range(..at).count();
        for step in &mut self.steps {
            (step.from, step.to) = (place(step.from), place(step.to));
        }
        let mut at = 0;
        self.participants.retain(|_| {
            at += 1;
            named.contains(&(at - 1))
        });
    }

    /// Returns a step as JSON.
    pub fn step_json(&self, stream: &StreamId, step: &SequenceStep) -> JsonText {
        let name = |at: usize| self.participants.get(at).map_or("", |participant| participant.name.as_str());
        object([
            ("schema", text("taskreel.sequence/1")),
            ("stream", text(stream.as_str())),
            ("version", number(step.version.0)),
            ("at", text(&step.at.to_string())),
            ("kind", text(step.kind)),
            ("from", text(name(step.from))),
            ("to", text(name(step.to))),
            ("text", text(&step.text)),
            ("failed", JsonText::of_model(&step.is_failed)),
        ])
    }
}

/// A sequence diagram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceDiagram {
    /// The participants, from left to right.
    pub participants: Vec<Participant>,
    /// The steps, one for each event, from top to bottom.
    pub steps: Vec<SequenceStep>,
}
