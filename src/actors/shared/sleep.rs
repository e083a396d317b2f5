//! Waiting on the system's clock, which may be the host's own.

use std::sync::Arc;
use std::time::Duration;

use taskreel_log::ports::Clock;

use crate::tools::panics::caught_in;

/// Waits for this time. If the clock panics the machine's clock measures it instead: what waits is never lost.
pub(crate) async fn sleep_on(clock: &Arc<dyn Clock>, time: Duration) {
    if time.is_zero() {
        return;
    }
    if let Err(panic) = caught_in(async { clock.sleep(time).await }).await {
        tracing::error!(panic, "the system's clock panicked; the machine's clock measures this wait");
        tokio::time::sleep(time).await;
    }
}
