//! An interface that is checked.

use taskreel_http::a2a::{Card, Client, Interface, Options, Probe};

/// An interface that is checked, and the ways to ask it.
pub(crate) struct CheckedInterface<'a> {
    pub(crate) card: &'a Card,
    pub(crate) interface: &'a Interface,
    pub(crate) client: Client,
    pub(crate) probe: Probe,
    pub(crate) options: Options,
    /// How it is described.
    pub(crate) name: String,
}
