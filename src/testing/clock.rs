//! A clock whose time passes only when a test says so.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proto_events::envelope::Timestamp;

use crate::ports::{Clock, Sleep};

/// When a virtual clock begins unless told otherwise: 1 January 2026, midnight UTC, in microseconds.
const BEGINNING: Timestamp = Timestamp(1_767_225_600_000_000);

/// A clock that stands still until it is told to go on. Clones are the same clock.
///
/// Whoever waits on it is woken when its time has come: at [`VirtualClock::advance`], in the order of the times, or
/// one after another by [`VirtualClock::step`].
#[derive(Clone)]
pub struct VirtualClock(Arc<Mutex<Inner>>);

struct Inner {
    now: Timestamp,
    /// Who waits, by the time they wait for and the order in which they came.
    timers: BTreeMap<(Timestamp, u64), Option<Waker>>,
    came: u64,
}

thread_local! {
    /// The clock of the system whose thread this is.
    static OF_THIS_THREAD: RefCell<Option<VirtualClock>> = const { RefCell::new(None) };
}

/// Waits for so long by the clock of the system under test that this runs in: for tools and models that take their time.
/// Anywhere else it is real time.
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
    /// A clock that shows the first of January 2026.
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock that shows this time.
    pub fn starting_at(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(Inner { now, timers: BTreeMap::new(), came: 0 })))
    }

    /// Lets so much time pass. Everyone whose time comes is woken, the earliest first; they run when their
    /// threads get to it, so what they wait for after that is not among them: see [`super::Driver::advance`].
    pub fn advance(&self, time: Duration) {
        let until = plus(self.lock().now, time);
        while self.wake_next(until) {}
        self.go_to(until);
    }

    /// [`sleep`] on this thread is by this clock from now on.
    pub(super) fn is_of_this_thread(&self) {
        OF_THIS_THREAD.set(Some(self.clone()));
    }

    /// Shows this time, unless it shows a later one.
    pub(super) fn go_to(&self, time: Timestamp) {
        let mut inner = self.lock();
        inner.now = inner.now.max(time);
    }

    /// Goes on to the next time that somebody waits for, and wakes them. False if nobody waits.
    pub fn step(&self) -> bool {
        self.wake_next(Timestamp(i64::MAX))
    }

    /// How many wait for a time.
    pub fn timers(&self) -> usize {
        self.lock().timers.len()
    }

    /// How long until the next of them is woken.
    pub fn next_timer(&self) -> Option<Duration> {
        let inner = self.lock();
        let ((due, _), _) = inner.timers.first_key_value()?;
        let micros = due.0.saturating_sub(inner.now.0);
        Some(Duration::from_micros(u64::try_from(micros).unwrap_or_default()))
    }

    /// Wakes those who wait for the earliest time, if that is not behind this one.
    pub(super) fn wake_next(&self, until: Timestamp) -> bool {
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
    fn now(&self) -> Timestamp {
        self.lock().now
    }

    fn sleep(&self, time: Duration) -> Sleep {
        let mut inner = self.lock();
        inner.came += 1;
        let key = (plus(inner.now, time), inner.came);
        inner.timers.insert(key, None);
        Box::pin(Timer { clock: self.clone(), key })
    }
}

/// One who waits. Its place in the clock is its own until it is woken or goes away.
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
        // A waker may own who waits: it is dropped without the lock.
        drop(gone);
    }
}

/// A time further on; the end of time at most.
pub(super) fn plus(at: Timestamp, time: Duration) -> Timestamp {
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
