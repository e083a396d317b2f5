//! Times for people: local with their offset, ages, spans between events.

use jiff::tz::TimeZone;
use proto_events::envelope::Timestamp;
use taskreel_log::ports::{Clock as _, SystemClock};

/// Returns the local time.
pub(crate) fn local(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(at) => {
            let zoned = at.to_zoned(TimeZone::system());
            zoned.strftime("%Y-%m-%d %H:%M:%S%.3f %:z").to_string()
        }
        Err(_) => at.to_string(),
    }
}

/// Returns the local time of day.
pub(crate) fn of_day(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(at) => at.to_zoned(TimeZone::system()).strftime("%H:%M:%S%.3f").to_string(),
        Err(_) => at.to_string(),
    }
}

/// Returns the local date, with the offset from UTC.
pub(crate) fn day(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(at) => at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %:z").to_string(),
        Err(_) => at.to_string(),
    }
}

/// Returns a time span given in microseconds.
pub(crate) fn span_us(micros: u64) -> String {
    span(i64::try_from(micros).unwrap_or(i64::MAX))
}

/// Returns the time elapsed since `at`.
pub(crate) fn age(at: Timestamp) -> String {
    span(SystemClock.now().0.saturating_sub(at.0).max(0))
}

/// Returns the time from `before` to `at`.
pub(crate) fn since(before: Timestamp, at: Timestamp) -> String {
    let micros = at.0.saturating_sub(before.0);
    let sign = if micros < 0 { "-" } else { "+" };
    format!("{sign}{}", span(micros.saturating_abs()))
}

fn span(micros: i64) -> String {
    let (seconds, minutes, hours) = (micros / 1_000_000, micros / 60_000_000, micros / 3_600_000_000);
    if seconds < 1 {
        format!("{} ms", micros / 1_000)
    } else if seconds < 120 {
        format!("{seconds}.{} s", micros / 100_000 % 10)
    } else if minutes < 120 {
        format!("{minutes} min")
    } else if hours < 48 {
        format!("{hours} h")
    } else {
        format!("{} d", hours / 24)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_the_unit_that_suits_them() {
        for (micros, told) in [
            (999_999, "999 ms"),
            (1_250_000, "1.2 s"),
            (119_900_000, "119.9 s"),
            (120_000_000, "2 min"),
            (7_200_000_000, "2 h"),
            (172_800_000_000, "2 d"),
        ] {
            assert_eq!(span(micros), told);
        }
        assert_eq!(since(Timestamp(5_000), Timestamp(2_000)), "-3 ms");
    }
}
