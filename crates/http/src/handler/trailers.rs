//! The parts of HTTP that gRPC needs: its media type, and the trailers of a response, the fields that follow its body, in which it has its
//! status.

use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderMap;
#[cfg(feature = "grpc")]
use http::header::CONTENT_TYPE;

/// A place for trailers, in the extensions of a response. They are taken once its body is at its end; a server that knows
/// none leaves them out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trailers(Arc<Mutex<Option<HeaderMap>>>);

impl Trailers {
    /// Puts the trailers in.
    #[cfg(feature = "grpc")]
    pub(crate) fn set(&self, trailers: HeaderMap) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(trailers);
    }

    /// Whether there are trailers.
    #[cfg(feature = "grpc")]
    pub(crate) fn are_set(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Takes the trailers out.
    pub(crate) fn take(&self) -> Option<HeaderMap> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Whether a request or a response is gRPC's.
#[cfg(feature = "grpc")]
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let named = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match named.strip_prefix("application/grpc") {
        Some(rest) => rest.is_empty() || rest.starts_with(['+', ';']),
        None => false,
    }
}
