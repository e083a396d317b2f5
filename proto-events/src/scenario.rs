//! Given, when, then: a test of a decider reads as the rule that it checks. Every event that passes through
//! a scenario is also written to bytes and read back, so that none can be forgotten in the codec.

use std::fmt::Debug;

use crate::codec::Storable;
use crate::decider::Decider;
use crate::envelope::{Metadata, Timestamp};

/// A decider with a past.
#[derive(Debug)]
pub struct Scenario<D: Decider> {
    state: D,
    metadata: Metadata,
}

/// What a decider said.
#[derive(Debug)]
pub struct Outcome<D: Decider> {
    state: D,
    metadata: Metadata,
    decision: Result<Vec<D::Event>, D::Rejection>,
}

/// Writes an event and reads it back.
///
/// # Panics
/// If what comes back is not what went in.
fn round_trip<E: Storable + PartialEq + Debug>(event: &E) {
    let payload = event.encode().unwrap_or_else(|error| panic!("{event:?} cannot be written: {error}"));
    let back = E::decode(payload.kind, payload.schema, &payload.body)
        .unwrap_or_else(|error| panic!("{event:?} cannot be read back: {error}"));
    assert_eq!(&back, event, "an event changed on its way through its bytes");
}

impl<D> Scenario<D>
where
    D: Decider + Default,
    D::Event: Storable + PartialEq + Debug,
    D::Rejection: Debug + PartialEq,
{
    /// A decider to which these events have happened, one microsecond apart.
    ///
    /// # Panics
    /// If an event does not survive its bytes.
    pub fn given(events: impl IntoIterator<Item = D::Event>) -> Self {
        let mut scenario = Self { state: D::default(), metadata: Metadata::default() };
        for event in events {
            round_trip(&event);
            scenario.metadata.at = Timestamp(scenario.metadata.at.0 + 1);
            scenario.state.evolve(&event, &scenario.metadata);
        }
        scenario
    }

    /// The state that the events fold to.
    pub fn state(&self) -> &D {
        &self.state
    }

    /// Asks for a decision.
    ///
    /// # Panics
    /// If an event of the decision does not survive its bytes.
    #[must_use]
    pub fn when(self, command: D::Command) -> Outcome<D> {
        let mut metadata = self.metadata;
        metadata.at = Timestamp(metadata.at.0 + 1);
        let decision = self.state.decide(command, &metadata);
        if let Ok(events) = &decision {
            events.iter().for_each(round_trip);
        }
        Outcome { state: self.state, metadata, decision }
    }
}

impl<D> Outcome<D>
where
    D: Decider + Default,
    D::Event: Storable + PartialEq + Debug,
    D::Rejection: Debug + PartialEq,
{
    /// The decision is exactly these events.
    ///
    /// # Panics
    /// If it is not.
    pub fn then(self, expected: impl AsRef<[D::Event]>) {
        match self.decision {
            Ok(events) => assert_eq!(events.as_slice(), expected.as_ref(), "another decision"),
            Err(rejection) => panic!("refused: {rejection:?}; expected {:?}", expected.as_ref()),
        }
    }

    /// The decision is to refuse, for exactly this reason.
    ///
    /// # Panics
    /// If it is not.
    pub fn then_rejected(self, expected: &D::Rejection) {
        match self.decision {
            Ok(events) => panic!("accepted: {events:?}; expected {expected:?}"),
            Err(rejection) => assert_eq!(&rejection, expected, "another reason"),
        }
    }

    /// Goes on from the state after the decision.
    ///
    /// # Panics
    /// If the decision was to refuse.
    #[must_use]
    pub fn and(self) -> Scenario<D> {
        let Self { mut state, metadata, decision } = self;
        let events = decision.unwrap_or_else(|rejection| panic!("refused: {rejection:?}"));
        for event in &events {
            state.evolve(event, &metadata);
        }
        Scenario { state, metadata }
    }
}
