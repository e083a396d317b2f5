//! The cards as they were made last: when each changed, and its signature, which is not made for each request anew.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use proto_events::id::Digest;
use proto_events::json::JsonText;

/// The most addresses whose cards are kept: clients choose the host that they name.
const KEPT_MAX: usize = 64;

/// The cards by their address, with what is public of them or not.
#[derive(Debug, Default)]
pub(crate) struct KeptCards(Mutex<BTreeMap<(String, bool), CachedCard>>);

/// A card as it is answered.
#[derive(Debug, Clone)]
pub(crate) struct CachedCard {
    /// The digest of the card without its signatures.
    made: Digest,
    /// The time since which it is as it is.
    pub(crate) since: SystemTime,
    /// The card, signed if there is a key.
    pub(crate) card: JsonText,
}

impl KeptCards {
    /// Returns the card at an address, signed; as it was made before, if it is the same.
    pub(crate) fn get_or_sign(
        &self,
        at: (String, bool),
        card: JsonText,
        sign: impl FnOnce(JsonText) -> JsonText,
    ) -> CachedCard {
        let made = Digest::compute(card.as_str().as_bytes());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = known.get(&at).filter(|kept| kept.made == made) {
            return kept.clone();
        }
        let kept = CachedCard { made, since: SystemTime::now(), card: sign(card) };
        if known.len() >= KEPT_MAX && !known.contains_key(&at) {
            known.pop_first();
        }
        known.insert(at, kept.clone());
        kept
    }
}
