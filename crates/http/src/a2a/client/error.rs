//! The reasons why a question to an agent has no answer, and A2A's errors as agents send them.

use http::StatusCode;
use proto_events::json::{JsonObject, JsonText};

use crate::client::error::ClientError;

/// The most characters of an agent's words that an error keeps.
const WORDS_MAX: usize = 1_000;

/// The most details of an error that are kept.
const DETAILS_MAX: usize = 16;

/// The reason why a question to an agent has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum A2aError {
    /// The way to the agent failed, or what came is not an answer of A2A.
    #[error(transparent)]
    Transport(#[from] ClientError),
    /// The agent answered with an error of A2A.
    #[error("the agent at {url} refused: {reply}")]
    Refused {
        /// The address.
        url: String,
        /// The error.
        reply: Box<ErrorReply>,
    },
    /// This client cannot use the card.
    #[error("the card at {url} cannot be used: {why}")]
    Card {
        /// The address.
        url: String,
        /// The fault.
        why: String,
    },
    /// The card asks for credentials that are not there. Nothing was sent.
    #[error("the card at {url} asks for credentials that are not there: {why}")]
    Credentials {
        /// The address.
        url: String,
        /// The schemes that it asks for, and the places where each secret was looked for.
        why: String,
    },
    /// The answer is not what the operation answers.
    #[error("the answer of the agent at {url} cannot be read: {why}")]
    Answer {
        /// The address.
        url: String,
        /// The fault.
        why: String,
        /// The task that it is about, as far as that can be read: it can be asked for, where the message must not be sent again.
        task: Option<String>,
    },
    /// The observer of the exchanges could not note one. A request that it was to note was not sent.
    #[error("the exchange could not be noted: {0}")]
    Observer(String),
    /// The request cannot be sent so, and was not.
    #[error("the request was not sent: {0}")]
    Request(String),
}

/// The kind of an error of A2A, by its reason or its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The task does not exist for this caller.
    TaskNotFound,
    /// The task is over.
    TaskNotCancelable,
    /// The agent calls no webhooks.
    PushNotificationNotSupported,
    /// The agent does not do this, or not in this state.
    UnsupportedOperation,
    /// The agent does not read a part of this type.
    ContentTypeNotSupported,
    /// The agent behind the server answered wrongly.
    InvalidAgentResponse,
    /// An extended card does not exist.
    ExtendedAgentCardNotConfigured,
    /// The agent asks for an extension that the request does not use.
    ExtensionSupportRequired,
    /// The agent does not speak this version.
    VersionNotSupported,
    /// The body was no JSON.
    Parse,
    /// The body was no request.
    InvalidRequest,
    /// The method does not exist.
    MethodNotFound,
    /// A parameter is wrong.
    InvalidParams,
    /// The agent failed.
    Internal,
    /// The caller is not known.
    Unauthenticated,
    /// The caller may not do this.
    Forbidden,
    /// Too much is asked for at once.
    Overloaded,
    /// The agent takes nothing at present.
    Unavailable,
    /// An error that A2A does not name.
    Other,
}

/// The kinds with their codes in JSON-RPC and their reasons.
const KINDS: [(ErrorKind, i64, &str); 14] = [
    (ErrorKind::TaskNotFound, -32001, "TASK_NOT_FOUND"),
    (ErrorKind::TaskNotCancelable, -32002, "TASK_NOT_CANCELABLE"),
    (ErrorKind::PushNotificationNotSupported, -32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    (ErrorKind::UnsupportedOperation, -32004, "UNSUPPORTED_OPERATION"),
    (ErrorKind::ContentTypeNotSupported, -32005, "CONTENT_TYPE_NOT_SUPPORTED"),
    (ErrorKind::InvalidAgentResponse, -32006, "INVALID_AGENT_RESPONSE"),
    (ErrorKind::ExtendedAgentCardNotConfigured, -32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    (ErrorKind::ExtensionSupportRequired, -32008, "EXTENSION_SUPPORT_REQUIRED"),
    (ErrorKind::VersionNotSupported, -32009, "VERSION_NOT_SUPPORTED"),
    (ErrorKind::Parse, -32700, "PARSE_ERROR"),
    (ErrorKind::InvalidRequest, -32600, "INVALID_REQUEST"),
    (ErrorKind::MethodNotFound, -32601, "METHOD_NOT_FOUND"),
    (ErrorKind::InvalidParams, -32602, "INVALID_PARAMS"),
    (ErrorKind::Internal, -32603, "INTERNAL_ERROR"),
];

/// Kinds of which JSON-RPC has no code, with the status over HTTP and the reason that our own servers give.
const BY_STATUS: [(ErrorKind, u16, &str); 4] = [
    (ErrorKind::Unauthenticated, 401, "UNAUTHENTICATED"),
    (ErrorKind::Forbidden, 403, "FORBIDDEN"),
    (ErrorKind::Overloaded, 429, "OVERLOADED"),
    (ErrorKind::Unavailable, 503, "UNAVAILABLE"),
];

/// Kinds by the name of the status in gRPC, which REST has where no reason is named.
const BY_NAME: [(ErrorKind, &str); 7] = [
    (ErrorKind::InvalidParams, "INVALID_ARGUMENT"),
    (ErrorKind::UnsupportedOperation, "UNIMPLEMENTED"),
    (ErrorKind::Internal, "INTERNAL"),
    (ErrorKind::Unauthenticated, "UNAUTHENTICATED"),
    (ErrorKind::Forbidden, "PERMISSION_DENIED"),
    (ErrorKind::Overloaded, "RESOURCE_EXHAUSTED"),
    (ErrorKind::Unavailable, "UNAVAILABLE"),
];

/// An error of A2A, as an agent sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorReply {
    /// The kind.
    pub kind: ErrorKind,
    /// The code of JSON-RPC, or over REST the number in the error.
    pub code: Option<i64>,
    /// The status over HTTP.
    pub status: u16,
    /// The reason for programs, where the details name one.
    pub reason: Option<String>,
    /// The agent's words.
    pub message: String,
    /// The typed details.
    pub details: Vec<JsonText>,
}

impl std::fmt::Display for ErrorReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.kind)?;
        match (&self.reason, self.code) {
            (Some(reason), _) => write!(f, " ({reason})")?,
            (None, Some(code)) => write!(f, " ({code})")?,
            (None, None) => {}
        }
        write!(f, ": {}", self.message)
    }
}

impl ErrorReply {
    /// Reads the member `error` of an answer, leniently: of what cannot be read as much as can be.
    pub(crate) fn read(error: &JsonText, status: StatusCode) -> Self {
        let fields: JsonObject = error.read().unwrap_or_default();
        let text = |text: String| text.chars().take(WORDS_MAX).collect::<String>();
        let code: Option<i64> = fields.get("code").and_then(|code| code.read().ok());
        let details: Vec<JsonText> = ["data", "details"]
            .iter()
            .filter_map(|name| fields.get(name).filter(|value| !value.is_null()))
            .flat_map(|value| value.read().unwrap_or_else(|_| vec![value.clone()]))
            .take(DETAILS_MAX)
            .collect();
        let reason = details.iter().find_map(|detail| {
            let detail: JsonObject = detail.read().ok()?;
            detail.get("reason")?.to_str().map(text)
        });
        let message = ["message", "detail", "title"].iter().find_map(|name| fields.get(name)?.to_str());
        let message = message.or_else(|| error.to_str()).map(text).unwrap_or_default();
        let name = fields.get("status").and_then(JsonText::to_str);
        let kind = kind_of(reason.as_deref(), code, name.as_deref(), status.as_u16());
        Self { kind, code, status: status.as_u16(), reason, message, details }
    }
}

fn kind_of(reason: Option<&str>, code: Option<i64>, name: Option<&str>, status: u16) -> ErrorKind {
    let mut reasons = KINDS.iter().map(|(kind, _, known)| (*kind, *known));
    let mut others = BY_STATUS.iter().map(|(kind, _, known)| (*kind, *known));
    let named = reason.and_then(|reason| {
        let is = |(_, known): &(ErrorKind, &str)| *known == reason;
        reasons.find(is).or_else(|| others.find(is)).map(|(kind, _)| kind)
    });
    let coded = || Some(KINDS.iter().find(|(_, known, _)| code == Some(*known))?.0);
    let by_status = || Some(BY_STATUS.iter().find(|(_, known, _)| *known == status)?.0);
    let by_name = || Some(BY_NAME.iter().find(|(_, known)| name == Some(*known))?.0);
    named.or_else(coded).or_else(by_name).or_else(by_status).unwrap_or(if status == 500 {
        ErrorKind::Internal
    } else {
        ErrorKind::Other
    })
}

impl A2aError {
    /// Returns the kind of the agent's error; `None` if the agent did not answer with one.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Refused { reply, .. } => Some(reply.kind),
            _ => None,
        }
    }

    /// Whether the same question may be answered a little later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Transport(ClientError::Unreachable { .. } | ClientError::Protocol { .. }) => true,
            Self::Transport(ClientError::Status { status, .. }) => {
                matches!(status.as_u16(), 429 | 502 | 503 | 504)
            }
            Self::Refused { reply, .. } => {
                matches!(reply.kind, ErrorKind::Overloaded | ErrorKind::Unavailable)
            }
            _ => false,
        }
    }

    /// Whether a stream that broke off so may be taken up again.
    pub(crate) fn is_break(&self) -> bool {
        self.is_passing() || matches!(self, Self::Transport(ClientError::TimedOut { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_known_by_its_reason_then_its_code_then_its_status() {
        let read = |text: &str, status: u16| {
            ErrorReply::read(&JsonText::parse(text).unwrap(), StatusCode::from_u16(status).unwrap())
        };
        let typed = r#"{"code":-32603,"message":"m","data":[{"@type":"x","reason":"TASK_NOT_FOUND"}]}"#;
        assert_eq!(read(typed, 200).kind, ErrorKind::TaskNotFound);
        assert_eq!(read(r#"{"code":-32002,"message":"m"}"#, 200).kind, ErrorKind::TaskNotCancelable);
        assert_eq!(read(r#"{"code":429}"#, 429).kind, ErrorKind::Overloaded);
        assert_eq!(read(r#"{"code":"unauthorized"}"#, 401).kind, ErrorKind::Unauthenticated);
        let rest =
            r#"{"code":503,"status":"UNAVAILABLE","message":"m","details":[{"reason":"UNAVAILABLE"}]}"#;
        assert_eq!((read(rest, 200).kind, read(rest, 200).details.len()), (ErrorKind::Unavailable, 1));
        for odd in ["[]", "5", "null", r#"{"code":{},"message":[],"data":5}"#] {
            assert_eq!(read(odd, 404).kind, ErrorKind::Other, "{odd}");
        }
        assert_eq!(read("\"no\"", 418).message, "no");
    }
}
