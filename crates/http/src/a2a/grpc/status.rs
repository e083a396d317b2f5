//! Failures as gRPC tells them: a code, a text, and the typed details in `grpc-status-details-bin`.

use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};

use crate::a2a::failure::{A2aFailure, FailureKind};

/// The most characters of a text: it travels in a header.
const TEXT_MAX: usize = 1_000;

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(btree_map = "string, string", tag = "3")]
    metadata: std::collections::BTreeMap<String, String>,
}

/// `google.rpc.BadRequest`.
#[derive(Clone, PartialEq, Message)]
struct BadRequest {
    #[prost(message, repeated, tag = "1")]
    field_violations: Vec<FieldViolation>,
}

/// `google.rpc.BadRequest.FieldViolation`.
#[derive(Clone, PartialEq, Message)]
struct FieldViolation {
    #[prost(string, tag = "1")]
    field: String,
    #[prost(string, tag = "2")]
    description: String,
}

/// Returns a failure as the status of a call.
pub(crate) fn status(failure: &A2aFailure) -> Status {
    let code = code(failure.kind);
    let message: String = failure.message().chars().take(TEXT_MAX).collect();
    let mut details = Vec::new();
    if let Some((reason, domain)) = failure.reason() {
        let metadata =
            failure.facts().iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        let info = ErrorInfo { reason: reason.to_owned(), domain: domain.to_owned(), metadata };
        details.push(packed("google.rpc.ErrorInfo", &info));
    }
    if !failure.wrong().is_empty() {
        let of = |text: &str| text.chars().take(TEXT_MAX).collect();
        let wrong = failure.wrong().iter();
        let wrong = wrong
            .map(|wrong| FieldViolation { field: of(&wrong.field), description: of(&wrong.description) });
        details.push(packed("google.rpc.BadRequest", &BadRequest { field_violations: wrong.collect() }));
    }
    let whole = RpcStatus { code: code.into(), message: message.clone(), details };
    Status::with_details(code, message, whole.encode_to_vec().into())
}

fn packed(name: &str, detail: &impl Message) -> Any {
    Any { type_url: format!("type.googleapis.com/{name}"), value: detail.encode_to_vec() }
}

/// Returns the code of a kind: the one of A2A's table, or gRPC's own for what lies below it.
const fn code(kind: FailureKind) -> Code {
    match kind {
        FailureKind::TooLarge | FailureKind::Overloaded => Code::ResourceExhausted,
        FailureKind::Slow => Code::DeadlineExceeded,
        FailureKind::MethodNotFound => Code::Unimplemented,
        FailureKind::Internal => Code::Internal,
        FailureKind::Unavailable => Code::Unavailable,
        FailureKind::Forbidden => Code::PermissionDenied,
        FailureKind::TaskNotFound => Code::NotFound,
        FailureKind::Parse
        | FailureKind::InvalidRequest
        | FailureKind::InvalidParams
        | FailureKind::ContentTypeNotSupported => Code::InvalidArgument,
        FailureKind::TaskNotCancelable
        | FailureKind::PushNotificationNotSupported
        | FailureKind::UnsupportedOperation
        | FailureKind::ExtendedAgentCardNotConfigured
        | FailureKind::ExtensionSupportRequired
        | FailureKind::VersionNotSupported => Code::FailedPrecondition,
    }
}
