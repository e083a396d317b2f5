//! Times in queries: RFC 3339, or a date and perhaps a time of day without an offset, which is UTC.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use proto_events::envelope::Timestamp;

/// The side of a span of time that a time bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The time from which something is taken; a date is its beginning.
    Since,
    /// The time up to which something is taken; a date is its end.
    Until,
}

impl Bound {
    /// Returns the name of the bound in queries.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Since => "since",
            Self::Until => "until",
        }
    }
}

/// Returns the time that a text names as a bound; `None` if it names none.
pub(crate) fn time_of(text: &str, bound: Bound) -> Option<Timestamp> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(Timestamp(at.as_microsecond()));
    }
    let civil = match text.parse::<Date>() {
        // As on the command line: who names a day as the last one wants to see it.
        Ok(date) if bound == Bound::Until && text.len() == 10 => date.tomorrow().ok()?.at(0, 0, 0, 0),
        _ => text.parse::<DateTime>().ok()?,
    };
    let at = civil.to_zoned(TimeZone::UTC).ok()?.timestamp();
    Some(Timestamp(at.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_its_beginning_as_the_first_bound_and_its_end_as_the_last_one() {
        const DAY: i64 = 86_400_000_000;
        for (text, since, until) in [
            ("1970-01-02", DAY, 2 * DAY),
            ("1970-01-02T00:00", DAY, DAY),
            ("1970-01-02T01:00:00", DAY + DAY / 24, DAY + DAY / 24),
            ("1970-01-02T00:00:00Z", DAY, DAY),
            ("1970-01-02T01:00:00.000001+01:00", DAY + 1, DAY + 1),
            ("1970-01-31", 30 * DAY, 31 * DAY),
        ] {
            assert_eq!(time_of(text, Bound::Since), Some(Timestamp(since)), "{text}");
            assert_eq!(time_of(text, Bound::Until), Some(Timestamp(until)), "{text}");
        }
        for wrong in ["", "yesterday", "1970-02-30", "1970-13-01", "24h"] {
            assert_eq!((time_of(wrong, Bound::Since), time_of(wrong, Bound::Until)), (None, None), "{wrong}");
        }
    }
}
