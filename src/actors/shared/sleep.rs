//! Waiting on the system's clock, which may be the host's own.

use std::sync::Arc;
use std::time::Duration;

use taskreel_log::ports::Clock;

use crate::tools::panics::{caught, caught_in};

/// Begins a wait of this time, which may go on on any thread. If the clock panics the machine's clock measures it instead.
pub(crate) fn begin_sleep(
    clock: &Arc<dyn Clock>,
    time: Duration,
) -> impl Future<Output = ()> + Send + 'static {
    let begun = caught(|| clock.sleep(time));
    async move {
        let waited = match begun {
            Ok(wait) => caught_in(wait).await,
            Err(panic) => Err(panic),
        };
        if let Err(panic) = waited {
            on_the_machines_clock(&panic, time).await;
        }
    }
}

async fn on_the_machines_clock(panic: &str, time: Duration) {
    tracing::error!(panic, "the system's clock panicked; the machine's clock measures this wait");
    tokio::time::sleep(time).await;
}

/// Waits for this time. If the clock panics the machine's clock measures it instead: what waits is never lost.
pub(crate) async fn sleep_on(clock: &Arc<dyn Clock>, time: Duration) {
    if time.is_zero() {
        return;
    }
    if let Err(panic) = caught_in(async { clock.sleep(time).await }).await {
        on_the_machines_clock(&panic, time).await;
    }
}
