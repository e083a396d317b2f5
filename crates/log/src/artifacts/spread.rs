//! The spread of a group of numbers: smallest, largest, average and sample deviation, in one pass. The figures equal an
//! exact computation, rounded once, as Python's `statistics` makes them.

use std::cmp::Ordering;

use proto_events::json::{JsonMap, JsonNumber, JsonValue as Value};
use proto_events::model::python::repr_float;

use crate::artifacts::exact::Sums;

/// The digits after the point of averages and deviations.
const DIGITS: usize = 2;

/// The digits of a float from which on two texts can lie equally far from it.
const SHORTEST_DIGITS: usize = 16;

/// The digits of an integer from which on it has no part in an average and a deviation: Python reads none of more.
const WHOLE_DIGITS_MAX: usize = 4_300;

/// Rounds as Python's `round`: on the exact binary value, ties to the even digit; `None` if it is not finite.
pub(super) fn rounded(value: f64, digits: usize) -> Option<JsonNumber> {
    // Formatting a float prints its exact value, rounded half to even.
    let rounded: f64 = format!("{value:.digits$}").parse().ok()?;
    printed(rounded).parse().ok()
}

/// Prints a float as Python does. Of two shortest texts that lie equally far from a float Python takes the even one.
fn printed(float: f64) -> String {
    let shortest = repr_float(float);
    let digits = shortest.bytes().filter(u8::is_ascii_digit).count();
    if digits < SHORTEST_DIGITS || shortest.contains('e') {
        return shortest;
    }
    let after = shortest.split('.').nth(1).map_or(0, str::len);
    let even = format!("{float:.after$}");
    if even.parse() == Ok(float) { even } else { shortest }
}

/// A number, read from its text.
#[derive(Debug, Clone, Copy)]
pub(super) enum Read<'a> {
    /// An integer of 64 bits.
    Whole(i64),
    /// An integer of more bits, by its digits.
    Large(&'a str),
    /// A number with a fraction or an exponent; it may be infinite.
    Float(f64),
}

impl<'a> Read<'a> {
    pub(super) fn from_number(number: &'a JsonNumber) -> Self {
        match number.as_i64() {
            Some(whole) => Self::Whole(whole),
            None if number.is_float() => Self::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            None => Self::Large(number.as_str()),
        }
    }

    fn compared(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => one.cmp(&other),
            (Self::Float(one), Self::Float(other)) => one.partial_cmp(&other).unwrap_or(Ordering::Equal),
            (Self::Large(one), Self::Large(other)) => compare_digits(one, other),
            // Beyond 64 bits the sign alone decides. Floats form a group of their own.
            (Self::Large(large), _) => {
                if large.starts_with('-') {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (_, Self::Large(_)) => other.compared(self).reverse(),
            _ => Ordering::Equal,
        }
    }
}

/// Compares integers by sign, length and digits.
fn compare_digits(one: &str, other: &str) -> Ordering {
    match (one.strip_prefix('-'), other.strip_prefix('-')) {
        (None, None) => one.len().cmp(&other.len()).then_with(|| one.cmp(other)),
        (Some(one), Some(other)) => compare_digits(other, one),
        (one, _) => {
            if one.is_some() {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
    }
}

/// A number with its text.
#[derive(Debug, Clone, Copy)]
struct Number<'a> {
    /// The text; absent for a length.
    printed: Option<&'a JsonNumber>,
    read: Read<'a>,
}

impl Number<'_> {
    fn to_json(self) -> Value {
        match (self.printed, self.read) {
            (Some(number), _) => Value::Number(number.clone()),
            (None, Read::Whole(length)) => length.into(),
            (None, _) => Value::Null,
        }
    }
}

/// The spread of the numbers so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Spread<'a> {
    ends: Option<(Number<'a>, Number<'a>)>,
    sums: Sums,
    /// Whether a number has no part in the sums.
    is_beyond: bool,
}

impl<'a> Spread<'a> {
    /// Adds a number as it is printed.
    pub(super) fn add_number(&mut self, number: &'a JsonNumber, read: Read<'a>) {
        match read {
            Read::Whole(whole) => self.sums.add_whole(whole),
            Read::Float(float) if float.is_finite() => self.sums.add_float(float),
            Read::Large(digits) if digits.trim_start_matches('-').len() <= WHOLE_DIGITS_MAX => {
                self.sums.add_large(digits);
            }
            Read::Float(_) | Read::Large(_) => self.is_beyond = true,
        }
        self.reach(Number { printed: Some(number), read });
    }

    /// Adds a length.
    pub(super) fn add_count(&mut self, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.sums.add_whole(count);
        self.reach(Number { printed: None, read: Read::Whole(count) });
    }

    fn reach(&mut self, number: Number<'a>) {
        let Some((smallest, largest)) = &mut self.ends else {
            self.ends = Some((number, number));
            return;
        };
        if number.read.compared(smallest.read).is_lt() {
            *smallest = number;
        } else if number.read.compared(largest.read).is_gt() {
            *largest = number;
        }
    }

    /// Adds the figures to an entry, under names that begin with `prefix`. A figure that no finite number can state is
    /// left out.
    pub(super) fn write(&self, entry: &mut JsonMap, prefix: &str) {
        let Some((minimum, maximum)) = &self.ends else { return };
        entry.insert(format!("{prefix}minimum"), minimum.to_json());
        entry.insert(format!("{prefix}maximum"), maximum.to_json());
        if self.is_beyond {
            return;
        }
        let is_float = matches!(minimum.read, Read::Float(_));
        let whole = if is_float { None } else { self.sums.whole_average() };
        let average = whole.or_else(|| rounded(self.sums.average(), DIGITS));
        let deviation = self.sums.deviation().and_then(|deviation| rounded(deviation, DIGITS));
        for (name, figure) in [("average", average), ("stdev", deviation)] {
            if let Some(figure) = figure {
                entry.insert(format!("{prefix}{name}"), Value::Number(figure));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(numbers: &str) -> String {
        let list = Value::parse(numbers).unwrap();
        let mut spread = Spread::default();
        for number in list.as_array().unwrap() {
            let number = number.as_number().unwrap();
            spread.add_number(number, Read::from_number(number));
        }
        let mut entry = JsonMap::new();
        spread.write(&mut entry, "");
        entry.values().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn figures_are_those_of_an_exact_computation() {
        for (numbers, figures_of_python) in [
            ("[1,2,4]", "1 4 2.33 1.53"),
            ("[169500,0]", "0 169500 84750 119854.6"),
            ("[2.0,2.25]", "2.0 2.25 2.12 0.18"),
            ("[7]", "7 7 7"),
            ("[7.50]", "7.50 7.50 7.5"),
            // 2^70 and its neighbour: the average of integers is exact.
            (
                "[1180591620717411303424,1180591620717411303426]",
                "1180591620717411303424 1180591620717411303426 1180591620717411303425 1.41",
            ),
            ("[9007199254740993,9007199254740993]", "9007199254740993 9007199254740993 9007199254740993 0.0"),
            (
                "[1e15,1000000000000000.5,1000000000000001.0]",
                "1e15 1000000000000001.0 1000000000000000.5 0.5",
            ),
            ("[1999999999999965.25]", "1999999999999965.25 1999999999999965.25 1999999999999965.2"),
            ("[-0.0,0.0]", "-0.0 -0.0 0.0 0.0"),
            ("[1e999,1.0]", "1.0 1e999"),
        ] {
            assert_eq!(figures(numbers), figures_of_python, "{numbers}");
        }
    }

    #[test]
    fn the_deviation_of_large_integers_that_lie_close_together_is_theirs() {
        let series = |count: i64, first: i64, step: i64| {
            let numbers: Vec<String> = (0..count).map(|n| (first + n * step).to_string()).collect();
            let figures = figures(&format!("[{}]", numbers.join(",")));
            figures.rsplit(' ').next().unwrap().to_owned()
        };
        assert_eq!(series(50, 1_700_000_000_000_000_000, 1), "14.58");
        assert_eq!(series(100, 1_700_000_000_000_000_000, 1_000), "29011.49");
        assert_eq!(series(60, 1_234_567_890_123_456_789, 7), "122.25");
        assert_eq!(series(40, 1 << 62, 1), "11.69");
    }

    #[test]
    fn floats_of_any_size_have_an_average_and_a_deviation() {
        assert_eq!(figures("[1e200,3e200]"), "1e200 3e200 2e+200 1.414213562373095e+200");
        assert_eq!(figures("[1e308,1.2e308,1.4e308]"), "1e308 1.4e308 1.2e+308 2.0000000000000002e+307");
        // The deviation is beyond the range of floats.
        assert_eq!(figures("[-1.7e308,1.7e308]"), "-1.7e308 1.7e308 0.0");
        assert_eq!(figures("[1e-200,3e-200]"), "1e-200 3e-200 0.0 0.0");
    }

    #[test]
    fn integers_of_any_size_are_compared_and_averaged_by_their_digits() {
        let (power, next) = (format!("1{}", "0".repeat(50)), format!("1{}2", "0".repeat(49)));
        let between = format!("1{}1", "0".repeat(49));
        assert_eq!(figures(&format!("[{next},{power}]")), format!("{power} {next} {between} 1.41"));
        assert_eq!(figures(&format!("[-{next},3,-{power}]")).split(' ').next().unwrap(), format!("-{next}"));
        let long = "7".repeat(4_301);
        assert_eq!(figures(&format!("[{long},8]")), format!("8 {long}"), "Python reads no such integer");
    }
}
