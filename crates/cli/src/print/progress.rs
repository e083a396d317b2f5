//! The progress of a long command, on stderr if that is a terminal, and its speed.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};
use std::{fmt, io};

use taskreel_log::audit::VerifyProgress;

use crate::print::screen::locale_is_utf8;

/// The interval at which the bar is redrawn.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// The number of cells of the bar.
const CELLS: u64 = 24;

/// A progress bar on stderr; nothing is drawn if stderr is not a terminal.
pub(crate) struct Bar {
    doing: &'static str,
    began: Instant,
    drawn: Option<Instant>,
    shown: bool,
}

/// The speed of a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Speed {
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
}

impl Bar {
    pub(crate) fn new(doing: &'static str) -> Self {
        Self { doing, began: Instant::now(), drawn: None, shown: io::stderr().is_terminal() }
    }

    pub(crate) fn show(&mut self, progress: VerifyProgress) {
        let due = |drawn: Instant| drawn.elapsed() >= DRAW_EVERY;
        // The first drawing waits as well: a quick command needs no bar.
        if !self.shown || !due(self.drawn.unwrap_or(self.began)) {
            return;
        }
        self.drawn = Some(Instant::now());
        let line = progress_line(self.doing, progress, self.began.elapsed(), locale_is_utf8());
        // A wrapped line could not be overwritten.
        let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
        let line: String = line.chars().take(width.saturating_sub(1)).collect();
        // A failed write to stderr does not matter.
        let _ = write!(io::stderr(), "\r{line}\u{1b}[K");
    }

    /// Clears the bar's line and returns the speed.
    pub(crate) fn finish(&self, bytes: u64) -> Speed {
        if self.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
        Speed { bytes, seconds: self.began.elapsed().as_secs_f64() }
    }
}

/// A count of ended tasks on stderr, if that is a terminal and the results go elsewhere.
pub(crate) struct Tally {
    shown: bool,
    is_drawn: bool,
    drawn: Instant,
    began: Instant,
    done: u64,
    failed: u64,
}

impl Tally {
    pub(crate) fn new(results_on_terminal: bool) -> Self {
        let shown = !results_on_terminal && io::stderr().is_terminal();
        let now = Instant::now();
        Self { shown, is_drawn: false, drawn: now, began: now, done: 0, failed: 0 }
    }

    /// Counts a task that ended.
    pub(crate) fn count(&mut self, failed: bool) {
        self.done += 1;
        self.failed += u64::from(failed);
        if !self.shown || self.drawn.elapsed() < DRAW_EVERY {
            return;
        }
        (self.drawn, self.is_drawn) = (Instant::now(), true);
        let told = tally(self.done, self.failed, self.began.elapsed());
        let _ = write!(io::stderr(), "\r{told}\u{1b}[K");
    }

    /// Clears the line, so that a note can take its place.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
            self.drawn = self.began;
        }
    }
}

fn tally(done: u64, failed: u64, since: Duration) -> String {
    let per_second = u128::from(done) * 1_000 / since.as_millis().max(1);
    format!("{done} tasks done, {failed} of them badly, {per_second} a second")
}

fn progress_line(doing: &str, progress: VerifyProgress, since: Duration, unicode: bool) -> String {
    let VerifyProgress { at, of, bytes } = progress;
    let of = of.max(at).max(1);
    let full = usize::try_from(at.saturating_mul(CELLS) / of).unwrap_or_default();
    let (on, off) = if unicode { ("█", "░") } else { ("#", ".") };
    let bar = on.repeat(full) + &off.repeat(usize::try_from(CELLS).unwrap_or_default() - full);
    let speed = Speed { bytes, seconds: since.as_secs_f64() };
    let percent = at.saturating_mul(100) / of;
    format!(
        "{doing} {percent:>3} % {bar} {:.1} MB/s, about {} left",
        speed.mb_per_s(),
        remaining_time(at, of, since)
    )
}

/// Estimates the remaining time from the average speed so far.
fn remaining_time(at: u64, of: u64, since: Duration) -> String {
    let whole = u128::from(of) * since.as_millis() / u128::from(at.max(1));
    let seconds = whole.saturating_sub(since.as_millis()).div_ceil(1_000);
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}

impl Speed {
    /// Megabytes (10^6 bytes) per second; 0 if nothing was measured.
    #[allow(clippy::cast_precision_loss, reason = "a speed for people")]
    pub(crate) fn mb_per_s(&self) -> f64 {
        let speed = self.bytes as f64 / 1e6 / self.seconds;
        if speed.is_finite() { (speed * 10.0).round() / 10.0 } else { 0.0 }
    }
}

impl fmt::Display for Speed {
    #[allow(clippy::cast_precision_loss, reason = "a size for people")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.bytes as f64 / 1e6;
        write!(f, "{megabytes:.1} MB in {:.2} s, {:.1} MB/s", self.seconds, self.mb_per_s())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_tells_how_far_how_quick_and_how_long_still() {
        let told = progress_line(
            "verifying",
            VerifyProgress { at: 250, of: 1_000, bytes: 5_000_000 },
            Duration::from_secs(2),
            false,
        );
        assert_eq!(told, "verifying  25 % ######.................. 2.5 MB/s, about 6 s left");
        // A wrong head causes no overflow and no cells past the end.
        let over = progress_line(
            "v",
            VerifyProgress { at: u64::MAX, of: 3, bytes: u64::MAX },
            Duration::from_secs(1),
            true,
        );
        assert!(over.contains("about 0 s left"), "{over}");
        assert!(
            progress_line("v", VerifyProgress { at: 0, of: 0, bytes: 0 }, Duration::ZERO, true)
                .contains("0 %")
        );
    }

    #[test]
    fn a_tally_tells_how_many_tasks_ended_and_how_quickly() {
        assert_eq!(tally(500, 2, Duration::from_secs(2)), "500 tasks done, 2 of them badly, 250 a second");
        assert!(tally(0, 0, Duration::ZERO).starts_with("0 tasks"));
    }

    #[test]
    fn nothing_in_no_time_has_no_speed() {
        assert!(Speed { bytes: 0, seconds: 0.0 }.mb_per_s().abs() < f64::EPSILON);
    }
}
