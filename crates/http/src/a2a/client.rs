//! The client of A2A agents elsewhere, in both versions over JSON-RPC and REST.
//!
//! ```text
//! blocking ─▶ push, probe ─▶ work ─▶ stream ─▶ line ─▶ tap, call ─▶ request, options ─▶ auth ─▶ card ─▶ error
//! ```
//!
//! [`card`] is an agent's card and the choice of a way to it, [`auth`] the credentials that a card asks for, [`request`] what
//! is asked, [`call`] a question as a request of HTTP and its answer, [`tap`] what an observer sees of it, [`line`] the asking
//! with its repetitions, [`stream`] the events of a task across broken connections, [`work`] the client itself, [`push`]
//! its operations on webhooks, [`blocking_client`] its twin for programs that are not asynchronous, [`probe`] requests that no
//! client would send, and [`token`] the tokens of an authorization server.

pub(crate) mod auth;
pub(crate) mod blocking_client;
pub(crate) mod call;
pub(crate) mod card;
pub(crate) mod error;
pub(crate) mod line;
pub(crate) mod options;
pub(crate) mod probe;
pub(crate) mod push;
pub(crate) mod request;
pub(crate) mod stream;
pub(crate) mod tap;
pub(crate) mod token;
pub(crate) mod trust;
pub(crate) mod work;
