//! Numbers of twice the precision of a float: sums over many rows whose result is rounded once, at the end, as if it
//! had been computed exactly.

use std::ops::{Add, Div, Mul, Sub};

/// The unevaluated sum of two floats that do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Double {
    high: f64,
    low: f64,
}

impl Double {
    /// Returns the nearest float.
    pub(super) fn nearest(self) -> f64 {
        self.high
    }

    /// Returns the square root; 0 for what is not positive.
    pub(super) fn square_root(self) -> Self {
        if self.high <= 0.0 {
            return Self::default();
        }
        // One step of Newton's iteration doubles the digits of the float's root.
        let root = Self::from(self.high.sqrt());
        let error = self - root * root;
        root + error / (root + root)
    }

    /// Returns the exact sum of two floats.
    fn sum(left: f64, right: f64) -> Self {
        let high = left + right;
        let part = high - left;
        Self { high, low: (left - (high - part)) + (right - part) }
    }

    /// Returns the sum of two floats of which the first is not the smaller one.
    fn ordered_sum(left: f64, right: f64) -> Self {
        let high = left + right;
        Self { high, low: right - (high - left) }
    }

    /// Returns the exact product of two floats.
    fn product(left: f64, right: f64) -> Self {
        let high = left * right;
        Self { high, low: left.mul_add(right, -high) }
    }
}

impl From<f64> for Double {
    fn from(value: f64) -> Self {
        Self { high: value, low: 0.0 }
    }
}

impl From<i128> for Double {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "the rest is the low part"
    )]
    fn from(value: i128) -> Self {
        let high = value as f64;
        // The nearest float of the largest integers is beyond them, where the cast back saturates.
        let low = value.saturating_sub(high as i128) as f64;
        Self::ordered_sum(high, low)
    }
}

impl Add for Double {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let high = Self::sum(self.high, other.high);
        let low = Self::sum(self.low, other.low);
        let first = Self::ordered_sum(high.high, high.low + low.high);
        Self::ordered_sum(first.high, first.low + low.low)
    }
}

impl Sub for Double {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + Self { high: -other.high, low: -other.low }
    }
}

impl Mul for Double {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let product = Self::product(self.high, other.high);
        let cross = self.high * other.low + self.low * other.high;
        Self::ordered_sum(product.high, product.low + cross)
    }
}

impl Div for Double {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let first = self.high / other.high;
        let rest = self - other * Self::from(first);
        let second = rest.high / other.high;
        let rest = rest - other * Self::from(second);
        let third = rest.high / other.high;
        Self::ordered_sum(first, second) + Self::from(third)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_products_quotients_and_roots_keep_what_a_float_loses() {
        let (large, small) = (Double::from(1e16), Double::from(1.0));
        assert_eq!((large + small - large).nearest().to_bits(), 1.0_f64.to_bits());
        let third = Double::from(1.0) / Double::from(3.0);
        assert_eq!((third * Double::from(3.0)).nearest().to_bits(), 1.0_f64.to_bits());
        let root = Double::from(2.0).square_root();
        assert!((root * root - Double::from(2.0)).nearest().abs() < 1e-30);
        let whole = Double::from(10_i128.pow(30) + 1);
        assert_eq!((whole - Double::from(10_i128.pow(30))).nearest().to_bits(), 1.0_f64.to_bits());
        assert!(Double::from(i128::MAX).nearest().is_finite());
    }
}
