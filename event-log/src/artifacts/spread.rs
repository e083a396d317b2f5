//! The spread of a group of numbers: smallest, largest, average and sample deviation, in one pass.
//!
//! Integers are summed exactly. Floats, and sums that 128 bits cannot hold, are summed as differences from the first
//! number with twice a float's precision, so that the rounded figures are those of an exact computation.

use proto_events::json::{JsonMap, JsonNumber, JsonValue as Value};
use proto_events::model::python::repr_float;

use crate::artifacts::double::Double;

/// The digits after the point of averages and deviations.
const DIGITS: usize = 2;

/// Rounds as Python's `round`: on the exact binary value, ties to the even digit.
pub(super) fn rounded(value: f64, digits: usize) -> Option<JsonNumber> {
    // Formatting a float prints its exact value, rounded half to even.
    let rounded: f64 = format!("{value:.digits$}").parse().ok()?;
    repr_float(rounded).parse().ok()
}

/// The sums of a group of numbers.
#[derive(Debug, Clone, Copy)]
struct Sums {
    count: i128,
    first: Double,
    /// The sum, as long as all numbers are integers and it fits.
    sum: Option<i128>,
    squares: Squares,
}

/// The squares of a group of numbers.
#[derive(Debug, Clone, Copy)]
enum Squares {
    /// The sum of the squares of integers.
    Exact(i128),
    /// The sums of the differences from the first number and of their squares.
    Differences(Double, Double),
}

impl Sums {
    fn first(value: Double, whole: Option<i128>) -> Self {
        let square = whole.and_then(|whole| whole.checked_mul(whole));
        let none = Squares::Differences(Double::default(), Double::default());
        Self { count: 1, first: value, sum: whole, squares: square.map_or(none, Squares::Exact) }
    }

    fn add(&mut self, value: Double, whole: Option<i128>) {
        let squares = match self.squares {
            Squares::Exact(sum) => whole.and_then(|whole| sum.checked_add(whole.checked_mul(whole)?)),
            Squares::Differences(..) => None,
        };
        self.squares = squares.map_or_else(
            || {
                let (sum, squares) = self.differences();
                let difference = value - self.first;
                Squares::Differences(sum + difference, squares + difference * difference)
            },
            Squares::Exact,
        );
        self.sum = self.sum.zip(whole).and_then(|(sum, whole)| sum.checked_add(whole));
        self.count += 1;
    }

    /// Returns the sums of the differences from the first number and of their squares.
    fn differences(&self) -> (Double, Double) {
        let squares = match self.squares {
            Squares::Differences(sum, squares) => return (sum, squares),
            Squares::Exact(squares) => Double::from(squares),
        };
        let (count, sum) = (Double::from(self.count), Double::from(self.sum.unwrap_or_default()));
        let apart = sum - self.first * count;
        (apart, squares - self.first * (sum + apart))
    }

    fn average(&self) -> Option<Value> {
        let count = Double::from(self.count);
        let average = match self.sum {
            Some(sum) if sum % self.count == 0 => {
                return (sum / self.count).to_string().parse().ok().map(Value::Number);
            }
            Some(sum) => Double::from(sum) / count,
            None => self.first + self.differences().0 / count,
        };
        rounded(average.nearest(), DIGITS).map(Value::Number)
    }

    fn deviation(&self) -> Option<Value> {
        let count = self.count;
        if count < 2 {
            return None;
        }
        let exact = match (self.squares, self.sum) {
            (Squares::Exact(squares), Some(sum)) => squares
                .checked_mul(count)
                .zip(sum.checked_mul(sum))
                .and_then(|(squares, square)| squares.checked_sub(square)),
            _ => None,
        };
        let variance = exact.map_or_else(
            || {
                let (sum, squares) = self.differences();
                (squares - sum * sum / Double::from(count)) / Double::from(count - 1)
            },
            |above| Double::from(above) / Double::from(count.saturating_mul(count - 1)),
        );
        rounded(variance.square_root().nearest(), DIGITS).map(Value::Number)
    }
}

/// The spread of a group of numbers, each with the text in which it is printed.
#[derive(Debug, Clone, Default)]
pub(super) struct Spread<'a> {
    /// The sums, the smallest and the largest number; absent before the first one.
    figures: Option<(Sums, Number<'a>, Number<'a>)>,
}

/// A number with its text.
#[derive(Debug, Clone, Copy)]
struct Number<'a> {
    text: Text<'a>,
    float: f64,
    whole: Option<i128>,
}

#[derive(Debug, Clone, Copy)]
enum Text<'a> {
    Printed(&'a JsonNumber),
    Count(usize),
}

impl Number<'_> {
    fn is_below(&self, other: &Self) -> bool {
        match (self.whole, other.whole) {
            (Some(left), Some(right)) => left < right,
            _ => self.float < other.float,
        }
    }

    fn to_json(self) -> Value {
        match self.text {
            Text::Printed(number) => Value::Number(number.clone()),
            Text::Count(count) => count.into(),
        }
    }
}

impl<'a> Spread<'a> {
    /// Adds a number as it is printed.
    pub(super) fn add_number(&mut self, number: &'a JsonNumber) {
        let text = number.as_str();
        // An integer that 128 bits cannot hold counts as the nearest float.
        let whole = if number.is_float() { None } else { text.parse::<i128>().ok() };
        let float =
            whole.map_or_else(|| text.parse().unwrap_or(f64::NAN), |whole| Double::from(whole).nearest());
        self.add(Number { text: Text::Printed(number), float, whole });
    }

    /// Adds a length.
    pub(super) fn add_count(&mut self, count: usize) {
        let whole = i128::try_from(count).ok();
        let float = whole.map_or(f64::MAX, |whole| Double::from(whole).nearest());
        self.add(Number { text: Text::Count(count), float, whole });
    }

    fn add(&mut self, number: Number<'a>) {
        let value = number.whole.map_or_else(|| Double::from(number.float), Double::from);
        let Some((sums, smallest, largest)) = &mut self.figures else {
            self.figures = Some((Sums::first(value, number.whole), number, number));
            return;
        };
        sums.add(value, number.whole);
        if number.is_below(smallest) {
            *smallest = number;
        } else if largest.is_below(&number) {
            *largest = number;
        }
    }

    /// Adds the figures to an entry, under names that begin with `prefix`. A figure that no finite number can state is
    /// left out.
    pub(super) fn write(&self, entry: &mut JsonMap, prefix: &str) {
        let Some((sums, minimum, maximum)) = &self.figures else { return };
        entry.insert(format!("{prefix}minimum"), minimum.to_json());
        entry.insert(format!("{prefix}maximum"), maximum.to_json());
        let figures = [("average", sums.average()), ("stdev", sums.deviation())];
        for (name, figure) in figures {
            if let Some(figure) = figure {
                entry.insert(format!("{prefix}{name}"), figure);
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
            spread.add_number(number.as_number().unwrap());
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
            ("[-0.0,0.0]", "-0.0 -0.0 0.0 0.0"),
            ("[1e999,1.0]", "1.0 1e999"),
        ] {
            assert_eq!(figures(numbers), figures_of_python, "{numbers}");
        }
    }
}
