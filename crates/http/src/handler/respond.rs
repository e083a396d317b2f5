//! Responses: JSON, texts, pages, redirects.

use bytes::Bytes;
use http::header::{
    ALLOW, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, LOCATION, X_CONTENT_TYPE_OPTIONS,
};
use http::{Response as HttpResponse, StatusCode};
use proto_events::json::JsonText;
use serde::Serialize;

use crate::handler::message::{Response, ResponseBody};

/// The policy of our pages: nothing is loaded from elsewhere, and they speak to their own server alone.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns a response of JSON.
pub(crate) fn json(status: StatusCode, body: &JsonText) -> Response {
    full_response(status, "application/json", Bytes::copy_from_slice(body.as_str().as_bytes()))
}

/// Returns a response with a value that is written as JSON.
pub(crate) fn written<T: Serialize>(status: StatusCode, body: &T) -> Response {
    // All of our values can be written.
    let body = serde_json::to_vec(body).unwrap_or_else(|_| b"null".to_vec());
    full_response(status, "application/json", Bytes::from(body))
}

/// Returns a response of plain text.
pub(crate) fn text(status: StatusCode, body: &'static str) -> Response {
    full_response(status, "text/plain; charset=utf-8", Bytes::from_static(body.as_bytes()))
}

/// Returns a page.
pub(crate) fn page(body: String) -> Response {
    let mut response = full_response(StatusCode::OK, "text/html; charset=utf-8", Bytes::from(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Returns the response for a path that does not exist, as Protolink words it.
pub(crate) fn not_found() -> Response {
    text(StatusCode::NOT_FOUND, "Not Found")
}

/// Returns the response for a path that exists, but not with this method, as Protolink words it.
pub(crate) fn method_not_allowed(allowed: &'static str) -> Response {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Returns the response that sends the client to another path with the same method and body.
pub(crate) fn redirect(location: &str) -> Response {
    let mut response = HttpResponse::new(ResponseBody::Whole(Bytes::new()));
    match HeaderValue::from_str(location) {
        Ok(location) => {
            *response.status_mut() = StatusCode::TEMPORARY_REDIRECT;
            response.headers_mut().insert(LOCATION, location);
            response
        }
        Err(_) => not_found(),
    }
}

fn full_response(status: StatusCode, kind: &'static str, body: Bytes) -> Response {
    let mut response = HttpResponse::new(ResponseBody::Whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Returns a text as it stands in a page.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
