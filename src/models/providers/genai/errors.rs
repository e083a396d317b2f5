//! Errors of a provider as errors of an inference: transient, malformed or failed.

use crate::grammar::decode::cut;
use crate::models::backend::{InferError, InferErrorKind, InferRequest, spread_wait};
use crate::models::providers::common::{failed, malformed, passing, retry_after};
use crate::models::providers::secrets::SecretTexts;

/// Converts an error of the crate. Its text is redacted before it is cut, since the cut may go through a secret.
pub(crate) fn convert_error(
    error: &genai::Error,
    request: &InferRequest,
    secrets: &SecretTexts,
) -> InferError {
    use genai::Error;
    // In a stream, an error status is wrapped.
    if let Error::WebStream { error: inner, .. } = error
        && let Some(inner) = inner.downcast_ref::<Error>()
    {
        return convert_error(inner, request, secrets);
    }
    let text = cut(&secrets.redact(error.to_string()));
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
            genai::webc::Error::Reqwest(error) if !error.is_builder() => {
                passing("ConnectionError", text, None)
            }
            genai::webc::Error::ResponseFailedInvalidJson { .. } => malformed("InvalidAnswer", text),
            _ => InferError::classify("ProviderError", text),
        },
        Error::WebStream { .. } => passing("ConnectionError", text, None),
        Error::StreamParse { .. }
        | Error::NoChatResponse { .. }
        | Error::InvalidJsonResponseElement { .. }
        | Error::ChatResponseGeneration { .. }
        | Error::JsonValueExt(_)
        | Error::SerdeJson(_) => malformed("InvalidAnswer", text),
        _ => InferError::classify("ProviderError", text),
    }
}
