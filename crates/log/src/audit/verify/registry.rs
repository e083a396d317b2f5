//! Checks the streams of registries: each event follows from the agents that were registered before it, and was asked
//! for by a principal that may do so.

use proto_events::decider::Decider as _;
use proto_events::envelope::Metadata;
use proto_events::registry::{RegistryEvent, RegistryState};

/// A registry, as read so far.
#[derive(Default)]
pub(crate) struct RegistryCheck(RegistryState);

impl RegistryCheck {
    /// Takes the stream's next event, of a record with these metadata.
    ///
    /// # Errors
    /// The fault of the event.
    pub(crate) fn accept_event(&mut self, event: &RegistryEvent, metadata: &Metadata) -> Result<(), String> {
        let url = event.url();
        let fault = match (event, self.0.get(url)) {
            (RegistryEvent::Registered { .. } | RegistryEvent::Unregistered { .. }, Some(known))
                if !known.may_be_changed_by(&metadata.principal) =>
            {
                Some(format!("{url} was registered by another principal, which alone may change that"))
            }
            (RegistryEvent::Unregistered { .. } | RegistryEvent::Expired { .. }, None) => {
                Some(format!("{url} was not registered"))
            }
            (RegistryEvent::Registered { card }, _) => {
                card.check().err().map(|error| format!("the card of {url} could not be registered: {error}"))
            }
            _ => None,
        };
        self.0.evolve(event, metadata);
        fault.map_or(Ok(()), Err)
    }
}
