//! Answers to requests that were not carried out: A2A's error table, in the edition of 1.0.1.

use http::StatusCode;
use proto_events::json::JsonText;
use proto_events::task::TaskRejection;
use taskreel::Error;

use crate::a2a::wire::fields::Invalid;
use crate::a2a::wire::write::Members;
use crate::error::Problem;
use crate::handler::body::BodyError;

/// The kind of a failure: a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The body is not JSON.
    Parse,
    /// The body is not a request.
    InvalidRequest,
    /// The body is too long.
    TooLarge,
    /// The body did not arrive in time.
    Slow,
    /// The method or the path does not exist.
    MethodNotFound,
    /// A parameter is wrong.
    InvalidParams,
    /// A fault of ours.
    Internal,
    /// Too much is asked for at once.
    Overloaded,
    /// The system stops, or its log takes nothing.
    Unavailable,
    /// The caller may not do this.
    Forbidden,
    /// The task does not exist for this caller.
    TaskNotFound,
    /// The task is over.
    TaskNotCancelable,
    /// The agent calls no webhooks.
    PushNotificationNotSupported,
    /// The agent does not do this, or not in this state.
    UnsupportedOperation,
    /// The type of the body, or of a part, is not read here.
    ContentTypeNotSupported,
    /// An extended card does not exist.
    ExtendedAgentCardNotConfigured,
    /// The client does not name an extension that the agent requires.
    ExtensionSupportRequired,
    /// The version is not spoken here.
    VersionNotSupported,
}

/// A row of the table.
struct FailureRow {
    /// The code over JSON-RPC.
    code: i32,
    /// The status over HTTP.
    status: u16,
    /// The status by its name in gRPC.
    grpc: &'static str,
    /// The reason for programs; empty where the standard codes say it.
    reason: &'static str,
}

impl FailureKind {
    const fn row(self) -> FailureRow {
        let (code, status, grpc, reason) = match self {
            Self::Parse => (-32700, 400, "INVALID_ARGUMENT", ""),
            Self::InvalidRequest => (-32600, 400, "INVALID_ARGUMENT", ""),
            Self::TooLarge => (-32600, 413, "INVALID_ARGUMENT", "TOO_LARGE"),
            Self::Slow => (-32600, 408, "DEADLINE_EXCEEDED", "TIMEOUT"),
            Self::MethodNotFound => (-32601, 404, "NOT_FOUND", ""),
            Self::InvalidParams => (-32602, 400, "INVALID_ARGUMENT", ""),
            Self::Internal => (-32603, 500, "INTERNAL", ""),
            Self::Overloaded => (-32000, 429, "RESOURCE_EXHAUSTED", "OVERLOADED"),
            Self::Unavailable => (-32000, 503, "UNAVAILABLE", "UNAVAILABLE"),
            Self::Forbidden => (-32000, 403, "PERMISSION_DENIED", "FORBIDDEN"),
            Self::TaskNotFound => (-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
            Self::TaskNotCancelable => (-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
            Self::PushNotificationNotSupported => {
                (-32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED")
            }
            Self::UnsupportedOperation => (-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
            Self::ContentTypeNotSupported => (-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
            Self::ExtendedAgentCardNotConfigured => {
                (-32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED")
            }
            Self::ExtensionSupportRequired => {
                (-32008, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED")
            }
            Self::VersionNotSupported => (-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
        };
        FailureRow { code, status, grpc, reason }
    }

    /// Whether the reason is one of A2A's own.
    const fn is_a2as(self) -> bool {
        matches!(self.row().code, -32009..=-32001)
    }
}

/// A request that was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct A2aFailure {
    pub(crate) kind: FailureKind,
    message: String,
    /// The values that were wrong.
    wrong: Vec<Invalid>,
    /// Further facts for programs.
    facts: Vec<(&'static str, String)>,
}

impl A2aFailure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), wrong: Vec::new(), facts: Vec::new() }
    }

    /// Adds a fact for programs.
    #[must_use]
    pub(crate) fn with(mut self, key: &'static str, value: &str) -> Self {
        self.facts.push((key, value.chars().take(200).collect()));
        self
    }

    /// Returns the failure of a task that does not exist, or is another's: the two are one.
    pub(crate) fn no_task(id: &str) -> Self {
        Self::new(FailureKind::TaskNotFound, "Task not found").with("taskId", id)
    }

    /// Returns the text for people.
    #[cfg(feature = "grpc")]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the values that were wrong.
    #[cfg(feature = "grpc")]
    pub(crate) fn wrong(&self) -> &[Invalid] {
        &self.wrong
    }

    /// Returns the further facts.
    #[cfg(feature = "grpc")]
    pub(crate) fn facts(&self) -> &[(&'static str, String)] {
        &self.facts
    }

    /// Returns the reason for programs, and the domain in which it has its meaning; `None` where the code says it.
    pub(crate) fn reason(&self) -> Option<(&'static str, &'static str)> {
        let reason = self.kind.row().reason;
        let domain = if self.kind.is_a2as() { "a2a-protocol.org" } else { "taskreel" };
        (!reason.is_empty()).then_some((reason, domain))
    }

    /// Returns the status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.kind.row().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns the typed details.
    fn details(&self) -> Vec<JsonText> {
        let mut details = Vec::new();
        if let Some((reason, domain)) = self.reason() {
            let mut facts = Members::default();
            for (key, value) in &self.facts {
                facts = facts.text(key, value);
            }
            let info = Members::default()
                .text("@type", "type.googleapis.com/google.rpc.ErrorInfo")
                .text("reason", reason)
                .text("domain", domain);
            let info = if self.facts.is_empty() { info } else { info.json("metadata", facts.end()) };
            details.push(info.end());
        }
        if !self.wrong.is_empty() {
            let one = |wrong: &Invalid| {
                let one = Members::default().text("field", &wrong.field);
                one.text("description", &wrong.description).end()
            };
            let all: Vec<_> = self.wrong.iter().map(one).collect();
            let bad = Members::default().text("@type", "type.googleapis.com/google.rpc.BadRequest");
            details.push(bad.list("fieldViolations", &all).end());
        }
        details
    }

    /// Returns the member `error` of a JSON-RPC response.
    pub(crate) fn to_json_rpc(&self) -> JsonText {
        let code = JsonText::of_model(&self.kind.row().code);
        let error = Members::default().json("code", code).text("message", &self.message);
        error.list("data", &self.details()).end()
    }

    /// Returns the body of a response over REST.
    pub(crate) fn to_rest(&self) -> JsonText {
        let FailureRow { status, grpc, .. } = self.kind.row();
        let error = Members::default().json("code", JsonText::of_model(&status)).text("status", grpc);
        let error = error.text("message", &self.message).list("details", &self.details()).end();
        Members::default().json("error", error).end()
    }
}

impl From<Invalid> for A2aFailure {
    fn from(wrong: Invalid) -> Self {
        Self { wrong: vec![wrong.clone()], ..Self::new(FailureKind::InvalidParams, wrong.to_string()) }
    }
}

impl From<BodyError> for A2aFailure {
    fn from(error: BodyError) -> Self {
        let kind = match error {
            BodyError::TooLarge { .. } => FailureKind::TooLarge,
            BodyError::OtherType(_) => FailureKind::ContentTypeNotSupported,
            BodyError::Slow => FailureKind::Slow,
            BodyError::Broken(_) | BodyError::NotJson(_) => FailureKind::Parse,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<Error> for A2aFailure {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        let kind = match &error {
            Error::TaskNotFound(id) => return Self::no_task(id),
            Error::TaskNotCancelable { .. } => FailureKind::TaskNotCancelable,
            Error::Task(TaskRejection::TooManyParts { .. } | TaskRejection::Webhook(_))
            | Error::CommandIdReused { .. } => FailureKind::InvalidParams,
            Error::Task(_) | Error::Session(_) => FailureKind::UnsupportedOperation,
            _ => match Problem::from(error).status().as_u16() {
                400 | 404 | 409 | 422 => FailureKind::InvalidParams,
                403 => FailureKind::Forbidden,
                413 => FailureKind::TooLarge,
                429 => FailureKind::Overloaded,
                503 => FailureKind::Unavailable,
                _ => FailureKind::Internal,
            },
        };
        Self::new(kind, text)
    }
}
