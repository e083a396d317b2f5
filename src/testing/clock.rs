//! A clock whose time a test controls.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proto_events::envelope::Timestamp;
use taskreel_log::ports::{Clock, Sleep};

/// The default start of a virtual clock: 1 January 2026, midnight UTC, in microseconds.
const BEGINNING: Timestamp = Timestamp(1_767_225_600_000_000);

/// A clock that moves only when a test advances it. Clones are the same clock.
///
/// Timers are woken when they are due: by [`VirtualClock::advance`], in the order of their times, or one
/// after another by [`VirtualClock::step`].
#[derive(Clone)]
pub struct VirtualClock(Arc<Mutex<Inner>>);

struct Inner {
    /// The time that has passed, counted from the time that was shown first: no correction changes it.
    now: Timestamp,
    /// The sum of the corrections, in microseconds.
    off: i64,
    /// The number of uses until one panics.
    fuse: Option<u64>,
    /// The pending timers, by due time and order of creation.
    timers: BTreeMap<(Timestamp, u64), Option<Waker>>,
    came: u64,
}

/// The text of the panic of [`VirtualClock::panic_at`].
const BROKEN: &str = "the clock broke";

thread_local! {
    /// The clock of the system that runs on this thread.
    static OF_THIS_THREAD: RefCell<Option<VirtualClock>> = const { RefCell::new(None) };
}

/// Waits for this duration by the clock of the system under test on this thread, for tools and models that
/// take time. On any other thread it waits in real time.
pub async fn sleep(time: Duration) {
    let clock = OF_THIS_THREAD.with_borrow(Clone::clone);
    match clock {
        Some(clock) => clock.sleep(time).await,
        None => tokio::time::sleep(time).await,
    }
}

impl fmt::Debug for VirtualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("VirtualClock").field("now", &inner.now).field("timers", &inner.timers.len()).finish()
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::starting_at(BEGINNING)
    }
}

impl VirtualClock {
    /// Returns a clock that shows the first of January 2026.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a clock that shows this time.
    pub fn starting_at(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(Inner { now, off: 0, fuse: None, timers: BTreeMap::new(), came: 0 })))
    }

    /// Advances the clock by `time`. Timers that fall due are woken, the earliest first; their tasks run
    /// later on their own threads, so timers that they then create are not included: see
    /// [`crate::testing::system::Driver::advance`].
    pub fn advance(&self, time: Duration) {
        let until = plus(self.lock().now, time);
        while self.wake_next(until) {}
        self.go_to(until);
    }

    /// Corrects the time that the clock shows by this number of milliseconds, back if negative, as the clock of a machine
    /// is corrected. Timers are due when they would have been.
    pub fn step_by(&self, millis: i64) {
        let mut inner = self.lock();
        inner.off = inner.off.saturating_add(millis.saturating_mul(1_000));
    }

    /// Makes the clock panic once when it is asked for the time: the first time, the second, and so on from now, as a
    /// host's clock may do. Timers do not panic: the machine's would take their place, which no test controls.
    pub fn panic_at(&self, uses: u64) {
        self.lock().fuse = Some(uses);
    }

    /// Panics if this is the time that does.
    fn used(&self) {
        let mut inner = self.lock();
        let Some(left) = inner.fuse.map(|left| left.saturating_sub(1)) else { return };
        inner.fuse = Some(left).filter(|left| *left > 0);
        drop(inner);
        if left == 0 {
            // Without the panic hook, which would print it.
            resume_unwind(Box::new(BROKEN.to_owned()));
        }
    }

    /// Returns the time without the corrections, by which timers are due.
    pub(crate) fn steady(&self) -> Timestamp {
        self.lock().now
    }

    /// Makes this the clock of [`sleep`] on this thread.
    pub(crate) fn is_of_this_thread(&self) {
        OF_THIS_THREAD.set(Some(self.clone()));
    }

    /// Lets the time pass up to this one, without the corrections.
    pub(crate) fn go_to(&self, time: Timestamp) {
        let mut inner = self.lock();
        inner.now = inner.now.max(time);
    }

    /// Advances to the next due time and wakes its timers. Returns false if no timer is left.
    pub fn step(&self) -> bool {
        self.wake_next(Timestamp(i64::MAX))
    }

    /// Returns the number of pending timers.
    pub fn timers(&self) -> usize {
        self.lock().timers.len()
    }

    /// Returns the time until the next timer is due.
    pub fn next_timer(&self) -> Option<Duration> {
        let inner = self.lock();
        let ((due, _), _) = inner.timers.first_key_value()?;
        let micros = due.0.saturating_sub(inner.now.0);
        Some(Duration::from_micros(u64::try_from(micros).unwrap_or_default()))
    }

    /// Wakes the timers with the earliest due time, if that is not after `until`.
    pub(crate) fn wake_next(&self, until: Timestamp) -> bool {
        let mut inner = self.lock();
        let Some(((due, _), _)) = inner.timers.first_key_value() else { return false };
        let due = *due;
        if due > until {
            return false;
        }
        inner.now = inner.now.max(due);
        let mut wakers = Vec::new();
        while let Some(first) = inner.timers.first_entry() {
            if first.key().0 > due {
                break;
            }
            wakers.extend(first.remove());
        }
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for VirtualClock {
    fn monotonic(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.steady().0).unwrap_or(0))
    }

    fn now(&self) -> Timestamp {
        self.used();
        let inner = self.lock();
        Timestamp(inner.now.0.saturating_add(inner.off))
    }

    fn sleep(&self, time: Duration) -> Sleep {
        let mut inner = self.lock();
        inner.came += 1;
        let key = (plus(inner.now, time), inner.came);
        inner.timers.insert(key, None);
        Box::pin(Timer { clock: self.clone(), key })
    }
}

/// A timer. It keeps its entry in the clock until it is woken or dropped.
struct Timer {
    clock: VirtualClock,
    key: (Timestamp, u64),
}

impl Future for Timer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.clock.lock().timers.get_mut(&self.key) {
            None => Poll::Ready(()),
            Some(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let gone = self.clock.lock().timers.remove(&self.key);
        // A waker may own the waiting task: it is dropped without the lock.
        drop(gone);
    }
}

/// Returns the later time, at most the largest representable one.
pub(crate) fn plus(at: Timestamp, time: Duration) -> Timestamp {
    let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    Timestamp(at.0.saturating_add(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn is_over(sleep: &mut Sleep) -> bool {
        sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn time_stands_still_until_it_is_told_to_pass() {
        let clock = VirtualClock::new();
        let (start, mut short, mut long) = (clock.now(), clock.sleep(SECOND), clock.sleep(SECOND * 90));
        assert!(!is_over(&mut short));
        clock.advance(SECOND / 2);
        assert!(!is_over(&mut short));
        assert_eq!(clock.next_timer(), Some(SECOND / 2));
        clock.advance(SECOND / 2);
        assert!(is_over(&mut short) && !is_over(&mut long));
        assert_eq!((clock.timers(), clock.now()), (1, plus(start, SECOND)));
        assert!(clock.step());
        assert!(is_over(&mut long));
        assert_eq!((clock.step(), clock.now()), (false, plus(start, SECOND * 90)));
    }

    #[test]
    fn a_correction_moves_what_is_shown_and_no_timer() {
        let clock = VirtualClock::starting_at(Timestamp(0));
        let mut sleep = clock.sleep(SECOND);
        clock.step_by(-3_600_000);
        assert_eq!((clock.now(), clock.steady()), (Timestamp(-3_600_000_000), Timestamp(0)));
        assert_eq!(clock.next_timer(), Some(SECOND));
        clock.advance(SECOND);
        assert!(is_over(&mut sleep));
        assert_eq!((clock.now(), clock.steady()), (Timestamp(-3_599_000_000), Timestamp(1_000_000)));
    }

    #[test]
    fn who_goes_away_waits_no_more_and_no_time_is_beyond_the_end() {
        let clock = VirtualClock::starting_at(Timestamp(5));
        drop(clock.sleep(SECOND));
        assert_eq!(clock.timers(), 0);
        let mut never = clock.sleep(Duration::MAX);
        clock.advance(SECOND);
        assert!(!is_over(&mut never));
        let mut now = clock.sleep(Duration::ZERO);
        assert!(!is_over(&mut now), "also what is due at once is due when time passes");
        clock.advance(Duration::ZERO);
        assert!(is_over(&mut now));
    }

    #[tokio::test]
    async fn who_waits_in_a_task_is_woken() {
        let clock = VirtualClock::new();
        let waits = tokio::spawn(clock.sleep(SECOND * 3_600));
        while clock.timers() == 0 {
            tokio::task::yield_now().await;
        }
        clock.advance(SECOND * 3_600);
        waits.await.unwrap();
    }
}
