//! The bounds for each principal: requests a second, requests at once, streams at once, bytes of answers that wait to be read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::limits::{ANSWERS_OF_ALL, ANSWERS_OF_ONE, PRINCIPALS_COUNTED, REQUESTS_AT_ONCE, STREAMS_AT_ONCE};

/// The bounds for each principal.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Quota {
    /// The requests a second, on average; `None` for no bound.
    pub requests_per_second: Option<u32>,
    /// The requests that may come at once after a quiet time; the requests of one second by default.
    pub burst: Option<u32>,
    /// The requests that are answered at once.
    pub requests_at_once: usize,
    /// The streams and sockets at once.
    pub streams_at_once: usize,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            requests_per_second: None,
            burst: None,
            requests_at_once: REQUESTS_AT_ONCE,
            streams_at_once: STREAMS_AT_ONCE,
        }
    }
}

/// The time after which a request that was refused may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OverQuota {
    /// The time, in whole seconds.
    pub(crate) retry_seconds: u64,
    /// The bound that was reached.
    pub(crate) bound: &'static str,
}

/// The use of all principals.
#[derive(Debug)]
pub(crate) struct Usage {
    quota: Quota,
    of: Mutex<HashMap<String, Use>>,
    /// Told when bytes of an answer were given back.
    read: Notify,
}

#[derive(Debug)]
struct Use {
    /// The requests that may still come now.
    left: f64,
    since: Instant,
    requests: usize,
    streams: usize,
    answer_bytes: usize,
}

/// The bound that a place is taken of.
#[derive(Debug, Clone, Copy)]
enum QuotaBound {
    Requests,
    Streams,
    AnswerBytes(usize),
}

/// A place among the requests, the streams or the bytes of answers of a principal, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct QuotaPermit {
    usage: Arc<Usage>,
    principal: String,
    of: QuotaBound,
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        if let Some(used) = self.usage.lock().get_mut(&self.principal) {
            match self.of {
                QuotaBound::Requests => used.requests = used.requests.saturating_sub(1),
                QuotaBound::Streams => used.streams = used.streams.saturating_sub(1),
                QuotaBound::AnswerBytes(bytes) => used.answer_bytes = used.answer_bytes.saturating_sub(bytes),
            }
        }
        if matches!(self.of, QuotaBound::AnswerBytes(_)) {
            self.usage.read.notify_waiters();
        }
    }
}

impl Usage {
    pub(crate) fn new(quota: Quota) -> Self {
        Self { quota, of: Mutex::default(), read: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Use>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the most requests that may come at once.
    fn burst(&self) -> f64 {
        f64::from(self.quota.burst.or(self.quota.requests_per_second).unwrap_or(1).max(1))
    }

    /// Takes a place for a request, and one for a stream if it asks for one.
    ///
    /// # Errors
    /// [`OverQuota`] if a bound is reached; nothing is taken then.
    pub(crate) fn take(
        self: &Arc<Self>,
        principal: &str,
        is_stream: bool,
        now: Instant,
    ) -> Result<(QuotaPermit, Option<QuotaPermit>), OverQuota> {
        let burst = self.burst();
        let mut all = self.lock();
        if all.len() >= PRINCIPALS_COUNTED && !all.contains_key(principal) {
            let rate = self.quota.requests_per_second;
            all.retain(|_, used| !used.is_idle() || used.refilled(rate, burst, now) < burst);
            if all.len() >= PRINCIPALS_COUNTED {
                return Err(OverQuota { retry_seconds: 1, bound: "principals at once" });
            }
        }
        let fresh = Use { left: burst, since: now, requests: 0, streams: 0, answer_bytes: 0 };
        let used = all.entry(principal.to_owned()).or_insert(fresh);
        if used.requests >= self.quota.requests_at_once {
            return Err(OverQuota { retry_seconds: 1, bound: "requests at once" });
        }
        if is_stream && used.streams >= self.quota.streams_at_once {
            return Err(OverQuota { retry_seconds: 1, bound: "streams at once" });
        }
        if let Some(rate) = self.quota.requests_per_second {
            (used.left, used.since) = (used.refilled(Some(rate), burst, now), now);
            if used.left < 1.0 {
                let wait = Duration::from_secs_f64((1.0 - used.left) / f64::from(rate.max(1)));
                let retry_seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
                return Err(OverQuota { retry_seconds: retry_seconds.max(1), bound: "requests per second" });
            }
            used.left -= 1.0;
        }
        used.requests += 1;
        used.streams += usize::from(is_stream);
        drop(all);
        Ok((
            self.permit(principal, QuotaBound::Requests),
            is_stream.then(|| self.permit(principal, QuotaBound::Streams)),
        ))
    }

    fn permit(self: &Arc<Self>, principal: &str, of: QuotaBound) -> QuotaPermit {
        QuotaPermit { usage: Arc::clone(self), principal: principal.to_owned(), of }
    }

    /// Takes a place for a stream that was not asked for as one. It is never refused: the request was carried out.
    pub(crate) fn take_stream(self: &Arc<Self>, principal: &str) -> QuotaPermit {
        if let Some(used) = self.lock().get_mut(principal) {
            used.streams += 1;
        }
        self.permit(principal, QuotaBound::Streams)
    }

    /// Takes the bytes of an answer, once so many others were read that there is room for them. A principal for which nothing
    /// waits to be read has room for one answer of any length.
    pub(crate) async fn take_answer(self: &Arc<Self>, principal: &str, bytes: usize) -> QuotaPermit {
        loop {
            let read = self.read.notified();
            tokio::pin!(read);
            // Whatever is read from here on is heard of.
            read.as_mut().enable();
            if self.has_taken_answer(principal, bytes) {
                return self.permit(principal, QuotaBound::AnswerBytes(bytes));
            }
            read.await;
        }
    }

    fn has_taken_answer(&self, principal: &str, bytes: usize) -> bool {
        let mut all = self.lock();
        let unread: usize = all.values().map(|used| used.answer_bytes).sum();
        // A principal of a request in flight is counted.
        let Some(used) = all.get_mut(principal) else { return true };
        let has_room = used.answer_bytes + bytes <= ANSWERS_OF_ONE && unread + bytes <= ANSWERS_OF_ALL;
        if has_room || used.answer_bytes == 0 && unread < ANSWERS_OF_ALL {
            used.answer_bytes += bytes;
            return true;
        }
        false
    }
}

impl Use {
    /// Whether nothing of the principal is open.
    const fn is_idle(&self) -> bool {
        self.requests == 0 && self.streams == 0 && self.answer_bytes == 0
    }

    /// Returns the requests that may come at once by now.
    fn refilled(&self, rate: Option<u32>, burst: f64, now: Instant) -> f64 {
        let Some(rate) = rate else { return burst };
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        (self.left + passed * f64::from(rate)).min(burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_given_back_when_it_is_dropped_and_others_have_their_own() {
        let quota = Quota { requests_at_once: 2, streams_at_once: 1, ..Quota::default() };
        let (usage, now) = (Arc::new(Usage::new(quota)), Instant::now());
        let first = usage.take("ada", true, now).unwrap();
        assert_eq!(usage.take("ada", true, now).unwrap_err().bound, "streams at once");
        let second = usage.take("ada", false, now).unwrap();
        assert_eq!(usage.take("ada", false, now).unwrap_err().bound, "requests at once");
        assert!(usage.take("bob", true, now).is_ok());
        drop(first);
        assert!(usage.take("ada", true, now).is_ok());
        drop(second);
    }

    #[tokio::test]
    async fn a_long_answer_waits_until_others_were_read_and_a_principal_has_one_however_long() {
        let (usage, now) = (Arc::new(Usage::new(Quota::default())), Instant::now());
        let _requests: Vec<_> = ["ada", "bob"].map(|name| usage.take(name, false, now).unwrap()).into();
        let is_at_once = async |name, bytes| {
            let taken = tokio::time::timeout(Duration::from_millis(20), usage.take_answer(name, bytes)).await;
            taken.ok()
        };
        let huge = is_at_once("ada", 2 * ANSWERS_OF_ONE).await.expect("the first one has room");
        assert!(is_at_once("ada", 1).await.is_none());
        let large = is_at_once("bob", ANSWERS_OF_ONE).await.expect("others have their own room");
        assert!(is_at_once("bob", 1).await.is_none());
        let waits = tokio::spawn({
            let usage = Arc::clone(&usage);
            async move { usage.take_answer("ada", 5).await }
        });
        tokio::task::yield_now().await;
        drop(huge);
        let five = waits.await.unwrap();
        // All together have a bound of their own.
        let rest = is_at_once("ada", ANSWERS_OF_ONE - 5).await.unwrap();
        drop((large, five, rest));
        assert!(usage.lock().values().all(|used| used.answer_bytes == 0));
    }

    #[test]
    fn requests_refill_with_time_and_the_answer_says_when() {
        let quota = Quota { requests_per_second: Some(2), burst: Some(3), ..Quota::default() };
        let (usage, start) = (Arc::new(Usage::new(quota)), Instant::now());
        let take = |after: u64| usage.take("ada", false, start + Duration::from_millis(after)).map(drop);
        assert!(take(0).is_ok() && take(0).is_ok() && take(0).is_ok());
        assert_eq!(take(0), Err(OverQuota { retry_seconds: 1, bound: "requests per second" }));
        assert!(take(499).is_err());
        assert!(take(510).is_ok());
        assert!(take(520).is_err());
        assert!(
            take(60_000).is_ok() && take(60_000).is_ok() && take(60_000).is_ok() && take(60_000).is_err()
        );
    }

    #[test]
    fn the_principals_that_are_counted_are_bounded_and_idle_ones_are_forgotten() {
        let (usage, now) = (Arc::new(Usage::new(Quota::default())), Instant::now());
        for index in 0..PRINCIPALS_COUNTED + 10 {
            usage.take(&format!("p{index}"), false, now).unwrap();
        }
        assert!(usage.lock().len() <= PRINCIPALS_COUNTED);
    }
}
