//! The one place at which the host's code panics now, in every trait method and closure that a host gives.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

static LIT: Mutex<Option<&'static str>> = Mutex::new(None);

/// Tests of one process share the fuse: they run one after another.
pub(crate) static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn lit() -> MutexGuard<'static, Option<&'static str>> {
    LIT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the code at this place panic, once.
pub(crate) fn light(place: &'static str) {
    *lit() = Some(place);
}

/// Told when the place that was lit panics.
static BURNT: tokio::sync::Notify = tokio::sync::Notify::const_new();

/// Waits until the place that was lit has panicked.
pub(crate) async fn burnt() {
    while !is_burnt() {
        BURNT.notified().await;
    }
}

/// Returns whether the place that was lit has panicked.
pub(crate) fn is_burnt() -> bool {
    lit().is_none()
}

static ASKED: Mutex<BTreeMap<&'static str, u32>> = Mutex::new(BTreeMap::new());

/// Returns how often each place was reached since the last call.
pub(crate) fn asked() -> BTreeMap<&'static str, u32> {
    std::mem::take(&mut *ASKED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Counts the call, and panics if this place is lit.
pub(crate) fn at(place: &'static str) {
    *ASKED.lock().unwrap_or_else(PoisonError::into_inner).entry(place).or_default() += 1;
    let burns = lit().take_if(|lit| *lit == place).is_some();
    if burns {
        BURNT.notify_one();
    }
    assert!(!burns, "BOOM in {place}");
}
