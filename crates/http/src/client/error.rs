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
    /// This client can reach no agent at the address.
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
    /// The connection broke, or what came is not HTTP. The request may have been carried out.
    #[error(
        "Protocol error when communicating with agent at {url}. The target may not be a proper HTTP server or may be misconfigured. ({why})"
    )]
    Protocol {
        /// The address.
        url: String,
        /// The error.
        why: String,
    },
    /// The WebSocket ended before the answer came. The request may have been carried out.
    #[error("the WebSocket to agent at {url} has closed: {why}")]
    Closed {
        /// The address.
        url: String,
        /// The reason, as far as the agent gave one.
        why: String,
    },
    /// The agent answered a request on a WebSocket with an error.
    #[error("Agent at {url} answered with an error: {kind}: {message}")]
    Refused {
        /// The address.
        url: String,
        /// The name of the error's type.
        kind: String,
        /// The error.
        message: String,
        /// The code for programs, which our own servers give.
        code: Option<String>,
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

    /// Returns the error of a connection that was not made, or that broke. `url` is the address without a query.
    pub(crate) fn of_broken(url: &str, error: reqwest::Error) -> Self {
        let (url, is_before) = (url.to_owned(), error.is_connect());
        // Its own text names the address with the query, in which a key may stand.
        let why = taskreel::http_client::with_causes(&error.without_url());
        if is_before { Self::Unreachable { url, why } } else { Self::Protocol { url, why } }
    }

    /// Returns the code for programs in the body of a refusal of our own servers: `already_running`, `conflict` and so
    /// on.
    pub fn code(&self) -> Option<String> {
        let body = match self {
            Self::Status { body, .. } => body,
            Self::Refused { code, .. } => return code.clone(),
            _ => return None,
        };
        let body: JsonObject = JsonText::parse(body).ok()?.read().ok()?;
        body.get("error")?.read::<JsonObject>().ok()?.get("code")?.to_str()
    }

    /// Whether the request was certainly not carried out.
    pub fn is_before_effect(&self) -> bool {
        match self {
            Self::Setup(_) | Self::Url { .. } | Self::Unreachable { .. } | Self::UnknownAgent { .. } => true,
            Self::Status { status, .. } => {
                let is_unavailable = *status == StatusCode::SERVICE_UNAVAILABLE;
                status.is_client_error()
                    || (is_unavailable && self.code().is_none_or(|code| !is_doubtful(&code)))
            }
            Self::Refused { code, .. } => code.as_deref().is_some_and(|code| !is_doubtful(code)),
            _ => false,
        }
    }
}

/// Whether our own servers say by this code that a request failed which they may have carried out.
fn is_doubtful(code: &str) -> bool {
    matches!(code, "internal" | "in_doubt" | "log_unavailable" | "time_limit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ran_out_of_time_may_have_done_what_was_asked_and_one_that_stops_has_not() {
        let of = |code: &str| {
            let body = format!(r#"{{"error":{{"code":"{code}","message":"m"}}}}"#);
            let refused = ClientError::Refused {
                url: String::new(),
                kind: "RuntimeError".to_owned(),
                message: String::new(),
                code: Some(code.to_owned()),
            };
            let status = ClientError::of_status("u", StatusCode::SERVICE_UNAVAILABLE, body.as_bytes());
            assert_eq!(status.is_before_effect(), refused.is_before_effect(), "{code}");
            refused.is_before_effect()
        };
        assert!(of("stopped") && of("poisoned"));
        assert!(!of("in_doubt") && !of("time_limit") && !of("log_unavailable") && !of("internal"));
        // A proxy before a server that is not there.
        assert!(ClientError::of_status("u", StatusCode::SERVICE_UNAVAILABLE, b"").is_before_effect());
    }
}
