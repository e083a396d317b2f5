//! Forgeries of a registry: what follows from no registration.

use proto_events::codec::AnyEvent;
use proto_events::id::StreamId;
use proto_events::model::AgentCard;
use proto_events::registry::RegistryEvent;

use super::Forgery;
use super::events::json;
use super::log::Log;

fn registry(log: &mut Log, event: RegistryEvent) {
    log.append(vec![(
        "registry",
        &StreamId::of_registry("agents").unwrap(),
        vec![AnyEvent::Registry(event)],
    )]);
}

/// A card that no registry takes: its agent has no name.
fn nameless() -> Box<AgentCard> {
    let card = json(r#"{"name": "a", "description": "b", "url": "http://h:1"}"#);
    let mut card = AgentCard::from_json(&card).unwrap();
    card.name = String::new();
    Box::new(card)
}

#[rustfmt::skip]
pub(crate) const REGISTRIES: &[Forgery] = &[
    ("the end of a registration that was not made", ("registry", 0), "was not registered", |log| registry(log, RegistryEvent::Unregistered { url: "http://h:1".to_owned() })),
    ("the registration of an agent without a name", ("registry", 0), "could not be registered", |log| registry(log, RegistryEvent::Registered { card: nameless() })),
];
