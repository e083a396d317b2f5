//! A handler that says who calls it, behind the check of callers; requests, and answers as texts.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod issuer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use taskreel::BoxFuture;
use taskreel_http::{Access, Caller, Guard, HttpHandler, Request, RequestBody, Response, ResponseBody};

/// A handler that answers with the caller's name, its basis, and the address that it was shown.
#[derive(Debug)]
pub(crate) struct SaysWho;

impl HttpHandler for SaysWho {
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let caller = request.extensions().get::<Caller>().cloned().expect("a guard stands before");
        let text = format!("{} {} {}", caller.principal.name, caller.principal.basis.as_str(), request.uri());
        Box::pin(async move { Response::new(ResponseBody::Whole(Bytes::from(text))) })
    }
}

/// An answer with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// Returns the handler behind these rules.
pub(crate) fn guarded(access: Access) -> Guard {
    Guard::new(access, Arc::new(SaysWho))
}

/// Sends a request without a body, for the host `localhost`.
pub(crate) async fn send(
    handler: &dyn HttpHandler,
    method: Method,
    uri: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let mut request = http::Request::builder().method(method).uri(uri);
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        request = request.header("host", "localhost:8080");
    }
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let (head, body) = handler.answer(request.body(RequestBody::empty()).unwrap()).await.into_parts();
    let body = match body {
        ResponseBody::Whole(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => format!("{other:?}"),
    };
    Answer { status: head.status, headers: head.headers, body }
}

/// Returns the answer to a task that is sent with these headers.
pub(crate) async fn post_task(handler: &dyn HttpHandler, headers: &[(&str, &str)]) -> Answer {
    send(handler, Method::POST, "/tasks/", headers).await
}

/// A folder with a file of rules and the files that it names.
pub(crate) struct Rules {
    pub(crate) dir: tempfile::TempDir,
}

impl Rules {
    /// Returns a folder with these files.
    pub(crate) fn new(files: &[(&str, &[u8])]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        Self { dir }
    }

    /// Returns the path of a file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the rules of a file with this text.
    pub(crate) fn read(&self, text: &str) -> Result<Access, taskreel_http::AccessError> {
        let path = self.path("auth.json");
        std::fs::write(&path, text).unwrap();
        Access::open().with_file(&path)
    }
}

/// Returns a file of this folder.
pub(crate) fn key(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/auth_support/keys").join(name)).unwrap()
}
