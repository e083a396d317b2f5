//! Forgeries of a registry: what follows from no registration.

use proto_events::codec::AnyEvent;
use proto_events::id::StreamId;
use proto_events::registry::RegistryEvent;

use super::Forgery;
use super::log::Log;

fn registry(log: &mut Log, event: RegistryEvent) {
    log.append(vec![(
        "registry",
        &StreamId::of_registry("agents").unwrap(),
        vec![AnyEvent::Registry(event)],
    )]);
}

#[rustfmt::skip]
pub(crate) const REGISTRIES: &[Forgery] = &[
    ("the end of a registration that was not made", ("registry", 0), "was not registered", |log| registry(log, RegistryEvent::Unregistered { url: "http://h:1".to_owned() })),
];
