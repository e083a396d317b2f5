//! Answers to requests: pages, texts, redirections, files, streams; each with the headers that keep a page from running or loading
//! what is not its own.

use askama::Template;
use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName,
    HeaderValue, IF_NONE_MATCH, LOCATION, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderMap, Method, StatusCode};
use sha2::{Digest as _, Sha256};
use taskreel_log::jsonl::hex;

use crate::api::bounded_reads::internal;
use crate::api::records::Lines;
use crate::error::Problem;
use crate::handler::message::{Response, ResponseBody};
use crate::inspect::style;

/// The policy of a page: take its own styles and scripts, ask its own server, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The files of the pages.
const ASSETS: [(&str, &str, &[u8]); 3] = [
    ("icon.svg", "image/svg+xml", include_bytes!("../../assets/inspect/icon.svg")),
    ("inspect.css", "text/css; charset=utf-8", include_bytes!("../../assets/inspect/inspect.css")),
    ("inspect.js", "text/javascript; charset=utf-8", include_bytes!("../../assets/inspect/inspect.js")),
];

/// An answer.
pub(crate) enum PageAnswer {
    /// A page.
    Page(StatusCode, String),
    /// A text, to be read as it is.
    Text(String),
    /// Another page, and a cookie to be kept.
    Other(String, Option<String>),
    /// A file of the pages, with its tag.
    Asset(&'static str, &'static [u8], String),
    /// The browser has the file already.
    Same(String),
    /// Server-sent events.
    Events(Lines),
    /// A page that is sent as it is made.
    Making(Lines),
    /// A report that is sent as it is made, and the name under which a browser keeps it.
    Report(Lines, String),
}

impl std::fmt::Debug for PageAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Self::Page(status, _) => return f.debug_tuple("Page").field(status).finish(),
            Self::Text(_) => "Text",
            Self::Other(to, _) => return f.debug_tuple("Other").field(to).finish(),
            Self::Asset(..) => "Asset",
            Self::Same(_) => "Same",
            Self::Events(_) => "Events",
            Self::Making(_) => "Making",
            Self::Report(..) => "Report",
        };
        f.write_str(name)
    }
}

/// Renders a page.
///
/// # Errors
/// [`Problem`] if the template fails.
pub(crate) fn page(template: &impl Template) -> Result<PageAnswer, Problem> {
    let page = template.render().map_err(|error| internal(&error))?;
    Ok(PageAnswer::Page(StatusCode::OK, page))
}

/// Returns a file of the pages.
///
/// # Errors
/// [`Problem`] if no file has this name.
pub(crate) fn asset(name: &str, headers: &HeaderMap) -> Result<PageAnswer, Problem> {
    let known = ASSETS.iter().find(|(known, ..)| *known == name);
    let (_, media, bytes) = known.ok_or_else(|| Problem::not_found(format!("there is no file `{name}`")))?;
    let tag = format!("\"{}\"", tag_of(bytes));
    if headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return Ok(PageAnswer::Same(tag));
    }
    Ok(PageAnswer::Asset(media, bytes, tag))
}

fn tag_of(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes).get(..8).unwrap_or_default())
}

impl PageAnswer {
    /// Returns the response to a request with this method. A page whose forms decide lets the browser name it to this server: with
    /// `no-referrer` the origin of a form would be `null`.
    pub(crate) fn into_response(self, method: &Method, has_forms: bool) -> Response {
        let mut response = Response::new(ResponseBody::Whole(Bytes::new()));
        let (status, media, body) = match self {
            Self::Page(status, page) => {
                (status, "text/html; charset=utf-8", ResponseBody::Whole(Bytes::from(page)))
            }
            Self::Text(text) => {
                (StatusCode::OK, "text/plain; charset=utf-8", ResponseBody::Whole(Bytes::from(text)))
            }
            Self::Other(to, cookie) => {
                set_header(&mut response, LOCATION, &to);
                if let Some(cookie) = cookie {
                    set_header(&mut response, SET_COOKIE, &cookie);
                }
                (StatusCode::SEE_OTHER, "text/plain; charset=utf-8", ResponseBody::Whole(Bytes::new()))
            }
            Self::Asset(media, bytes, tag) => {
                set_header(&mut response, ETAG, &tag);
                (StatusCode::OK, media, ResponseBody::Whole(Bytes::from_static(bytes)))
            }
            Self::Same(tag) => {
                set_header(&mut response, ETAG, &tag);
                (StatusCode::NOT_MODIFIED, "text/plain; charset=utf-8", ResponseBody::Whole(Bytes::new()))
            }
            Self::Events(lines) => (StatusCode::OK, "text/event-stream", ResponseBody::Pieces(lines)),
            Self::Making(lines) => (StatusCode::OK, "text/html; charset=utf-8", ResponseBody::Pieces(lines)),
            Self::Report(lines, name) => {
                set_header(&mut response, CONTENT_DISPOSITION, &format!("attachment; filename=\"{name}\""));
                let policy = format!("{}; frame-ancestors 'none'", style::policy());
                set_header(&mut response, CONTENT_SECURITY_POLICY, &policy);
                (StatusCode::OK, "text/html; charset=utf-8", ResponseBody::Pieces(lines))
            }
        };
        if status == StatusCode::METHOD_NOT_ALLOWED {
            set_header(&mut response, ALLOW, "GET, HEAD");
        }
        set_header(&mut response, CONTENT_TYPE, media);
        // A log is nobody else's business: no cache on the way keeps it. The files may be kept, and are asked for.
        let is_file = response.headers().contains_key(ETAG);
        set_header(&mut response, CACHE_CONTROL, if is_file { "no-cache" } else { "no-store" });
        if !response.headers().contains_key(CONTENT_SECURITY_POLICY) {
            set_header(&mut response, CONTENT_SECURITY_POLICY, POLICY);
        }
        set_header(&mut response, X_CONTENT_TYPE_OPTIONS, "nosniff");
        set_header(&mut response, X_FRAME_OPTIONS, "DENY");
        set_header(&mut response, REFERRER_POLICY, if has_forms { "same-origin" } else { "no-referrer" });
        set_header(&mut response, HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
        set_header(&mut response, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
        *response.status_mut() = status;
        *response.body_mut() = if *method == Method::HEAD { ResponseBody::Whole(Bytes::new()) } else { body };
        response
    }
}

fn set_header(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_script_is_small() {
        let (_, _, script) = ASSETS[2];
        assert!(script.len() <= 60_000, "{} bytes", script.len());
    }
}
