//! Waits that a server asks for in the body of an error.

use std::time::Duration;

use proto_events::json::JsonValue as Value;
use taskreel_log::ports::{Clock, SystemClock};

/// The depth to which an error is searched.
const DEPTH_MAX: usize = 8;

/// Whether an error says that a quota is used up for longer than a moment.
pub(crate) fn is_exhausted(error: &Value) -> bool {
    const CODES: [&str; 5] = [
        "insufficient_quota",
        "usage_limit_reached",
        "quota_exceeded",
        "billing_hard_limit_reached",
        "insufficient_balance",
    ];
    any(error, DEPTH_MAX, &mut |name, value| {
        let Some(text) = value.as_str() else { return false };
        let is_code = matches!(name, "code" | "type") && CODES.contains(&text);
        is_code || (name == "quotaId" && (text.contains("PerDay") || text.contains("PerMonth")))
    })
}

/// Returns the wait that an error's members ask for: `retryDelay`, `resets_in_seconds`, `retry_after` and the like.
pub(crate) fn wait_in(error: &Value) -> Option<Duration> {
    let mut found = None;
    any(error, DEPTH_MAX, &mut |name: &str, value: &Value| {
        found = found.or_else(|| wait_of(name, value));
        found.is_some()
    });
    found
}

fn wait_of(name: &str, value: &Value) -> Option<Duration> {
    let name: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    match name.as_str() {
        "retryafterms" | "retryinms" => seconds(number? / 1_000.0),
        "retrydelay" | "retryafter" | "retryafterseconds" | "retryinseconds" | "resetsinseconds"
        | "resetinseconds" | "resetafterseconds" | "resetsin" | "resetafter" | "waitseconds" => {
            number.and_then(seconds).or_else(|| span(value.as_str()?))
        }
        "resetsat" | "resetat" | "retryat" => until(value, number),
        _ => None,
    }
}

/// Returns the time to a moment: seconds or milliseconds since 1970, or an ISO date.
fn until(value: &Value, number: Option<f64>) -> Option<Duration> {
    let now = SystemClock.now().0;
    let micros = match number {
        Some(number) if number > 1e11 => number * 1e3,
        Some(number) => number * 1e6,
        None => {
            let at: jiff::Timestamp = value.as_str()?.trim().parse().ok()?;
            return Some(Duration::from_micros(
                u64::try_from(at.as_microsecond().saturating_sub(now)).unwrap_or(0),
            ));
        }
    };
    #[allow(clippy::cast_precision_loss, reason = "a wait needs no microseconds")]
    seconds((micros - now as f64) / 1e6)
}

/// Returns the wait that a text asks for: "Please try again in 2m3.5s", "retry after 20 seconds".
pub(crate) fn wait_in_words(said: &str) -> Option<Duration> {
    let said = said.to_ascii_lowercase();
    let marks = ["again in ", "retry in ", "retry after ", "resets in ", "wait "];
    marks.iter().find_map(|mark| span(said.split_once(mark)?.1))
}

/// Reads a span at the beginning of a text: `34.07s`, `2m3s`, `1h`, `20 seconds`, `450ms`.
fn span(text: &str) -> Option<Duration> {
    let (mut rest, mut sum, mut found) = (text.trim_start(), 0.0, false);
    loop {
        let digits = rest.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(rest.len());
        let Ok(number) = rest.get(..digits)?.trim_end_matches('.').parse::<f64>() else { break };
        let behind = rest.get(digits..)?.trim_start();
        let letters = behind.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(behind.len());
        let unit = match behind.get(..letters)? {
            "ms" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hour" | "hours" => 3_600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => break,
        };
        (sum, found) = (sum + number * unit, true);
        rest = behind.get(letters..)?.trim_start();
    }
    if found { seconds(sum) } else { None }
}

fn seconds(given: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(given.max(0.0)).ok()
}

/// Returns a wait as people say it, for example `1 h 59 min`.
pub(crate) fn in_words(wait: Duration) -> String {
    let minutes = wait.as_secs().div_ceil(60);
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// Whether a member of an error, at any place in it, is one that is looked for.
fn any(value: &Value, depth: usize, is_it: &mut dyn FnMut(&str, &Value) -> bool) -> bool {
    if depth == 0 {
        return false;
    }
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| is_it(name, value) || any(value, depth - 1, is_it))
        }
        Value::Array(items) => items.iter().any(|item| any(item, depth - 1, is_it)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Value {
        Value::parse(text).unwrap()
    }

    #[test]
    fn a_wait_is_found_in_any_member_of_an_error() {
        for (text, wait) in [
            (r#"[{"error": {"details": [{"retryDelay": "34.07s"}]}}]"#, 34.07),
            (r#"{"error": {"resets_in_seconds": 7139}}"#, 7_139.0),
            (r#"{"retry_after": "20"}"#, 20.0),
            (r#"{"retry_after_ms": 450}"#, 0.45),
            (r#"{"error": {"metadata": {"retry-after": 2.5}}}"#, 2.5),
        ] {
            assert!((wait_in(&read(text)).unwrap().as_secs_f64() - wait).abs() < 1e-9, "{text}");
        }
        assert_eq!(wait_in(&read(r#"{"error": {"message": "busy", "code": 429}}"#)), None);
        let later = wait_in(&read(r#"{"reset_at": "2999-01-01T00:00:00Z"}"#)).unwrap();
        assert!(later > Duration::from_secs(86_400));
        assert_eq!(wait_in(&read(r#"{"resets_at": 1}"#)), Some(Duration::ZERO));
    }

    #[test]
    fn a_wait_is_found_in_words() {
        for (said, wait) in [
            ("Please try again in 34.07s.", Some(34.07)),
            ("Rate limit reached. Please try again in 2m3.5s", Some(123.5)),
            ("Retry after 20 seconds", Some(20.0)),
            ("try again in a moment", None),
            ("wait", None),
            ("nothing", None),
        ] {
            assert_eq!(wait_in_words(said).map(|wait| wait.as_secs_f64()), wait, "{said}");
        }
        assert_eq!(in_words(Duration::from_secs(7_139)), "1 h 59 min");
    }

    #[test]
    fn a_quota_of_a_day_is_exhausted_and_one_of_a_minute_passes() {
        for (text, exhausted) in [
            (r#"{"error": {"code": "insufficient_quota"}}"#, true),
            (r#"{"error": {"type": "usage_limit_reached"}}"#, true),
            (r#"{"details": [{"violations": [{"quotaId": "RequestsPerDayPerProject"}]}]}"#, true),
            (r#"{"details": [{"violations": [{"quotaId": "RequestsPerMinutePerProject"}]}]}"#, false),
            (r#"{"error": {"message": "insufficient_quota"}}"#, false),
        ] {
            assert_eq!(is_exhausted(&read(text)), exhausted, "{text}");
        }
    }
}
