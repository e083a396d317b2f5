//! Asking a handler for a page, without a socket.

use std::sync::Arc;

use futures_util::StreamExt as _;
use http::{HeaderMap, Method, StatusCode};
use taskreel_http::{HttpHandler, InspectedLog, Inspector, Mounted, RequestBody, ResponseBody};
use taskreel_log::api::EventReader;

/// The place of the pages in these tests.
pub(crate) const PLACE: &str = "/inspect";

/// An answer.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Got {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// The pages of a log.
#[derive(Clone)]
pub(crate) struct Pages(pub(crate) Arc<dyn HttpHandler>);

impl Pages {
    pub(crate) fn of(log: InspectedLog) -> Self {
        Self(Arc::new(Mounted::new().mount(PLACE, Arc::new(Inspector::new(log)))))
    }

    pub(crate) fn reading(reader: Arc<dyn EventReader>) -> Self {
        Self::of(InspectedLog::new(reader, "the log of a test"))
    }

    /// Sends a request.
    pub(crate) async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Got {
        let mut request = http::Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.0.answer(request.body(RequestBody::empty()).unwrap()).await;
        let (parts, body) = response.into_parts();
        let body = match body {
            ResponseBody::Whole(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            ResponseBody::Pieces(mut pieces) => {
                let mut whole = pieces.next().await.unwrap().to_vec();
                // Events have no end; a page that is sent as it is made has one.
                while parts.headers["content-type"] != "text/event-stream"
                    && let Some(piece) = pieces.next().await
                {
                    whole.extend(piece);
                }
                String::from_utf8(whole).unwrap()
            }
            ResponseBody::Upgrade(_) => panic!("a page is no upgrade"),
        };
        Got { status: parts.status, headers: parts.headers, body }
    }

    /// Sends a form.
    pub(crate) async fn post(&self, path: &str, form: &[(&str, &str)], headers: &[(&str, &str)]) -> Got {
        let fields: Vec<String> =
            form.iter().map(|(name, value)| format!("{name}={}", percent(value))).collect();
        let mut request = http::Request::post(format!("{PLACE}{path}"))
            .header("host", "localhost")
            .header("content-type", "application/x-www-form-urlencoded");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = RequestBody::from(bytes::Bytes::from(fields.join("&")));
        let (parts, body) = self.0.answer(request.body(body).unwrap()).await.into_parts();
        let ResponseBody::Whole(body) = body else { panic!("the answer is whole") };
        let body = String::from_utf8(body.to_vec()).unwrap();
        Got { status: parts.status, headers: parts.headers, body }
    }

    /// Returns an answer to a plain request.
    pub(crate) async fn get(&self, path: &str) -> Got {
        self.send(Method::GET, &format!("{PLACE}{path}"), &[]).await
    }

    /// Returns a page, which must be there.
    pub(crate) async fn page(&self, path: &str) -> String {
        let got = self.get(path).await;
        assert_eq!(got.status, StatusCode::OK, "{path}: {}", got.body);
        got.body
    }
}

/// Returns a text as it stands in an address or a form.
pub(crate) fn percent(text: &str) -> String {
    let letter = |byte: u8| {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(letter).collect()
}
