//! Times of LLM messages, the only ones that Protolink parses: accepted as by Python's
//! `datetime.fromisoformat`, printed as by `isoformat`. A time without an offset stays without one.

use std::fmt::Write as _;

/// Returns the text in Python's form; `None` if it is not a date or time in ISO form.
pub(crate) fn normalised(text: &str) -> Option<String> {
    let (date, rest) = date(text)?;
    let mut chars = rest.chars();
    // Python accepts any one character between date and time.
    let Some(_) = chars.next() else {
        return Some(format!("{date}T00:00:00"));
    };
    let rest = chars.as_str();
    let zone_at = rest.find(['+', '-', 'Z']).unwrap_or(rest.len());
    let (clock_text, zone) = rest.split_at_checked(zone_at)?;
    Some(format!("{date}T{}{}", clock(clock_text)?, offset(zone)?))
}

/// Returns the microseconds since 1970-01-01 UTC of a time with its offset; `None` for one without, since it names no moment.
pub(crate) fn moment(text: &str) -> Option<i64> {
    normalised(text)?.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_microsecond)
}

fn date(text: &str) -> Option<(String, &str)> {
    let year = number(text.get(..4)?)?;
    let extended = text.as_bytes().get(4) == Some(&b'-');
    let (month, day, end) = if extended {
        (text.get(5..7)?, text.get(8..10)?, 10)
    } else {
        (text.get(4..6)?, text.get(6..8)?, 8)
    };
    if extended && text.as_bytes().get(7) != Some(&b'-') {
        return None;
    }
    let (month, day) = (number(month)?, number(day)?);
    let date =
        jiff::civil::Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    let date = date.ok().filter(|_| year >= 1)?;
    Some((date.to_string(), text.get(end..)?))
}

/// Returns hours, minutes, seconds and a fraction, cut to microseconds, with or without colons.
fn clock(text: &str) -> Option<String> {
    let (whole, fraction) = match text.find(['.', ',']) {
        Some(at) => (text.get(..at)?, Some(text.get(at + 1..)?)),
        None => (text, None),
    };
    let fields: Vec<&str> = if whole.contains(':') {
        whole.split(':').collect()
    } else {
        whole.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap_or_default()).collect()
    };
    if fields.len() > 3 || fields.iter().any(|field| field.len() != 2) {
        return None;
    }
    let mut fields = fields.into_iter().map(number);
    let hour = fields.next()??;
    let minute = fields.next().unwrap_or(Some(0))?;
    let seconds = fields.next();
    // A fraction belongs to the seconds, which must then be present.
    if fraction.is_some() && seconds.is_none() {
        return None;
    }
    let second = seconds.unwrap_or(Some(0))?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut out = format!("{hour:02}:{minute:02}:{second:02}");
    let micros = fraction.map_or(Some(0), microseconds)?;
    if micros > 0 {
        let _ = write!(out, ".{micros:06}");
    }
    Some(out)
}

fn microseconds(digits: &str) -> Option<u32> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<6}").get(..6)?.parse().ok()
}

fn offset(zone: &str) -> Option<String> {
    let (sign, distance) = match zone.split_at_checked(1) {
        None => return Some(String::new()),
        Some(("Z", "")) => return Some("+00:00".to_owned()),
        Some((sign @ ("+" | "-"), distance)) => (sign, clock(distance)?),
        Some(_) => return None,
    };
    let shown = distance.strip_suffix(":00").filter(|hm| hm.len() == 5);
    let sign = if distance.bytes().any(|b| matches!(b, b'1'..=b'9')) { sign } else { "+" };
    Some(format!("{sign}{}", shown.unwrap_or(&distance)))
}

fn number(digits: &str) -> Option<u16> {
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_python_reads_them_and_printed_as_it_prints_them() {
        for (given, printed) in [
            ("2024-03-02T10:00:01+00:00", "2024-03-02T10:00:01+00:00"),
            ("2024-03-02T10:00:01.5Z", "2024-03-02T10:00:01.500000+00:00"),
            ("2024-03-02 10:00", "2024-03-02T10:00:00"),
            ("20240302T1000+0530", "2024-03-02T10:00:00+05:30"),
            ("2024-03-02", "2024-03-02T00:00:00"),
            ("2024-03-02T10:00:01.1234567-00:00", "2024-03-02T10:00:01.123456+00:00"),
            ("2024-02-29☃10", "2024-02-29T10:00:00"),
            ("2024-03-02T10:00:01+01:02:03", "2024-03-02T10:00:01+01:02:03"),
        ] {
            assert_eq!(normalised(given).as_deref(), Some(printed), "{given}");
        }
    }

    #[test]
    fn a_moment_has_an_offset() {
        assert_eq!(moment("1970-01-01T00:00:01.5Z"), Some(1_500_000));
        assert_eq!(moment("1970-01-01T02:00:00+02:00"), Some(0));
        assert_eq!(moment("1970-01-01T00:00:01"), None);
        assert_eq!(moment("soon"), None);
    }

    #[test]
    fn a_text_that_is_no_time_is_none() {
        for given in [
            "nope",
            "",
            "2024",
            "2024-13-01",
            "2023-02-29",
            "0000-01-01",
            "2024-03-02T",
            "2024-03-02T25:00",
            "2024-03-02T10:0",
            "2024-03-02T10:00:01.",
            "2024-03-02T10:00Zx",
            "2024-03-02T10.5",
            "☃☃☃☃-01-01",
            "2024-03-02T10:00:01+24:00",
            "2024-03-02T+1:00",
        ] {
            assert_eq!(normalised(given), None, "{given}");
        }
    }
}
