//! Models: the trait of a backend, the messages that it is sent, the check of its answers, and the backends
//! of this crate. Above [`grammar`](crate::grammar) and [`tools`](crate::tools), below
//! [`agent`](crate::agent).
//!
//! | file | holds |
//! |---|---|
//! | [`backend`], [`policy`] | the trait, requests, replies and errors; timeouts and retries |
//! | [`message`], [`shown_messages`] | the messages of a request |
//! | [`output_schema`] | the check of an answer against the requested schema |
//! | [`providers`] | clients of model providers (features `openai`, `genai`) |
//! | [`recorded`], [`scripted`] | backends without a model: answers from a log or from a script |

pub(crate) mod backend;
pub(crate) mod message;
pub(crate) mod output_schema;
pub(crate) mod policy;
pub(crate) mod providers;
pub(crate) mod recorded;
pub(crate) mod scripted;
pub(crate) mod shown_messages;
