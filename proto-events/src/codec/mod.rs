//! (being written)

pub mod record;
