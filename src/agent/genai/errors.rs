//! What goes wrong with a provider, in our words: what passes, what is no answer, what stays wrong.

use crate::agent::decode::cut;
use crate::agent::infer::{InferError, InferErrorKind, InferRequest, spread_wait};
use crate::agent::provider::retry_after;

/// What an error of the crate means.
pub(super) fn told(error: &genai::Error, request: &InferRequest) -> InferError {
    use genai::Error;
    // A status that says no comes wrapped where a stream was asked for.
    if let Error::WebStream { error: inner, .. } = error
        && let Some(inner) = inner.downcast_ref::<Error>()
    {
        return told(inner, request);
    }
    let text = cut(&error.to_string());
    if let Some(status) = error.status() {
        let wait = error.headers().and_then(|headers| retry_after(|name| headers.get(name)?.to_str().ok()));
        let told = InferError::from_status(status.as_u16(), text);
        if status.is_redirection() {
            return failed("Redirected", told.message);
        }
        if told.is_transient() || status.as_u16() == 408 {
            let retry_after = wait.map(|wait| spread_wait(wait, &request.call_id, request.attempt));
            return InferError { kind: InferErrorKind::Transient { retry_after }, ..told };
        }
        return told;
    }
    match error {
        Error::WebModelCall { webc_error, .. } | Error::WebAdapterCall { webc_error, .. } => match webc_error
        {
            genai::webc::Error::Reqwest(error) if !error.is_builder() => passing("ConnectionError", text),
            genai::webc::Error::ResponseFailedInvalidJson { .. } => malformed(text),
            _ => InferError::classify("ProviderError", text),
        },
        Error::WebStream { .. } => passing("ConnectionError", text),
        Error::StreamParse { .. }
        | Error::NoChatResponse { .. }
        | Error::InvalidJsonResponseElement { .. }
        | Error::ChatResponseGeneration { .. }
        | Error::JsonValueExt(_)
        | Error::SerdeJson(_) => malformed(text),
        _ => InferError::classify("ProviderError", text),
    }
}

pub(super) fn failed(type_name: &str, message: String) -> InferError {
    InferError::new(InferErrorKind::Failed, type_name, message)
}

pub(super) fn passing(type_name: &str, message: String) -> InferError {
    InferError::new(InferErrorKind::Transient { retry_after: None }, type_name, message)
}

pub(super) fn malformed(message: String) -> InferError {
    InferError::new(InferErrorKind::Malformed, "InvalidAnswer", message)
}
