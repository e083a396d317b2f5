//! Answers to requests that were not carried out: a status, a code for programs, and a text for people, as
//! `{"error": {"code", "message"}}`. A task that ran and failed is not answered so: it is a task.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::registry::RegistryRejection;
use proto_events::task::TaskRejection;
use taskreel::Error;
use taskreel_log::api::AppendError;
use taskreel_log::views::KindError;

use crate::handler::body::BodyError;
use crate::handler::message::ResponseBody;

/// The seconds after which an overloaded server may be asked again.
const RETRY_SECONDS: u64 = 1;

/// A request that was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Problem {
    /// Returns a problem with this status, this code for programs, and this text for people.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// Returns the problem of a request that means nothing (400). Nothing was done.
    pub fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", message)
    }

    /// Returns the problem of a thing that does not exist (404).
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Returns the problem of a caller that may not do this (403).
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// Returns the status of the response.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the code for programs.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// Returns the text for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the response: JSON, with `retry-after` where the request may be sent again.
    pub fn into_response(self) -> Response<ResponseBody> {
        let body = json!({"error": {"code": self.code, "message": self.message}});
        let body = ResponseBody::Whole(Bytes::from(JsonText::from(body).as_str().to_owned()));
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
        }
        response
    }
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", error.to_string())
            }
            BodyError::OtherType(_) => {
                Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", error.to_string())
            }
            BodyError::Slow => Self::new(StatusCode::REQUEST_TIMEOUT, "timeout", error.to_string()),
            BodyError::Broken(_) | BodyError::NotJson(_) => Self::malformed(error.to_string()),
        }
    }
}

impl From<KindError> for Problem {
    fn from(error: KindError) -> Self {
        Self::malformed(error.to_string())
    }
}

/// The advice where an operation of the control plane needs an approval that nobody can give.
const APPROVAL_HINT: &str =
    "give the agent an approval handler that decides it, or let the agent's policy allow its capability";

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (status, code) = class_of(&error);
        let text = match &error {
            // Protolink's text does not say what to do.
            Error::ApprovalRequired { .. } => format!("{error}: {APPROVAL_HINT}"),
            _ => error.to_string(),
        };
        Self::new(status, code, text)
    }
}

/// Returns the status and the code of an error of the system.
fn class_of(error: &Error) -> (StatusCode, &'static str) {
    const CONFLICT: StatusCode = StatusCode::CONFLICT;
    match error {
        Error::Model(_)
        | Error::Id(_)
        | Error::UnknownKey { .. }
        | Error::RunRequest(_)
        | Error::ReservedCommandId { .. }
        | Error::Registry(RegistryRejection::Card(_))
        | Error::NotForCallers => (StatusCode::BAD_REQUEST, "malformed"),
        Error::TaskNotFound(_) | Error::NoSuchVersion { .. } | Error::Task(TaskRejection::NotFound) => {
            (StatusCode::NOT_FOUND, "not_found")
        }
        Error::TaskNotCancelable { .. } => (CONFLICT, "not_cancelable"),
        Error::Task(TaskRejection::AlreadyRunning(_)) => (CONFLICT, "already_running"),
        Error::Task(TaskRejection::TooManyParts { .. })
        | Error::Registry(RegistryRejection::TooLarge { .. }) => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
        Error::Task(_) | Error::Session(_) | Error::ToolState(_) | Error::Flow(_) => (CONFLICT, "conflict"),
        Error::ActionDenied { .. } | Error::Registry(RegistryRejection::NotRegistrant { .. }) => {
            (StatusCode::FORBIDDEN, "forbidden")
        }
        Error::ApprovalRequired { .. } | Error::ApprovalUndecided { .. } => {
            (StatusCode::FORBIDDEN, "approval_required")
        }
        Error::NoTimeoutSupport { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "no_timeout_support"),
        Error::NoModel => (StatusCode::UNPROCESSABLE_ENTITY, "no_model"),
        Error::Summary(_) => (StatusCode::UNPROCESSABLE_ENTITY, "no_summary"),
        Error::NoStateModule(_) => (StatusCode::UNPROCESSABLE_ENTITY, "no_state_module"),
        Error::CommandIdReused { .. } => (CONFLICT, "command_id_reused"),
        Error::OtherSession { .. } => (CONFLICT, "other_session"),
        Error::WaitsForItself { .. } => (CONFLICT, "waits_for_itself"),
        Error::NotCompleted { .. } | Error::Answer { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "no_answer"),
        Error::Codec(_) | Error::Record(_) | Error::Append(AppendError::TooLarge { .. }) => {
            (StatusCode::PAYLOAD_TOO_LARGE, "too_large")
        }
        Error::Overloaded { .. } | Error::Registry(RegistryRejection::Full) => {
            (StatusCode::TOO_MANY_REQUESTS, "overloaded")
        }
        Error::Stopped => (StatusCode::SERVICE_UNAVAILABLE, "stopped"),
        error if is_poisoned(error) => (StatusCode::SERVICE_UNAVAILABLE, "poisoned"),
        Error::InDoubt { .. } => (StatusCode::SERVICE_UNAVAILABLE, "in_doubt"),
        Error::Open(_)
        | Error::Append(_)
        | Error::Read(_)
        | Error::Stalled { .. }
        | Error::Interrupted { .. }
        | Error::FileNotKept { .. }
        | Error::Secrets(_) => (StatusCode::SERVICE_UNAVAILABLE, "log_unavailable"),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}

/// Whether the log takes no appends since a write failed, whatever that says of the command.
fn is_poisoned(error: &Error) -> bool {
    match error {
        Error::Append(AppendError::Poisoned { .. }) => true,
        Error::InDoubt { source, .. } => is_poisoned(source),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overloaded_system_is_told_to_be_asked_again() {
        let problem = Problem::from(Error::Overloaded { waiting: 4, command_id: String::new() });
        let response = problem.into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
    }

    #[test]
    fn a_text_of_any_kind_stands_in_the_body_as_json() {
        let ResponseBody::Whole(body) = Problem::not_found("a \"task\"\n").into_response().into_body() else {
            panic!("the body is whole");
        };
        assert_eq!(body, r#"{"error":{"code":"not_found","message":"a \"task\"\n"}}"#);
    }
}
