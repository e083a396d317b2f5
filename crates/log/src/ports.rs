//! The only sources of time and randomness. Tests replace them with their own.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proto_events::envelope::Timestamp;
use proto_events::id::Mint;

/// A timer that can be awaited on any thread; it has no result.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of the time and of timers.
pub trait Clock: Send + Sync {
    /// Returns the current time, UTC.
    fn now(&self) -> Timestamp;

    /// Returns the time since some moment, which no correction of the clock moves: deadlines are kept by it as long as
    /// the process lives. By default it is [`Clock::now`]: a clock that is never corrected.
    fn monotonic(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.now().0).unwrap_or(0))
    }

    /// Returns a future that ends once `time` has passed since this call. Back-offs, time limits of attempts
    /// and all other waiting that affects what is written go through here, so that a test can let hours pass
    /// at once. It is awaited on a tokio runtime with timers.
    fn sleep(&self, time: Duration) -> Sleep {
        let until = tokio::time::Instant::now().checked_add(time);
        Box::pin(async move {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                // Further away than the machine can count.
                None => std::future::pending().await,
            }
        })
    }
}

/// A source of random ids.
pub trait IdSource: Send + Sync {
    /// Returns 128 bits that have not been returned before.
    fn random(&self) -> [u8; 16];
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let micros = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros),
        };
        Timestamp(micros)
    }

    fn monotonic(&self) -> Duration {
        static FIRST: OnceLock<Instant> = OnceLock::new();
        FIRST.get_or_init(Instant::now).elapsed()
    }
}

/// The machine's randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct RandomIds;

/// The number of random bytes that a thread draws at once: a system call for each id costs more than the id.
const DRAWN_BYTES: usize = 1024;

/// Random bytes that were drawn and not taken yet.
struct RandomBytes {
    bytes: [u8; DRAWN_BYTES],
    left: usize,
}

thread_local! {
    static DRAWN: RefCell<RandomBytes> = const { RefCell::new(RandomBytes { bytes: [0; DRAWN_BYTES], left: 0 }) };
}

impl RandomBytes {
    /// Takes 16 bytes, and erases them here: who reads this memory later learns no id. `None` if the operating system gives
    /// none.
    fn next(&mut self) -> Option<[u8; 16]> {
        if self.left == 0 {
            getrandom::fill(&mut self.bytes).ok()?;
            self.left = DRAWN_BYTES;
        }
        let (rest, taken) = self.bytes.get_mut(..self.left)?.split_last_chunk_mut::<16>()?;
        self.left = rest.len();
        Some(std::mem::take(taken))
    }
}

impl IdSource for RandomIds {
    fn random(&self) -> [u8; 16] {
        let drawn = DRAWN.try_with(|drawn| drawn.try_borrow_mut().ok()?.next());
        drawn.ok().flatten().unwrap_or_else(|| uuid::Uuid::new_v4().into_bytes())
    }
}

/// The clock and the id source together, as the `Mint` that `proto-events` needs.
#[derive(Clone)]
pub struct Ports {
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub ids: Arc<dyn IdSource>,
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ports").finish_non_exhaustive()
    }
}

impl Default for Ports {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), ids: Arc::new(RandomIds) }
    }
}

impl Mint for Ports {
    fn id(&mut self, prefix: &str) -> String {
        let at = self.clock.now();
        let stamp = stamp(at);
        let mut random = [0; uuid::fmt::Simple::LENGTH];
        let random: &str = uuid::Builder::from_random_bytes(self.ids.random())
            .into_uuid()
            .simple()
            .encode_lower(&mut random);
        // Protolink gives contexts, runs, actions and approvals six digits, all other ids eight.
        let digits = if matches!(prefix, "ctx_" | "run_" | "action_" | "approval_") { 6 } else { 8 };
        format!("{prefix}{stamp}_{}", random.get(..digits).unwrap_or(random))
    }

    fn uuid(&mut self) -> String {
        uuid::Builder::from_random_bytes(self.ids.random()).into_uuid().to_string()
    }

    fn timestamp(&mut self) -> String {
        self.clock.now().to_string()
    }
}

/// Returns the digits of a time, to the second, as they stand in ids.
fn stamp(at: Timestamp) -> String {
    let text = at.to_string();
    match text.get(.."2026-11-21T07:03:20".len()) {
        // A year of four digits.
        Some(second)
            if second.as_bytes().get(4) == Some(&b'-')
                && second.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            let mut digits = String::with_capacity(14);
            digits.extend(second.split(|c: char| !c.is_ascii_digit()));
            digits
        }
        _ => jiff::Timestamp::from_microsecond(at.0)
            .map_or_else(|_| "00000000000000".to_owned(), |at| at.strftime("%Y%m%d%H%M%S").to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_digits_of_a_time_are_those_of_the_general_formatter() {
        let (first, last) = (-377_705_023_201_000_000_i64, 253_402_207_200_999_999_i64);
        let step = (last / 9_000) - (first / 9_000);
        for micros in (0..9_000).map(|n| first + n * step + n * 1_000_003).chain([0, -1, first, last]) {
            let Ok(at) = jiff::Timestamp::from_microsecond(micros) else { continue };
            assert_eq!(stamp(Timestamp(micros)), at.strftime("%Y%m%d%H%M%S").to_string(), "{micros}");
        }
        assert_eq!(stamp(Timestamp(i64::MAX)), "00000000000000");
    }

    #[test]
    fn ids_of_all_threads_differ_and_are_erased_where_they_were_taken_from() {
        let many = || (0..1_000).map(|_| RandomIds.random()).collect::<Vec<_>>();
        let threads = (0..4).map(|_| std::thread::spawn(many)).collect::<Vec<_>>();
        let ids: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 4_000);
        let mut drawn = RandomBytes { bytes: [0; DRAWN_BYTES], left: 0 };
        let first = drawn.next().unwrap();
        assert_ne!(first, [0; 16]);
        assert_eq!(drawn.left, DRAWN_BYTES - 16);
        assert!(drawn.bytes.ends_with(&[0; 16]));
        for _ in 1..DRAWN_BYTES / 16 {
            drawn.next().unwrap();
        }
        assert_eq!((drawn.left, drawn.bytes), (0, [0; DRAWN_BYTES]));
    }
}
