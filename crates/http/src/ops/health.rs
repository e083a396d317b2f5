//! `/healthz`, `/readyz` and `/metrics`.

use std::sync::Arc;
#[cfg(feature = "client")]
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use taskreel::{BoxFuture, Exposition, System};
use tokio::sync::Mutex;

use crate::auth::refusals::Refusals;
#[cfg(feature = "client")]
use crate::client::registration::{self, RegistrationWatch};
use crate::error::Problem;
use crate::handler::message::{HttpHandler, Request, Response, ResponseBody};
use crate::ops::request_counts::Requests;

/// The time for which the tasks that wait for a person are not counted anew: they are read from the log.
const WAITS_KEPT: Duration = Duration::from_secs(10);

/// The media type of Prometheus' text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The media type of what probes answer.
const PLAIN: &str = "text/plain; charset=utf-8";

/// The handler with the server's health and figures: `GET /healthz`, `/readyz` and `/metrics`.
#[derive(Debug, Clone)]
pub struct Ops(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    system: System,
    requests: Arc<Requests>,
    refusals: Arc<Refusals>,
    ends: AtomicBool,
    waits: Mutex<Option<(Instant, Waits)>>,
    #[cfg(feature = "client")]
    registrations: std::sync::Mutex<Vec<RegistrationWatch>>,
}

/// The tasks that wait for a person, by what they wait for. A task may wait for several things.
#[derive(Debug, Clone, Copy, Default)]
struct Waits {
    approval: usize,
    answer: usize,
    verdict: usize,
    message: usize,
}

impl Ops {
    /// Returns the handler of a system, with the counts of a server's requests.
    pub fn new(system: System, requests: Arc<Requests>, refusals: Arc<Refusals>) -> Self {
        let (ends, waits) = (AtomicBool::new(false), Mutex::default());
        Self(Arc::new(Inner {
            system,
            requests,
            refusals,
            ends,
            waits,
            #[cfg(feature = "client")]
            registrations: std::sync::Mutex::default(),
        }))
    }

    /// Shows the figures of a registration too. `/readyz` does not depend on it: a registry that is away takes no server
    /// out of service.
    #[cfg(feature = "client")]
    pub fn show(&self, registration: RegistrationWatch) {
        self.0.registrations.lock().unwrap_or_else(PoisonError::into_inner).push(registration);
    }

    /// Notes that the server is about to end: it is not ready from now on, so that nobody sends it more.
    pub fn start_stopping(&self) {
        self.0.ends.store(true, Ordering::Release);
    }
}

impl HttpHandler for Ops {
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
            let answered = match request.uri().path() {
                "/healthz" | "/readyz" | "/metrics" if !is_read => return not_allowed(),
                "/healthz" => Ok(text("ok\n".to_owned(), PLAIN)),
                "/readyz" => inner.ready().await,
                "/metrics" => inner.metrics().await,
                path => Err(Problem::not_found(format!("there is nothing at {path}"))),
            };
            let mut response = answered.unwrap_or_else(Problem::into_response);
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        })
    }

    fn serves(&self, path: &str) -> bool {
        matches!(path, "/healthz" | "/readyz" | "/metrics")
    }
}

impl Inner {
    /// Reports whether the system takes work. The reason why its log takes none is not for callers without a credential.
    async fn ready(&self) -> Result<Response, Problem> {
        let unready = |code, why: &str| Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, why);
        if self.ends.load(Ordering::Acquire) {
            return Err(unready("stopped", "the server is about to end"));
        }
        let health = self.system.health().await?;
        if health.poisoned.is_some() {
            return Err(unready("poisoned", "the log takes no more appends until it is reopened"));
        }
        if !health.open {
            return Err(unready("stopped", "the system has stopped"));
        }
        Ok(text("ready\n".to_owned(), PLAIN))
    }

    async fn metrics(&self) -> Result<Response, Problem> {
        let figures = self.system.metrics().await?;
        let mut out = Exposition::default();
        figures.write(&mut out);
        if let Some(waits) = self.waits().await {
            let rows = [
                ("approval", waits.approval),
                ("answer", waits.answer),
                ("verdict", waits.verdict),
                ("message", waits.message),
            ];
            let mut family = out.gauge("taskreel_tasks_waiting", "Tasks that wait for a person");
            for (reason, count) in rows {
                family.sample(&[("agent", &figures.agent), ("for", reason)], count);
            }
        }
        self.requests.write(&mut out);
        let help = "Requests refused before a protocol saw them";
        let mut family = out.counter("taskreel_http_refusals_total", help);
        for (reason, count) in self.refusals.rows() {
            family.sample(&[("reason", reason.as_str())], count);
        }
        #[cfg(feature = "client")]
        registration::write(&self.registrations.lock().unwrap_or_else(PoisonError::into_inner), &mut out);
        Ok(text(out.finish(), EXPOSITION))
    }

    /// Returns the tasks that wait; `None` if the log cannot be read now.
    async fn waits(&self) -> Option<Waits> {
        // One count at a time: a request that comes meanwhile gets its result.
        let mut kept = self.waits.lock().await;
        if let Some((at, waits)) = &*kept
            && at.elapsed() < WAITS_KEPT
        {
            return Some(*waits);
        }
        let mut waits = Waits::default();
        for task in self.system.waiting().await.ok()? {
            waits.approval += usize::from(!task.approvals.is_empty());
            waits.answer += usize::from(!task.questions.is_empty());
            waits.verdict += usize::from(!task.unknown.is_empty());
            let is_named =
                !(task.approvals.is_empty() && task.questions.is_empty() && task.unknown.is_empty());
            waits.message += usize::from(!is_named);
        }
        *kept = Some((Instant::now(), waits));
        Some(waits)
    }
}

fn text(text: String, kind: &'static str) -> Response {
    let mut response = Response::new(ResponseBody::Whole(Bytes::from(text)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn not_allowed() -> Response {
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "use GET");
    let mut response = problem.into_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}
