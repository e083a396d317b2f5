//! Random seeds, from which the salts of events are derived.

use proto_events::id::Digest;
use taskreel_log::ports::Ports;

/// A random value drawn for an entity. It is never stored, and no salt leads back to it, so an erased salt stays erased.
#[derive(Clone, Copy)]
pub(crate) struct Seed(pub(crate) [u8; 16]);

impl Seed {
    /// Draws a seed.
    pub(crate) fn draw(ports: &Ports) -> Self {
        Self(ports.ids.random())
    }

    /// Returns the salt of the event of this version.
    pub(super) fn salt(self, version: u64) -> [u8; 16] {
        let mut salt = [0; 16];
        let digest = Digest::of_parts(&[&self.0, b"taskreel.salt", &version.to_be_bytes()]);
        salt.iter_mut().zip(digest.0).for_each(|(to, from)| *to = from);
        salt
    }
}
