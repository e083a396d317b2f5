//! The log of a server that takes no more appends, as after a full disk, is opened again by itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use taskreel::{Error, System};

use crate::print::screen::note;

/// The pause before the first attempt; each further one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(500);

/// The longest pause.
const PAUSE_LONGEST: Duration = Duration::from_secs(60);

/// The free bytes without which no attempt is made: a log that cannot be opened cannot be read either.
const ROOM_MIN: u64 = 1024 * 1024;

/// Opens the log again whenever it takes no more appends, for as long as this is polled, and says when it does.
pub(crate) async fn kept_open(system: &System, is_reopening: &AtomicBool) {
    let (mut pause, mut opened) = (PAUSE_FIRST, Instant::now());
    while let Some(why) = system.until_poisoned().await {
        is_reopening.store(true, Ordering::Release);
        // A log that fails again and again is opened again more and more seldom.
        if opened.elapsed() > PAUSE_LONGEST {
            pause = PAUSE_FIRST;
        }
        note(&format!(
            "warning: the log takes no more appends: {why}; it is opened again as soon as that is possible"
        ));
        let Some(epoch) = opened_again(system, &mut pause).await else { break };
        opened = Instant::now();
        is_reopening.store(false, Ordering::Release);
        note(&format!("note: the log is open again and takes appends, under epoch {epoch}"));
    }
    // The system has stopped.
    std::future::pending::<()>().await;
}

/// Tries until the log is open, and returns its epoch; none if the system stops.
async fn opened_again(system: &System, pause: &mut Duration) -> Option<u64> {
    let mut told = String::new();
    loop {
        tokio::time::sleep(*pause).await;
        *pause = pause.saturating_mul(2).min(PAUSE_LONGEST);
        let free = system.health().await.ok().and_then(|health| health.disk_free);
        let why = if free.is_some_and(|free| free < ROOM_MIN) {
            "the disk is full".to_owned()
        } else {
            match system.reopen().await {
                Ok(reopened) => return Some(reopened.epoch),
                Err(Error::Stopped) => return None,
                Err(error) => error.to_string(),
            }
        };
        if told != why {
            note(&format!("warning: the log cannot be opened again yet: {why}"));
            told = why;
        }
    }
}
