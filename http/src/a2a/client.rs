//! The client of A2A agents elsewhere, in both versions over JSON-RPC and REST.
//!
//! ```text
//! work ─▶ stream ─▶ line ─▶ call ─▶ request, options ─▶ card ─▶ error
//! ```
//!
//! [`card`] is an agent's card and the choice of a way to it, [`request`] what is asked, [`call`] a question as a request of
//! HTTP and its answer, [`line`] the asking with its repetitions, [`stream`] the events of a task across broken connections,
//! and [`work`] the client itself.

pub(crate) mod call;
pub(crate) mod card;
pub(crate) mod error;
pub(crate) mod line;
pub(crate) mod options;
pub(crate) mod request;
pub(crate) mod stream;
pub(crate) mod trust;
pub(crate) mod work;
