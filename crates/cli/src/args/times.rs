//! Times as they are typed: RFC 3339, a date, a local time, or an age.

use jiff::tz::TimeZone;
use jiff::{Timestamp as Instant, civil};
use proto_events::envelope::Timestamp;
use taskreel_log::ports::{Clock as _, SystemClock};

/// The units of an age, in seconds.
const UNITS: [(&str, i64); 5] = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400), ("w", 604_800)];

/// Parses the time from which something is taken; a date is its beginning.
///
/// # Errors
/// The fault in words.
pub(crate) fn parse_since(text: &str) -> Result<Timestamp, String> {
    parse(text, SystemClock.now(), &TimeZone::system(), false)
}

/// Parses the time up to which something is taken; a date is its end.
///
/// # Errors
/// The fault in words.
pub(crate) fn parse_until(text: &str) -> Result<Timestamp, String> {
    parse(text, SystemClock.now(), &TimeZone::system(), true)
}

fn parse(text: &str, now: Timestamp, zone: &TimeZone, at_end: bool) -> Result<Timestamp, String> {
    let wrong = || {
        "it is not a time; write 2026-11-21, 2026-11-21T23:21 (local), 2026-11-21T22:21:47Z, or an age such as 2h or 3d"
            .to_owned()
    };
    let typed = text.trim();
    if let Some(age) = age(typed.strip_suffix("ago").unwrap_or(typed).trim_end()) {
        return now.0.checked_sub(age).map(Timestamp).ok_or_else(wrong);
    }
    if let Ok(at) = typed.parse::<Instant>() {
        return Ok(Timestamp(at.as_microsecond()));
    }
    let local = match typed.parse::<civil::Date>() {
        Ok(date) if typed.len() == 10 => {
            let day = if at_end { date.tomorrow().map_err(|_| wrong())? } else { date };
            day.at(0, 0, 0, 0)
        }
        _ => typed.parse::<civil::DateTime>().map_err(|_| wrong())?,
    };
    let at = local.to_zoned(zone.clone()).map_err(|_| wrong())?;
    Ok(Timestamp(at.timestamp().as_microsecond()))
}

/// Returns an age in microseconds.
fn age(text: &str) -> Option<i64> {
    let (unit, seconds) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text.strip_suffix(unit)?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: i64 = is_number.then(|| number.parse().ok()).flatten()?;
    number.checked_mul(*seconds)?.checked_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_in_each_of_its_forms() {
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let now = Timestamp(1_000_000_000_000_000);
        let of = |text: &str, at_end| parse(text, now, &zone, at_end).map(|at| at.0);
        assert_eq!(of("90s", false), Ok(now.0 - 90_000_000));
        assert_eq!(of("2h ago", true), Ok(now.0 - 7_200_000_000));
        assert_eq!(of("1w", false), Ok(now.0 - 604_800_000_000));
        assert_eq!(of("1970-01-02T00:00:00Z", false), Ok(86_400_000_000));
        assert_eq!(of("1970-01-02T00:00:00.000001+01:00", false), Ok(82_800_000_001));
        // Local: an hour before.
        assert_eq!(of("1970-01-02T01:00", true), Ok(86_400_000_000));
        assert_eq!(of("1970-01-02", false), Ok(82_800_000_000));
        assert_eq!(of("1970-01-02", true), Ok(82_800_000_000 + 86_400_000_000));
        for wrong in ["", "yesterday", "2h30", "-2h", "99999999999999999999d", "2026-13-01", "h"] {
            assert!(of(wrong, false).is_err(), "{wrong}");
        }
    }
}
