//! The fence around sled, which panics on some kinds of damage and when a disk fails while it is closed. A panic
//! becomes an error with the panic's text; nothing of it is printed, and none meets another one.
//!
//! The last handle of a database is dropped on a thread of its own: the dropping thread may be unwinding, where
//! a second panic would end the process. What would be printed goes through the hook of the host: it is
//! wrapped once, and gets all panics except sled's inside a fence. Setting and restoring it for each fence
//! would take panics of other threads away from the host, and overwrite a hook that it sets meanwhile.

use std::any::Any;
use std::cell::Cell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

thread_local! {
    /// The number of fences around what this thread is doing.
    static FENCES: Cell<u32> = const { Cell::new(0) };
}

/// Parts of the paths of sled's source files: from a registry, or vendored.
const SLED_SOURCES: [&str; 2] = ["sled-0.34", "vendor/sled/"];

/// Counts a fence of this thread while it lives.
struct Inside;

impl Inside {
    fn new() -> Self {
        FENCES.set(FENCES.get() + 1);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        FENCES.set(FENCES.get().saturating_sub(1));
    }
}

/// Runs work that calls sled. Returns the text of a panic as the error.
///
/// The work must not leave anything half-done that is used after a panic.
pub(crate) fn fenced<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    wrap_hook();
    let inside = Inside::new();
    let done = catch_unwind(AssertUnwindSafe(work));
    drop(inside);
    done.map_err(|panic| text_of(&*panic))
}

/// Runs work that calls sled on a thread of its own and waits for it. Returns the text of a panic as the error.
pub(crate) fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    // A thread that cannot be started drops its work here.
    let done = fenced(|| {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("taskreel-sled".to_owned());
            let started = thread.spawn_scoped(scope, || fenced(work)).map_err(|error| error.to_string())?;
            started.join().map_err(|panic| text_of(&*panic))
        })
    });
    done.and_then(|done| done).and_then(|done| done)
}

/// A handle of a database, or of a part of one. It is dropped [`apart`].
#[derive(Debug)]
pub(crate) struct FencedHandle<T: Send>(Option<T>);

impl<T: Send> FencedHandle<T> {
    pub(crate) fn new(handle: T) -> Self {
        Self(Some(handle))
    }

    /// Drops the handle. Returns the text of a panic as the error.
    pub(crate) fn finish(mut self) -> Result<(), String> {
        let handle = self.0.take();
        apart(|| drop(handle))
    }
}

impl<T: Send> Deref for FencedHandle<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("the handle is taken only by `end` and by dropping")
    }
}

impl<T: Send> Drop for FencedHandle<T> {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take()
            && let Err(why) = apart(|| drop(handle))
        {
            tracing::warn!(why, "the database panicked while it was closed");
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the database panicked: {}", text.unwrap_or("it gave no reason"))
}

/// Whether a panic's text is that of an error of the operating system.
pub(crate) fn is_io(text: &str) -> bool {
    ["Os { code:", "Io(", "os error"].iter().any(|sign| text.contains(sign))
}

/// Keeps sled's panics inside a fence from being printed.
fn wrap_hook() {
    static WRAPPED: Once = Once::new();
    if WRAPPED.is_completed() || std::thread::panicking() {
        return;
    }
    WRAPPED.call_once(|| {
        let of_host = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if is_fenced(panic) {
                tracing::debug!(%panic, "the database panicked; it is reported as an error");
            } else {
                of_host(panic);
            }
        }));
    });
}

fn is_fenced(panic: &PanicHookInfo<'_>) -> bool {
    let inside = FENCES.try_with(|fences| fences.get() > 0).unwrap_or(false);
    let of_sled = |file: &str| SLED_SOURCES.iter().any(|part| file.contains(part));
    inside && panic.location().is_some_and(|place| of_sled(place.file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_with_its_text_also_while_the_thread_unwinds() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("the disk is gone");
            }
        }
        assert_eq!(fenced(|| 7), Ok(7));
        assert_eq!(fenced(|| panic!("no {}", 1)), Err::<(), _>("the database panicked: no 1".to_owned()));
        assert!(FencedHandle::new(Panics).finish().unwrap_err().ends_with("the disk is gone"));
        let unwound = std::thread::spawn(|| {
            let _handle = FencedHandle::new(Panics);
            panic!("the host's own");
        });
        let text = *unwound.join().unwrap_err().downcast::<&str>().unwrap();
        assert_eq!(text, "the host's own", "the process goes on, and the first panic is told");
    }
}
