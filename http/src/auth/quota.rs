//! The bounds for each principal: requests a second, requests at once, streams at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::{PRINCIPALS_COUNTED, REQUESTS_AT_ONCE, STREAMS_AT_ONCE};

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
}

#[derive(Debug)]
struct Use {
    /// The requests that may still come now.
    left: f64,
    since: Instant,
    requests: usize,
    streams: usize,
}

/// A place among the requests or the streams of a principal, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    usage: Arc<Usage>,
    principal: String,
    is_stream: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(used) = self.usage.lock().get_mut(&self.principal) {
            let count = if self.is_stream { &mut used.streams } else { &mut used.requests };
            *count = count.saturating_sub(1);
        }
    }
}

impl Usage {
    pub(crate) fn new(quota: Quota) -> Self {
        Self { quota, of: Mutex::default() }
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
    ) -> Result<(Place, Option<Place>), OverQuota> {
        let burst = self.burst();
        let mut all = self.lock();
        if all.len() >= PRINCIPALS_COUNTED && !all.contains_key(principal) {
            let rate = self.quota.requests_per_second;
            all.retain(|_, used| used.requests + used.streams > 0 || used.refilled(rate, burst, now) < burst);
            if all.len() >= PRINCIPALS_COUNTED {
                return Err(OverQuota { retry_seconds: 1, bound: "principals at once" });
            }
        }
        let fresh = Use { left: burst, since: now, requests: 0, streams: 0 };
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
        let place = |is_stream| Place { usage: Arc::clone(self), principal: principal.to_owned(), is_stream };
        Ok((place(false), is_stream.then(|| place(true))))
    }

    /// Takes a place for a stream that was not asked for as one. It is never refused: the request was carried out.
    pub(crate) fn take_stream(self: &Arc<Self>, principal: &str) -> Place {
        if let Some(used) = self.lock().get_mut(principal) {
            used.streams += 1;
        }
        Place { usage: Arc::clone(self), principal: principal.to_owned(), is_stream: true }
    }
}

impl Use {
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
