//! Work on the pieces of a log by several threads, with the results in the order of the pieces. The caller's thread
//! works too: it takes the results, and meanwhile does whatever piece nobody has begun.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The number of pieces that may be begun before the oldest of them is taken, so that memory is bounded.
const AHEAD: u64 = 4;

/// The pieces that are being worked on.
struct Line<R> {
    state: Mutex<State<R>>,
    changed: Condvar,
    end: u64,
}

struct State<R> {
    /// The first piece that nobody has begun.
    next: u64,
    /// The piece whose result is taken next.
    wanted: u64,
    done: BTreeMap<u64, R>,
    waiting: usize,
    ended: bool,
    /// Whether a helper panicked: what it had begun will not be done by it.
    lost: bool,
}

impl<R> Line<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State<R>>) -> MutexGuard<'a, State<R>> {
        state.waiting += 1;
        let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    fn notify(&self, state: &State<R>) {
        // Nobody waits in most cases, and notifying is a system call.
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    fn admit_next(&self, state: &mut State<R>) -> Option<u64> {
        let piece = state.next;
        (piece < self.end.min(state.wanted.saturating_add(AHEAD))).then(|| {
            state.next += 1;
            piece
        })
    }

    fn finish(&self, piece: u64, result: R) {
        let mut state = self.lock();
        state.done.insert(piece, result);
        self.notify(&state);
    }

    /// Works on pieces until there are no more.
    fn help(&self, work: &impl Fn(u64) -> R) {
        let _guard = OnPanic(self);
        let mut state = self.lock();
        while !state.ended && state.next < self.end {
            match self.admit_next(&mut state) {
                Some(piece) => {
                    drop(state);
                    self.finish(piece, work(piece));
                    state = self.lock();
                }
                None => state = self.wait(state),
            }
        }
    }

    /// Returns the result of a piece, the next one that is taken.
    fn result_of(&self, piece: u64, work: &impl Fn(u64) -> R) -> R {
        let mut state = self.lock();
        state.wanted = piece;
        self.notify(&state);
        loop {
            if let Some(result) = state.done.remove(&piece) {
                return result;
            }
            if state.lost && state.next > piece {
                drop(state);
                return work(piece);
            }
            match self.admit_next(&mut state) {
                Some(begun) => {
                    drop(state);
                    let result = work(begun);
                    if begun == piece {
                        return result;
                    }
                    self.finish(begun, result);
                    state = self.lock();
                }
                None => state = self.wait(state),
            }
        }
    }
}

/// Tells the caller of a panic of a helper.
struct OnPanic<'a, R>(&'a Line<R>);

impl<R> Drop for OnPanic<'_, R> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.lock();
            state.lost = true;
            self.0.notify(&state);
        }
    }
}

/// Ends the helpers, however the caller ends.
struct LineGuard<'a, R>(&'a Line<R>);

impl<R> Drop for LineGuard<'_, R> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.ended = true;
        self.0.notify(&state);
    }
}

/// Does `work` for each piece, on so many threads with the caller's own, and shows `take` the results in the order of
/// the pieces, until it returns `Break`. When this returns, no thread is left.
///
/// # Panics
/// With the panic of `work` or `take`.
pub(crate) fn in_order<R: Send>(
    pieces: Range<u64>,
    threads: usize,
    work: &(impl Fn(u64) -> R + Sync),
    take: &mut dyn FnMut(R) -> ControlFlow<()>,
) {
    let wanted = usize::try_from(pieces.end.saturating_sub(pieces.start)).unwrap_or(usize::MAX);
    let helpers = threads.min(wanted).saturating_sub(1);
    let state = State {
        next: pieces.start,
        wanted: pieces.start,
        done: BTreeMap::new(),
        waiting: 0,
        ended: false,
        lost: false,
    };
    let line = &Line { state: Mutex::new(state), changed: Condvar::new(), end: pieces.end };
    std::thread::scope(|scope| {
        let _ending = LineGuard(line);
        for _ in 0..helpers {
            let thread = std::thread::Builder::new().name("taskreel-scan".to_owned());
            // Without a helper this thread does all of it.
            if thread.spawn_scoped(scope, || line.help(work)).is_err() {
                break;
            }
        }
        for piece in pieces {
            if take(line.result_of(piece, work)).is_break() {
                break;
            }
        }
    });
}

/// Returns the number of threads of a pass over a log that nobody writes: two where there are two processors. More do
/// not help, since one thread takes what the others make.
pub(crate) fn threads_where_free() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().min(2))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_pieces_whatever_the_number_of_threads() {
        for threads in [0, 1, 2, 3, 8] {
            for pieces in [0..0, 3..3, 5..6, 0..2, 7..1_000] {
                let mut taken = Vec::new();
                let spin = |piece: u64| (0..piece * 7 % 501).fold(piece, |sum, _| std::hint::black_box(sum));
                in_order(pieces.clone(), threads, &spin, &mut |piece| {
                    taken.push(piece);
                    ControlFlow::Continue(())
                });
                assert!(taken.into_iter().eq(pieces.clone()), "{threads} threads, {pieces:?}");
            }
        }
    }

    #[test]
    fn two_threads_work_at_the_same_time() {
        // Neither gets past the barrier alone.
        let barrier = Barrier::new(2);
        let mut taken = 0;
        in_order(
            0..2,
            2,
            &|_| {
                barrier.wait();
            },
            &mut |()| {
                taken += 1;
                ControlFlow::Continue(())
            },
        );
        assert_eq!(taken, 2);
    }

    #[test]
    fn what_is_begun_before_it_is_taken_is_bounded() {
        let (begun, taken, most) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let work = |_| {
            let begun = begun.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(begun - taken.load(Ordering::SeqCst), Ordering::SeqCst);
        };
        in_order(0..500, 3, &work, &mut |()| {
            taken.fetch_add(1, Ordering::SeqCst);
            ControlFlow::Continue(())
        });
        // One more: a piece is begun when the one before is handed over, before it is counted as taken.
        assert!(most.load(Ordering::SeqCst) <= AHEAD + 1, "{most:?}");
    }

    #[test]
    fn after_an_early_end_no_thread_is_left_and_little_more_is_done() {
        let at_work = AtomicUsize::new(0);
        let done = AtomicU64::new(0);
        let work = |piece| {
            at_work.fetch_add(1, Ordering::SeqCst);
            done.fetch_add(1, Ordering::SeqCst);
            at_work.fetch_sub(1, Ordering::SeqCst);
            piece
        };
        in_order(0..1_000_000, 2, &work, &mut |piece| {
            if piece == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        // The work is borrowed: it could not have compiled if a thread outlived the call.
        assert_eq!(at_work.load(Ordering::SeqCst), 0);
        assert!(done.load(Ordering::SeqCst) <= 11 + AHEAD);
    }

    #[test]
    fn a_panic_of_the_work_or_of_the_taker_comes_out_and_nothing_hangs() {
        let caught = |work: &(dyn Fn(u64) + Sync), take: &(dyn Fn() + Sync)| {
            let run = std::panic::AssertUnwindSafe(|| {
                in_order(0..100, 2, &work, &mut |()| {
                    take();
                    ControlFlow::Continue(())
                });
            });
            std::panic::catch_unwind(run).is_err()
        };
        for bad in [0, 1, 2, 50, 99] {
            assert!(caught(&|piece| assert_ne!(piece, bad), &|| ()));
        }
        let taken = AtomicU64::new(0);
        assert!(caught(&|_| (), &|| assert_ne!(taken.fetch_add(1, Ordering::SeqCst), 7)));
        assert!(!caught(&|_| (), &|| ()));
    }
}
