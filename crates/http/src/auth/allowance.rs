//! The quota of one principal, as the guard hands it to a handler whose connections carry many requests.

use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;

use crate::auth::quota::{QuotaPermit, Usage};
use crate::auth::refusals::{Refusal, Refusals};
use crate::error::Problem;
use crate::limits::ANSWER_TURN;

/// The quota of one principal. It stands in the extensions of each request that the guard lets in.
#[derive(Debug, Clone)]
pub(crate) struct Allowance {
    usage: Arc<Usage>,
    refusals: Arc<Refusals>,
    principal: String,
}

/// The places of a request, which are given back when this is dropped.
#[derive(Debug)]
pub(crate) struct TakenQuota {
    /// The place among the requests.
    pub(crate) request: QuotaPermit,
    /// The place among the streams, if one was asked for.
    pub(crate) stream: Option<QuotaPermit>,
}

/// A request beyond the quota.
#[derive(Debug)]
pub(crate) struct QuotaRefusal {
    /// The answer.
    pub(crate) problem: Problem,
    /// The time after which it may be sent again, in whole seconds.
    pub(crate) retry_seconds: u64,
}

impl Allowance {
    pub(crate) fn new(usage: Arc<Usage>, refusals: Arc<Refusals>, principal: &str) -> Self {
        Self { usage, refusals, principal: principal.to_owned() }
    }

    /// Takes the place of a request, and one of a stream if it asks for one.
    ///
    /// # Errors
    /// [`QuotaRefusal`] if a bound is reached; nothing is taken then, and the refusal is counted.
    pub(crate) fn take(&self, is_stream: bool) -> Result<TakenQuota, QuotaRefusal> {
        let taken = self.usage.take(&self.principal, is_stream, Instant::now());
        let (request, stream) = taken.map_err(|over| {
            self.refusals.count(Refusal::Quota);
            let message = format!("the bound of {} is reached", over.bound);
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", message);
            QuotaRefusal { problem, retry_seconds: over.retry_seconds }
        })?;
        Ok(TakenQuota { request, stream })
    }

    /// Takes the bytes of an answer, which are given back when they were sent; waits until there is room for them.
    ///
    /// # Errors
    /// [`Problem`] if other answers are not read in time; nothing is taken then.
    pub(crate) async fn take_answer(&self, bytes: usize) -> Result<QuotaPermit, Problem> {
        let taken = self.usage.take_answer(&self.principal, bytes);
        tokio::time::timeout(ANSWER_TURN, taken).await.map_err(|_| {
            self.refusals.count(Refusal::Quota);
            let message = "other answers wait to be read, and this one would be too many bytes; what was submitted goes on";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "answers_unread", message)
        })
    }

    /// Takes the place of a stream that was not asked for as one. It is never refused: the request was carried out.
    pub(crate) fn take_stream(&self) -> QuotaPermit {
        self.usage.take_stream(&self.principal)
    }
}
