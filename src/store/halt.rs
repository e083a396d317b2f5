//! Places at which a test kills the process: there it says so and waits for its end. Only with the feature `testing`,
//! and only where `TASKREEL_HALT_AT` names the place and how often it is passed before; in all other builds nothing
//! is left of it.

/// Passes a place; does not return if the process is to be killed here.
#[cfg(feature = "testing")]
pub(super) fn pass(place: &str) {
    use std::io::Write as _;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static WANTED: OnceLock<Option<(String, AtomicU64)>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("TASKREEL_HALT_AT").ok()?;
        let (place, count) = text.rsplit_once(' ')?;
        Some((place.to_owned(), AtomicU64::new(count.parse().ok()?)))
    });
    let Some((_, left)) = wanted.as_ref().filter(|(wanted, _)| wanted == place) else { return };
    if left.fetch_sub(1, Ordering::Relaxed) == 0 {
        let said = std::io::stdout().lock().write_all(format!("\nHALT {place}\n").as_bytes());
        while said.is_ok() {
            std::thread::park();
        }
    }
}

/// Passes a place.
#[cfg(not(feature = "testing"))]
pub(super) fn pass(_: &str) {}
