//! Panics of a host's code, caught where it is called: they are errors with a text, and never end what called it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;

use crate::limits::PANIC_TEXT_BYTES;

/// Calls code that may panic.
///
/// # Errors
/// The panic's text.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(text_of)
}

/// Awaits work that may panic when it is polled.
///
/// # Errors
/// The panic's text.
pub(crate) fn caught_in<F: Future>(work: F) -> impl Future<Output = Result<F::Output, String>> {
    // Not an async function: it would hold the work twice.
    AssertUnwindSafe(work).catch_unwind().map(|done| done.map_err(text_of))
}

/// Awaits work as [`caught_in`] does. The text of a panic passes `mask` before it is cut: a cut within a secret value
/// would hide it from the mask.
///
/// # Errors
/// The panic's text, masked.
pub(crate) async fn caught_masked<F: Future>(
    work: F,
    mask: impl FnOnce(&str) -> String,
) -> Result<F::Output, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| masked_text_of(panic, mask))
}

/// Returns the text of a panic, cut at the limit; of a panic without a text it says so.
pub(crate) fn text_of(panic: Box<dyn Any + Send>) -> String {
    masked_text_of(panic, str::to_owned)
}

fn masked_text_of(panic: Box<dyn Any + Send>, mask: impl FnOnce(&str) -> String) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let mut text = mask(text.unwrap_or("a panic without a text"));
    let end = (0..=PANIC_TEXT_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    // The value is the host's too, and its end may panic once more.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[test]
    fn a_panic_of_any_kind_becomes_a_text_that_is_cut() {
        assert_eq!(caught(|| 1), Ok(1));
        assert_eq!(caught(|| panic!("plain")), Err::<(), _>("plain".to_owned()));
        assert_eq!(caught(|| panic!("{} {}", "with", 2)), Err::<(), _>("with 2".to_owned()));
        let silent = caught(|| std::panic::panic_any(Bomb));
        assert_eq!(silent, Err::<(), _>("a panic without a text".to_owned()));
        let long = caught(|| panic!("{}", "é".repeat(PANIC_TEXT_BYTES))).unwrap_err();
        assert_eq!(long.len(), PANIC_TEXT_BYTES);
    }

    #[tokio::test]
    async fn a_panic_within_a_future_is_caught() {
        assert_eq!(caught_in(async { panic!("later") }).await, Err::<(), _>("later".to_owned()));
        assert_eq!(caught_in(async { 2 }).await, Ok(2));
    }

    #[tokio::test]
    async fn the_text_of_a_panic_is_masked_before_it_is_cut() {
        let said = format!("{}hunter2000", "x".repeat(PANIC_TEXT_BYTES - 4));
        let mask = |text: &str| text.replace("hunter2000", "secret:x");
        let text = caught_masked(async { panic!("{said}") }, mask).await.err().unwrap_or_default();
        assert!(text.ends_with("xsecr") && !text.contains("hunt"), "{text}");
    }
}
