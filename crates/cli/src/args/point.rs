//! Points of a stream as they are typed.

use clap::Args;
use proto_events::id::{Position, Version};
use taskreel_log::views::Point;

use crate::args::times::parse_until;

/// The point at which a command shows things.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct AtArgs {
    /// Show it as it was at this point: after a version such as 17, at a position of the log (@1204), at a time, or so many events
    /// before the newest one (-10) [default: the newest]
    #[arg(long, value_name = "POINT", value_parser = parse_point, allow_hyphen_values = true)]
    pub(crate) at: Option<Point>,
}

/// Parses a point: a version, `@` and a position, `-` and a number of events before the end, or a time.
///
/// # Errors
/// The fault in words.
pub(crate) fn parse_point(text: &str) -> Result<Point, String> {
    number(text).map_or_else(|| parse_until(text).map(Point::Time).map_err(|_| wrong()), Ok)
}

fn wrong() -> String {
    "it is not a point of a stream; write a version such as 17, @1204 for a position of the log, -10 for that many events \
     before the newest, or a time such as 2026-11-21T23:21 or 2h"
        .to_owned()
}

/// Parses a point that is a number: a version, a position, or a distance from the end.
fn number(text: &str) -> Option<Point> {
    let digits = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().ok()).flatten()
    };
    if let Some(position) = text.strip_prefix('@') {
        return digits(position).map(|position| Point::Position(Position(position)));
    }
    if let Some(events) = text.strip_prefix('-') {
        return digits(events).map(Point::BeforeEnd);
    }
    digits(text).map(|version| Point::Version(Version(version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_read_in_each_of_its_forms() {
        assert_eq!(parse_point("17"), Ok(Point::Version(Version(17))));
        assert_eq!(parse_point("@1204"), Ok(Point::Position(Position(1_204))));
        assert_eq!(parse_point("-10"), Ok(Point::BeforeEnd(10)));
        assert!(matches!(parse_point("1970-01-02T00:00:00Z"), Ok(Point::Time(at)) if at.0 == 86_400_000_000));
        assert!(matches!(parse_point("2h"), Ok(Point::Time(_))));
        for wrong in ["", "-", "@", "@last", "-x", "1.5", "99999999999999999999", "yesterday"] {
            assert!(parse_point(wrong).is_err(), "{wrong}");
        }
    }
}
