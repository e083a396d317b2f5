//! Given, when, then: a test of a decider reads as the rule that it checks. Every event that passes through a
//! scenario is also encoded and decoded, so that no event lacks its codec.

use std::fmt::Debug;

use crate::codec::storable::Storable;
use crate::decider::Decider;
use crate::envelope::{Metadata, Timestamp};

/// A decider with a history of events.
#[derive(Debug)]
pub struct Scenario<D: Decider> {
    state: D,
    metadata: Metadata,
}

/// The decision of a decider, with the state before it.
#[derive(Debug)]
pub struct Outcome<D: Decider> {
    state: D,
    metadata: Metadata,
    decision: Result<Vec<D::Event>, D::Rejection>,
}

/// Encodes an event and decodes it again.
///
/// # Panics
/// If the decoded event differs.
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
    /// Creates a decider to which these events have happened, one microsecond apart.
    ///
    /// # Panics
    /// If an event is not decoded as it was encoded.
    pub fn given(events: impl IntoIterator<Item = D::Event>) -> Self {
        let mut scenario = Self { state: D::default(), metadata: Metadata::default() };
        for event in events {
            round_trip(&event);
            scenario.metadata.at = Timestamp(scenario.metadata.at.0 + 1);
            scenario.state.evolve(&event, &scenario.metadata);
        }
        scenario
    }

    /// Returns the state that the events fold to.
    pub fn state(&self) -> &D {
        &self.state
    }

    /// Decides a command.
    ///
    /// # Panics
    /// If an event of the decision is not decoded as it was encoded.
    #[must_use]
    pub fn when(self, command: D::Command) -> Outcome<D> {
        let mut metadata = self.metadata;
        metadata.at = Timestamp(metadata.at.0 + 1);
        let decision = self.state.decide(command);
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
    /// Asserts that the decision is exactly these events.
    ///
    /// # Panics
    /// If it is not.
    pub fn then(self, expected: impl AsRef<[D::Event]>) {
        match self.decision {
            Ok(events) => assert_eq!(events.as_slice(), expected.as_ref(), "another decision"),
            Err(rejection) => panic!("refused: {rejection:?}; expected {:?}", expected.as_ref()),
        }
    }

    /// Asserts that the command is rejected, for exactly this reason.
    ///
    /// # Panics
    /// If it is not.
    pub fn then_rejected(self, expected: &D::Rejection) {
        match self.decision {
            Ok(events) => panic!("accepted: {events:?}; expected {expected:?}"),
            Err(rejection) => assert_eq!(&rejection, expected, "another reason"),
        }
    }

    /// Continues from the state after the decision.
    ///
    /// # Panics
    /// If the command was rejected.
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
