//! The parts of which a card is made: the schemes of credentials, the signatures, and the cards as they were made last.

pub(crate) mod canonical;
pub(crate) mod card_cache;
pub(crate) mod card_signature;
pub(crate) mod schemes;
