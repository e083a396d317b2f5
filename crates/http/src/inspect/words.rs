//! Figures, times and states as a page shows them.

use proto_events::call::{Costs, TokenUsage};
use proto_events::envelope::Timestamp;
use proto_events::model::TaskState;

/// A moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct At {
    /// The time as RFC 3339 has it.
    pub(crate) iso: String,
    /// The time of day and the date, in UTC.
    pub(crate) short: String,
    /// The time since then.
    pub(crate) ago: String,
}

impl At {
    pub(crate) fn new(at: Timestamp, now: Timestamp) -> Self {
        let short = jiff::Timestamp::from_microsecond(at.0)
            .map_or_else(|_| at.to_string(), |at| at.strftime("%-d %b %Y %H:%M:%S.%3f").to_string());
        let ago = if at > now {
            format!("in {}", micros(at.0.saturating_sub(now.0)))
        } else {
            format!("{} ago", micros(now.0.saturating_sub(at.0)))
        };
        Self { iso: at.to_string(), short, ago }
    }
}

/// Returns a span of microseconds in the two units that say enough.
pub(crate) fn micros(span: i64) -> String {
    let two = |big: i64, of: &str, rest: i64, unit: &str| {
        if rest == 0 { format!("{big} {of}") } else { format!("{big} {of} {rest} {unit}") }
    };
    let seconds = span / 1_000_000;
    match span {
        ..1_000 => format!("{} µs", span.max(0)),
        1_000..10_000 => format!("{}.{} ms", span / 1_000, span % 1_000 / 100),
        10_000..1_000_000 => format!("{} ms", span / 1_000),
        1_000_000..60_000_000 => format!("{seconds}.{} s", span % 1_000_000 / 100_000),
        60_000_000..3_600_000_000 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600_000_000..86_400_000_000 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// Returns the span between two moments.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> String {
    micros(to.0.saturating_sub(from.0))
}

/// Returns a number with its thousands parted.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut parted = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            parted.push(',');
        }
        parted.push(digit);
    }
    parted
}

/// Returns a number of things, with the noun for one of them and for several.
pub(crate) fn of(number: u64, one: &str, several: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {several}", count(number)) }
}

/// Returns a number of bytes.
pub(crate) fn bytes(number: usize) -> String {
    match number {
        ..1_024 => format!("{number} B"),
        1_024..1_048_576 => format!("{}.{} KiB", number / 1_024, number % 1_024 * 10 / 1_024),
        _ => format!("{}.{} MiB", number / 1_048_576, number % 1_048_576 * 10 / 1_048_576),
    }
}

/// Returns the tokens of calls: sent and generated. Empty without any.
pub(crate) fn tokens(usage: TokenUsage) -> String {
    if usage.input_tokens == 0 && usage.output_tokens == 0 {
        return String::new();
    }
    format!("{} + {}", count(usage.input_tokens), count(usage.output_tokens))
}

/// Returns sums of money, rounded to six digits behind the point.
pub(crate) fn costs(costs: &Costs) -> String {
    let sum = |(currency, cost): (&str, proto_events::call::Cost)| {
        let text = cost.to_string();
        let end = text.find('.').map_or(text.len(), |point| (point + 7).min(text.len()));
        format!("{} {currency}", text.get(..end).unwrap_or(&text))
    };
    costs.iter().map(sum).collect::<Vec<_>>().join(", ")
}

/// The mark of a state: a word, a sign, and a class for its colour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) word: &'static str,
    pub(crate) sign: &'static str,
    pub(crate) class: &'static str,
}

/// Returns the mark of a task's state.
pub(crate) const fn state(state: TaskState) -> Mark {
    let (sign, class) = match state {
        TaskState::Submitted => ("○", "quiet"),
        TaskState::Working => ("●", "busy"),
        TaskState::InputRequired => ("?", "asks"),
        TaskState::Completed => ("✓", "good"),
        TaskState::Failed => ("✗", "bad"),
        TaskState::Canceled => ("⊘", "quiet"),
        TaskState::Unknown => ("–", "quiet"),
    };
    Mark { word: state.as_str(), sign, class }
}

/// Returns the mark of a call's outcome; of an open call without one.
pub(crate) fn outcome(word: Option<&'static str>) -> Mark {
    let (sign, class) = match word {
        None => ("●", "busy"),
        Some("succeeded" | "landed") => ("✓", "good"),
        Some("failed") => ("✗", "bad"),
        Some("unknown") => ("?", "asks"),
        Some(_) => ("⊘", "quiet"),
    };
    Mark { word: word.unwrap_or("open"), sign, class }
}

/// Returns the mark of an event, by its kind.
pub(crate) fn event(kind: &str) -> Mark {
    let (sign, class) = match kind {
        "CallFailed" | "CallTimedOut" | "SummaryFailed" => ("✗", "bad"),
        "CallOutcomeUnknown" | "ApprovalRequested" | "CallAsked" => ("?", "asks"),
        "CallSucceeded" | "CallReconciled" | "ApprovalDecided" | "CallAnswered" => ("✓", "good"),
        "CallRetryScheduled" => ("↻", "busy"),
        "CallRequested" | "CallDispatched" => ("→", "busy"),
        _ => ("·", "quiet"),
    };
    Mark { word: "", sign, class }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_said_in_the_units_that_matter() {
        let said =
            [0, 999, 1_500, 340_000, 4_250_000, 63_000_000, 7_260_000_000, 180_000_000_000].map(micros);
        assert_eq!(
            said,
            ["0 µs", "999 µs", "1.5 ms", "340 ms", "4.2 s", "1 min 3 s", "2 h 1 min", "2 d 2 h"]
        );
        assert_eq!(micros(-5), "0 µs");
    }

    #[test]
    fn figures_are_parted_and_sizes_have_units() {
        assert_eq!(
            [0, 999, 1_000, 825_000, 1_234_567].map(count),
            ["0", "999", "1,000", "825,000", "1,234,567"]
        );
        let said = [0, 1, 2, 1_000].map(|number| of(number, "call", "calls"));
        assert_eq!(said, ["0 calls", "1 call", "2 calls", "1,000 calls"]);
        assert_eq!([1, 1_536, 10 << 20].map(bytes), ["1 B", "1.5 KiB", "10.0 MiB"]);
        assert_eq!(tokens(TokenUsage { input_tokens: 1_200, output_tokens: 3 }), "1,200 + 3");
    }
}
