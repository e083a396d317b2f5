//! The parts of which a card is made: the schemes of credentials, the signatures, and the cards as they were made last.

pub(crate) mod canonical;
pub(crate) mod kept;
pub(crate) mod schemes;
pub(crate) mod signing;
