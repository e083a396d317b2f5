//! The requests of a server, counted by protocol and status, with the times of their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use http::header::UPGRADE;
use http::{Method, StatusCode};
use taskreel::{BoxFuture, Exposition};
use taskreel_log::api::Histogram;

use crate::auth::routes::{RouteClass, rule_of};
use crate::handler::message::{HttpHandler, Request, Response};

/// The bounds of the times to an answer's head, in microseconds.
const ANSWER_MICROS: &[u64] = &[
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 10_000_000,
    60_000_000,
];

/// The statuses that are counted each for itself: those that handlers answer with. Others count by their class.
const STATUSES: [u16; 24] = [
    101, 200, 204, 304, 307, 400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 416, 422, 426, 429, 431,
    500, 503, 504,
];

/// The number of counts of a protocol: its statuses, then the five classes of others.
const COUNTS: usize = STATUSES.len() + 5;

/// The counts of a server's requests.
#[derive(Debug)]
pub struct Requests {
    by_status: [[AtomicU64; COUNTS]; RouteClass::ALL.len()],
    micros: [Histogram; RouteClass::ALL.len()],
    in_flight: AtomicUsize,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            by_status: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            micros: std::array::from_fn(|_| Histogram::new(ANSWER_MICROS)),
            in_flight: AtomicUsize::new(0),
        }
    }
}

impl Requests {
    fn record(&self, class: RouteClass, status: StatusCode, began: Instant) {
        let code = status.as_u16();
        let by_class = usize::from(code / 100).clamp(1, 5) - 1;
        let place = STATUSES.iter().position(|known| *known == code).unwrap_or(STATUSES.len() + by_class);
        if let Some(count) = self.by_status.get(class as usize).and_then(|row| row.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(times) = self.micros.get(class as usize) {
            times.record(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// Adds the counts to a text of figures.
    pub(crate) fn write(&self, out: &mut Exposition) {
        let mut family = out.counter("taskreel_http_requests_total", "Answered requests");
        for (class, row) in RouteClass::ALL.into_iter().zip(&self.by_status) {
            for (place, count) in row.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                let others = || format!("{}xx", place + 1 - STATUSES.len());
                let status = STATUSES.get(place).map_or_else(others, u16::to_string);
                if count > 0 {
                    family.sample(&[("class", class.as_str()), ("status", &status)], count);
                }
            }
        }
        let help = "Times to the head of an answer";
        let mut family = out.histogram("taskreel_http_request_duration_seconds", help, 1_000_000);
        for (class, times) in RouteClass::ALL.into_iter().zip(&self.micros) {
            family.distribution(&[("class", class.as_str())], &times.read());
        }
        out.gauge("taskreel_http_requests_in_flight", "Requests without the head of an answer yet")
            .sample(&[], self.in_flight.load(Ordering::Relaxed));
    }
}

/// A handler whose requests are counted. It stands before all others.
pub struct CountedHandler {
    handler: Arc<dyn HttpHandler>,
    requests: Arc<Requests>,
}

impl std::fmt::Debug for CountedHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CountedFace").field("requests", &self.requests).finish_non_exhaustive()
    }
}

impl CountedHandler {
    /// Counts the requests of a handler.
    pub fn new(handler: Arc<dyn HttpHandler>, requests: Arc<Requests>) -> Self {
        Self { handler, requests }
    }
}

/// A request in flight, which ends also if its client goes away.
struct InFlight(Arc<Requests>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HttpHandler for CountedHandler {
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let is_upgrade = *request.method() == Method::GET && request.headers().contains_key(UPGRADE);
        let class = rule_of(request.method(), request.uri().path(), is_upgrade).class;
        let began = Instant::now();
        self.requests.in_flight.fetch_add(1, Ordering::Relaxed);
        let guard = InFlight(Arc::clone(&self.requests));
        let answer = self.handler.answer(request);
        Box::pin(async move {
            let response = answer.await;
            guard.0.record(class, response.status(), began);
            response
        })
    }

    fn checks_callers(&self) -> bool {
        self.handler.checks_callers()
    }

    fn serves(&self, path: &str) -> bool {
        self.handler.serves(path)
    }

    fn takes(&self, method: &Method, path: &str) -> bool {
        self.handler.takes(method, path)
    }
}
