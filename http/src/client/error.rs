//! The errors of the client, in Protolink's words where it has some.

use std::time::Duration;

use http::StatusCode;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::ModelError;

/// The most characters of a refusal's body that an error quotes.
const QUOTED_CHARACTERS: usize = 500;

/// The reason why a request to an agent or a registry has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The client cannot be set up.
    #[error("the client cannot be set up: {0}")]
    Setup(String),
    /// The address is none of an agent that this client can reach.
    #[error("`{url}` is no address of an agent over HTTP: {why}")]
    Url {
        /// The address.
        url: String,
        /// The fault.
        why: String,
    },
    /// No connection was made, so that nothing was sent.
    #[error("Failed to connect to agent at {url}. Make sure the agent is running and accessible.")]
    Unreachable {
        /// The address.
        url: String,
        /// The error of the connection.
        why: String,
    },
    /// The connection broke, or what came is no HTTP. The request may have been carried out.
    #[error(
        "Protocol error when communicating with agent at {url}. The target may not be a proper HTTP server or may be misconfigured. ({why})"
    )]
    Protocol {
        /// The address.
        url: String,
        /// The error.
        why: String,
    },
    /// The answer did not come in time. The request may have been carried out.
    #[error("Agent at {url} did not answer within {after:?}")]
    TimedOut {
        /// The address.
        url: String,
        /// The time limit.
        after: Duration,
    },
    /// The request was refused, or failed.
    #[error("Agent at {url} returned HTTP {status}: {body}", status = status.as_u16())]
    Status {
        /// The address.
        url: String,
        /// The status.
        status: StatusCode,
        /// The beginning of the body.
        body: String,
    },
    /// The answer is larger than the client reads.
    #[error("the answer of {url} has more than {limit} bytes")]
    TooLarge {
        /// The address.
        url: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer is not what the request asks for.
    #[error("the answer of {url} cannot be read: {source}")]
    Answer {
        /// The address.
        url: String,
        /// The fault.
        source: ModelError,
    },
    /// The agent ended a stream with an error.
    #[error("SSE JSON-RPC stream failed at {url}: {kind}: {message}")]
    Stream {
        /// The address.
        url: String,
        /// The name of the error's type.
        kind: String,
        /// The error.
        message: String,
    },
    /// The registry knows no agent of this name.
    #[error("the registry at {registry} knows no agent '{name}'")]
    UnknownAgent {
        /// The address of the registry.
        registry: String,
        /// The name.
        name: String,
    },
}

impl ClientError {
    /// Returns the error of a status, with the beginning of the body.
    pub(crate) fn of_status(url: &str, status: StatusCode, body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(body).chars().take(QUOTED_CHARACTERS).collect();
        Self::Status { url: url.to_owned(), status, body }
    }

    /// Returns the code for programs in the body of a refusal of our own servers: `already_running`, `conflict` and so
    /// on.
    pub fn code(&self) -> Option<String> {
        let Self::Status { body, .. } = self else { return None };
        let body: JsonObject = JsonText::parse(body).ok()?.read().ok()?;
        body.get("error")?.read::<JsonObject>().ok()?.get("code")?.to_str()
    }

    /// Whether the request was certainly not carried out.
    pub fn is_before_effect(&self) -> bool {
        match self {
            Self::Setup(_) | Self::Url { .. } | Self::Unreachable { .. } | Self::UnknownAgent { .. } => true,
            Self::Status { status, .. } => {
                status.is_client_error() || *status == StatusCode::SERVICE_UNAVAILABLE
            }
            _ => false,
        }
    }
}
