//! A receiver of webhooks, which answers as the path says.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse as _;
use http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::Value;
use taskreel::System;
use taskreel_http::a2a::Push;
use tokio::sync::watch;

use crate::support::PATIENCE;

/// A delivery.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    /// Whether it was refused.
    #[allow(dead_code, reason = "not each program that uses the receiver asks")]
    pub(crate) is_refused: bool,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the kind of the event in the form of 1.0, and what tells it from others.
    pub(crate) fn event(&self) -> String {
        let (kind, event) = self.body.as_object().unwrap().iter().next().unwrap();
        match kind.as_str() {
            "statusUpdate" => {
                let state = event["status"]["state"].as_str().unwrap().trim_start_matches("TASK_STATE_");
                format!("{state} {}", event["metadata"].as_object().unwrap().values().next().unwrap())
            }
            "artifactUpdate" => format!("{} {}", event["artifact"]["artifactId"], event["metadata"]),
            other => other.to_owned(),
        }
    }
}

struct Inner {
    /// The requests that came, also those that were refused.
    seen: Mutex<Vec<Seen>>,
    count: watch::Sender<usize>,
    /// The requests of each path so far.
    of_paths: Mutex<HashMap<String, u32>>,
    is_up: AtomicBool,
}

/// The receiver. `/fail/N/…` answers 500 to the first N requests of its path, `/gone` 410, `/hang` nothing at all, `/to?URL`
/// redirects, and all others 200.
#[derive(Clone)]
pub(crate) struct Hook {
    pub(crate) address: SocketAddr,
    inner: Arc<Inner>,
}

impl Hook {
    pub(crate) async fn start() -> Self {
        let inner = Arc::new(Inner {
            seen: Mutex::default(),
            count: watch::Sender::new(0),
            of_paths: Mutex::default(),
            is_up: AtomicBool::new(true),
        });
        let router = axum::Router::new().fallback(answer).with_state(Arc::clone(&inner));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, inner }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Answers 503 to everything from now on, or as the path says again.
    pub(crate) fn set_up(&self, is_up: bool) {
        self.inner.is_up.store(is_up, Ordering::SeqCst);
    }

    /// Returns the requests so far to paths that begin so.
    pub(crate) fn seen(&self, path: &str) -> Vec<Seen> {
        let seen = self.inner.seen.lock().unwrap();
        seen.iter().filter(|one| one.path.starts_with(path)).cloned().collect()
    }

    /// Waits until there are so many requests to paths that begin so, and returns them.
    pub(crate) async fn wait(&self, path: &str, count: usize) -> Vec<Seen> {
        self.until(path, |seen| seen.len() >= count).await
    }

    /// Waits until this holds of the requests to paths that begin so, and returns them.
    pub(crate) async fn until(&self, path: &str, holds: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        let mut count = self.inner.count.subscribe();
        let came = async {
            loop {
                count.borrow_and_update();
                let seen = self.seen(path);
                if holds(&seen) {
                    return seen;
                }
                count.changed().await.unwrap();
            }
        };
        let came = tokio::time::timeout(PATIENCE, came).await;
        came.unwrap_or_else(|_| panic!("only these came: {:#?}", self.seen(path)))
    }
}

async fn answer(
    State(inner): State<Arc<Inner>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> axum::response::Response {
    assert_eq!(method, Method::POST);
    let path = uri.path().to_owned();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let before = {
        let mut of_paths = inner.of_paths.lock().unwrap();
        let count = of_paths.entry(path.clone()).or_default();
        *count += 1;
        *count - 1
    };
    // Decided before anybody can know that it came.
    let is_up = inner.is_up.load(Ordering::SeqCst);
    let fails = path.strip_prefix("/fail/").and_then(|rest| rest.split('/').next()?.parse().ok());
    let is_refused = !is_up || fails.is_some_and(|count: u32| before < count);
    inner.seen.lock().unwrap().push(Seen { path: path.clone(), headers, body, is_refused });
    inner.count.send_modify(|count| *count += 1);
    if !is_up {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let mut parts = path.trim_start_matches('/').split('/');
    match (parts.next(), parts.next()) {
        (Some("fail"), _) if is_refused => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        (Some("gone"), _) => StatusCode::GONE.into_response(),
        (Some("hang"), _) => std::future::pending().await,
        (Some("to"), _) => {
            (StatusCode::TEMPORARY_REDIRECT, [("location", uri.query().unwrap().to_owned())]).into_response()
        }
        (Some("much"), _) => vec![b'x'; 64 * 1024 * 1024].into_response(),
        _ => StatusCode::OK.into_response(),
    }
}

/// Returns settings for a receiver on this machine, with short pauses.
pub(crate) fn quick() -> Push {
    let pause = std::time::Duration::from_millis;
    Push::new().allow_loopback().pauses(pause(10), pause(100))
}

/// Returns the words of a task's webhook events in the log, oldest first.
pub(crate) fn noted(system: &System, id: &str) -> Vec<String> {
    let stream = system.task(id).unwrap().stream().clone();
    let log = system.log();
    let records = log.read_stream(&stream, taskreel::Version(1), 10_000).unwrap();
    let rows = records.iter().flat_map(taskreel_log::views::event_rows);
    rows.filter(|row| (13..=16).contains(&row.kind_number)).map(|row| row.kind.to_owned()).collect()
}
