//! The operations of A2A over a system, whatever binding they came by.

pub(crate) mod extended_card;
pub(crate) mod list;
pub(crate) mod modes;
pub(crate) mod operation;
pub(crate) mod push;
pub(crate) mod send;
pub(crate) mod tasks;
