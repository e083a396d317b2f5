//! Exact sums of numbers and of their squares, whatever their sizes: the average and the sample deviation are rounded once,
//! at the end.

use std::cmp::Ordering;

use proto_events::json::JsonNumber;

use crate::artifacts::natural::Natural;

/// The bits of a quotient that is rounded to a float: more than twice the bits of a float, so that a root has them too.
const QUOTIENT_BITS: i64 = 120;

/// The sums of some numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    count: u64,
    /// The sum of the integers of 64 bits and that of their squares, as far as they are not in `wide`.
    sum: i128,
    squares: u128,
    wide: Option<Box<Wide>>,
}

/// The sums of numbers that are no integers of 64 bits.
#[derive(Debug, Clone, Default)]
struct Wide {
    above: Scaled,
    below: Scaled,
    squares: Scaled,
}

/// A natural number times a power of two.
#[derive(Debug, Clone, Default)]
struct Scaled {
    number: Natural,
    /// The power of two, in limbs; absent as long as the number is zero.
    low: Option<i64>,
}

/// The bits of a limb as a distance between exponents.
const LIMB: i64 = 64;

fn distance(from: i64, to: i64) -> usize {
    usize::try_from(to - from).unwrap_or_default()
}

impl Scaled {
    /// Adds a number times two to the power of `exponent`.
    fn add(&mut self, value: u128, exponent: i64) {
        if value == 0 {
            return;
        }
        let low = self.reach(exponent.div_euclid(LIMB));
        self.number.add_at(value, distance(low * LIMB, exponent));
    }

    fn add_natural(&mut self, value: &Natural) {
        let low = self.reach(0);
        self.number.add(value, distance(low * LIMB, 0));
    }

    /// Makes room down to a limb and returns the lowest one.
    fn reach(&mut self, limb: i64) -> i64 {
        let low = *self.low.get_or_insert(limb);
        if limb >= low {
            return low;
        }
        self.number.raise(distance(limb, low));
        self.low = Some(limb);
        limb
    }

    /// Returns the number as a multiple of the power of two at a limb that is not above its own.
    fn shifted(&self, low: i64) -> Natural {
        let mut number = self.number.clone();
        number.raise(self.low.map_or(0, |own| distance(low, own)));
        number
    }
}

/// The sum and the sum of the squares, each as a multiple of a power of two.
struct Totals {
    is_negative: bool,
    sum: Natural,
    /// The power of two of the sum, in limbs.
    low: i64,
    squares: Scaled,
}

impl Sums {
    /// Adds an integer.
    pub(super) fn add_whole(&mut self, value: i64) {
        self.count += 1;
        self.sum += i128::from(value);
        let square = u128::from(value.unsigned_abs()).pow(2);
        if let Some(squares) = self.squares.checked_add(square) {
            self.squares = squares;
        } else {
            self.wide.get_or_insert_default().squares.add(self.squares, 0);
            self.squares = square;
        }
    }

    /// Adds an integer of any size.
    pub(super) fn add_large(&mut self, digits: &str) {
        self.count += 1;
        let wide = self.wide.get_or_insert_default();
        let (side, digits) = match digits.strip_prefix('-') {
            Some(digits) => (&mut wide.below, digits),
            None => (&mut wide.above, digits),
        };
        let value = Natural::from_digits(digits);
        side.add_natural(&value);
        wide.squares.add_natural(&value.square());
    }

    /// Adds a finite float.
    pub(super) fn add_float(&mut self, value: f64) {
        self.count += 1;
        let (mantissa, exponent) = mantissa_exponent(value);
        let wide = self.wide.get_or_insert_default();
        let side = if value < 0.0 { &mut wide.below } else { &mut wide.above };
        side.add(u128::from(mantissa), exponent);
        wide.squares.add(u128::from(mantissa).pow(2), 2 * exponent);
    }

    fn totals(&self) -> Totals {
        let mut wide = self.wide.as_deref().cloned().unwrap_or_default();
        let side = if self.sum < 0 { &mut wide.below } else { &mut wide.above };
        side.add(self.sum.unsigned_abs(), 0);
        wide.squares.add(self.squares, 0);
        let low = [wide.above.low, wide.below.low].into_iter().flatten().min().unwrap_or(0);
        let (above, below) = (wide.above.shifted(low), wide.below.shifted(low));
        let is_negative = above.compared(&below) == Ordering::Less;
        let sum = if is_negative { below.minus(&above) } else { above.minus(&below) };
        Totals { is_negative, sum, low, squares: wide.squares }
    }

    /// Returns the average of integers, if it is one.
    pub(super) fn whole_average(&self) -> Option<JsonNumber> {
        let Totals { is_negative, mut sum, low, .. } = self.totals();
        if low < 0 || sum.divide(self.count) != 0 {
            return None;
        }
        sum.raise(distance(0, low));
        let sign = if is_negative && !sum.is_zero() { "-" } else { "" };
        format!("{sign}{}", sum.digits()).parse().ok()
    }

    /// Returns the average, rounded to the nearest float.
    pub(super) fn average(&self) -> f64 {
        let Totals { is_negative, sum, low, .. } = self.totals();
        let Quotient { value, power, is_cut } = Quotient::new(&sum, [self.count, 1], 1);
        let average = scaled(nearest(value | u128::from(is_cut)), low * LIMB - power);
        if is_negative { -average } else { average }
    }

    /// Returns the sample deviation, rounded to the nearest float; absent for a single number.
    pub(super) fn deviation(&self) -> Option<f64> {
        let below = self.count.checked_sub(1).filter(|below| *below > 0)?;
        let Totals { sum, low: low_of_sum, squares, .. } = self.totals();
        let square = Scaled { number: sum.square(), low: Some(2 * low_of_sum) };
        let low = squares.low.map_or(2 * low_of_sum, |low| low.min(2 * low_of_sum));
        // The sum of the squared differences from the average, times the count.
        let mut differences = squares.shifted(low);
        differences.multiply_and_add(self.count, 0);
        let differences = differences.minus(&square.shifted(low));
        let Quotient { value, power, is_cut } = Quotient::new(&differences, [self.count, below], 2);
        let root = value.isqrt();
        let is_rest = is_cut || root * root != value;
        Some(scaled(nearest(root | u128::from(is_rest)), (low * LIMB - power) / 2))
    }
}

/// A quotient times a power of two, cut to an integer of about [`QUOTIENT_BITS`].
struct Quotient {
    value: u128,
    power: i64,
    /// Whether something was cut off.
    is_cut: bool,
}

impl Quotient {
    /// Divides a number by two others; the power is a multiple of `step`.
    fn new(number: &Natural, by: [u64; 2], step: i64) -> Self {
        let bits = |number: u64| i64::from(u64::BITS - number.leading_zeros());
        let divisor_bits: i64 = by.into_iter().map(bits).sum();
        let own = i64::try_from(number.bits()).unwrap_or(i64::MAX / 2);
        let power = (QUOTIENT_BITS + divisor_bits - own) / step * step;
        let (mut quotient, mut is_cut) = number.shifted(power);
        for by in by {
            is_cut |= quotient.divide(by) != 0;
        }
        Self { value: quotient.low_128(), power, is_cut }
    }
}

/// Returns the nearest float.
#[allow(clippy::cast_precision_loss, reason = "an integer is rounded to the nearest float")]
fn nearest(value: u128) -> f64 {
    value as f64
}

/// Returns a float times two to the power of `exponent`.
fn scaled(mut value: f64, mut exponent: i64) -> f64 {
    while exponent != 0 && value != 0.0 && value.is_finite() {
        let step = exponent.clamp(-512, 512);
        value *= 2_f64.powi(i32::try_from(step).unwrap_or_default());
        exponent -= step;
    }
    value
}

/// Returns a finite float without its sign as an integer times a power of two.
fn mantissa_exponent(value: f64) -> (u64, i64) {
    const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = value.to_bits() & !(1 << 63);
    let (fraction, exponent) = (bits & ((1 << FRACTION_BITS) - 1), bits >> FRACTION_BITS);
    let exponent = i64::try_from(exponent).unwrap_or_default();
    let hidden = if exponent == 0 { 0 } else { 1 << FRACTION_BITS };
    (fraction | hidden, exponent.max(1) - 1_075)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_is_its_integer_times_a_power_of_two() {
        for value in [0.0, 1.0, 0.1, 5e-324, 2.5e-310, f64::MIN_POSITIVE, f64::MAX, 123.5] {
            let (mantissa, exponent) = mantissa_exponent(-value);
            assert_eq!(scaled(nearest(u128::from(mantissa)), exponent).to_bits(), value.to_bits(), "{value}");
        }
    }

    #[test]
    fn sums_of_floats_of_all_sizes_are_exact() {
        let of = |values: &[f64]| {
            let mut sums = Sums::default();
            for value in values {
                sums.add_float(*value);
            }
            sums
        };
        assert_eq!(of(&[1e100, 1.0, -1e100, 5e-324]).average().to_bits(), 0.25_f64.to_bits());
        let sums = of(&[f64::MAX, f64::MAX]);
        assert_eq!(sums.average().to_bits(), f64::MAX.to_bits());
        assert_eq!(sums.deviation(), Some(0.0));
    }
}
