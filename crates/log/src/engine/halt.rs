//! Points at which a test kills the process: there it prints a line and waits to be killed. Only with the
//! feature `testing`, and only where `TASKREEL_HALT_AT` names the point and the number of times it is passed
//! before; all other builds contain nothing of it.

/// Passes a halt point; does not return if the process is to be killed here.
#[cfg(feature = "testing")]
pub(crate) fn pass(point: &str) {
    use std::io::Write as _;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static WANTED: OnceLock<Option<(String, AtomicU64)>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("TASKREEL_HALT_AT").ok()?;
        let (point, count) = text.rsplit_once(' ')?;
        Some((point.to_owned(), AtomicU64::new(count.parse().ok()?)))
    });
    let Some((_, left)) = wanted.as_ref().filter(|(wanted, _)| wanted == point) else { return };
    if left.fetch_sub(1, Ordering::Relaxed) == 0 {
        let printed = std::io::stdout().lock().write_all(format!("\nHALT {point}\n").as_bytes());
        while printed.is_ok() {
            std::thread::park();
        }
    }
}

/// Passes a halt point, without effect.
#[cfg(not(feature = "testing"))]
pub(crate) fn pass(_: &str) {}
