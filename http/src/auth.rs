//! Who a caller is, and what it may do.

pub(crate) mod caller;
