//! A stream as a sequence diagram: who sent what to whom, one step for each event.

mod diagram;
mod draw;
mod steps;

pub use crate::views::sequence::diagram::{Participant, ParticipantKind, SequenceDiagram, SequenceStep};
pub use crate::views::sequence::draw::{sequence_mermaid, sequence_svg, sequence_svg_linked, sequence_text};
pub use crate::views::sequence::steps::{sequence, sequence_between};

#[cfg(test)]
mod tests;
