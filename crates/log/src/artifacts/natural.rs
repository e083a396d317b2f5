//! Natural numbers of any size, for sums that are rounded once, at the end.

use std::cmp::Ordering;

/// The bits of a limb.
const LIMB_BITS: usize = 64;

/// The largest power of ten in a limb, and its digits.
const TEN_POWER: u64 = 10_000_000_000_000_000_000;
const TEN_POWER_DIGITS: usize = 19;

/// A natural number in limbs, the lowest first; the highest ones may be zero.
#[derive(Debug, Clone, Default)]
pub(super) struct Natural(Vec<u64>);

/// Returns the lowest limb of a value.
fn lowest(value: u128) -> u64 {
    u64::try_from(value & u128::from(u64::MAX)).unwrap_or_default()
}

impl Natural {
    /// Reads decimal digits; anything else counts as zero.
    pub(super) fn from_digits(digits: &str) -> Self {
        let mut number = Self::default();
        let bytes = digits.as_bytes();
        let (first, rest) = bytes.split_at(bytes.len() % TEN_POWER_DIGITS);
        for chunk in std::iter::once(first).chain(rest.chunks(TEN_POWER_DIGITS)) {
            let chunk =
                chunk.iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit.wrapping_sub(b'0') % 10));
            number.multiply_and_add(TEN_POWER, chunk);
        }
        number
    }

    /// Returns the number in decimal digits.
    pub(super) fn digits(&self) -> String {
        let (mut rest, mut chunks) = (self.clone(), Vec::new());
        while !rest.is_zero() {
            chunks.push(rest.divide(TEN_POWER));
        }
        let Some(highest) = chunks.pop() else { return "0".to_owned() };
        let lower = chunks.iter().rev().map(|chunk| format!("{chunk:0TEN_POWER_DIGITS$}"));
        std::iter::once(highest.to_string()).chain(lower).collect()
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.iter().all(|limb| *limb == 0)
    }

    /// Returns the number of bits up to the highest one that is set.
    pub(super) fn bits(&self) -> usize {
        let highest = self.0.iter().enumerate().rev().find(|(_, limb)| **limb != 0);
        highest.map_or(0, |(at, limb)| (at + 1) * LIMB_BITS - limb.leading_zeros() as usize)
    }

    /// Adds `value` times two to the power of `bit`.
    pub(super) fn add_at(&mut self, value: u128, bit: usize) {
        let (first, shift) = (bit / LIMB_BITS, bit % LIMB_BITS);
        let low = value << shift;
        let high = if shift == 0 { 0 } else { value >> (2 * LIMB_BITS - shift) };
        if self.0.len() < first + 3 {
            self.0.resize(first + 3, 0);
        }
        let mut parts = [lowest(low), lowest(low >> LIMB_BITS), lowest(high)].into_iter();
        let mut carry = false;
        for limb in self.0.iter_mut().skip(first) {
            let part = parts.next();
            if part.is_none() && !carry {
                return;
            }
            let (sum, over) = limb.overflowing_add(part.unwrap_or(0));
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            (*limb, carry) = (sum, over || over_again);
        }
        if carry {
            self.0.push(1);
        }
    }

    /// Adds another number times two to the power of `bit`.
    pub(super) fn add(&mut self, other: &Self, bit: usize) {
        for (at, limb) in other.0.iter().enumerate().filter(|(_, limb)| **limb != 0) {
            self.add_at(u128::from(*limb), bit + at * LIMB_BITS);
        }
    }

    /// Multiplies by two to the power of so many limbs.
    pub(super) fn raise(&mut self, limbs: usize) {
        self.0.splice(0..0, std::iter::repeat_n(0, limbs));
    }

    /// Multiplies by one number and adds another.
    pub(super) fn multiply_and_add(&mut self, by: u64, add: u64) {
        let mut carry = add;
        for limb in &mut self.0 {
            let product = u128::from(*limb) * u128::from(by) + u128::from(carry);
            (*limb, carry) = (lowest(product), lowest(product >> LIMB_BITS));
        }
        if carry != 0 {
            self.0.push(carry);
        }
    }

    /// Divides and returns the remainder; a division by zero leaves the number.
    pub(super) fn divide(&mut self, by: u64) -> u64 {
        if by == 0 {
            return 0;
        }
        let mut remainder = 0;
        for limb in self.0.iter_mut().rev() {
            let dividend = (u128::from(remainder) << LIMB_BITS) | u128::from(*limb);
            *limb = lowest(dividend / u128::from(by));
            remainder = lowest(dividend % u128::from(by));
        }
        remainder
    }

    /// Returns the square.
    pub(super) fn square(&self) -> Self {
        let mut square = Self::default();
        for (at, limb) in self.0.iter().enumerate().filter(|(_, limb)| **limb != 0) {
            let mut row = self.clone();
            row.multiply_and_add(*limb, 0);
            square.add(&row, at * LIMB_BITS);
        }
        square
    }

    /// Returns the difference from a number that is not larger.
    pub(super) fn minus(mut self, other: &Self) -> Self {
        let (mut others, mut borrow) = (other.0.iter(), false);
        for limb in &mut self.0 {
            let (difference, under) = limb.overflowing_sub(others.next().copied().unwrap_or(0));
            let (difference, under_again) = difference.overflowing_sub(u64::from(borrow));
            (*limb, borrow) = (difference, under || under_again);
        }
        self
    }

    /// Returns the order of two numbers.
    pub(super) fn compared(&self, other: &Self) -> Ordering {
        let length = self.0.len().max(other.0.len());
        let limbs = |number: &Self| {
            number.0.iter().copied().chain(std::iter::repeat(0)).take(length).collect::<Vec<_>>()
        };
        limbs(self).into_iter().rev().cmp(limbs(other).into_iter().rev())
    }

    /// Returns the number times two to the power of `shift`, cut to an integer, and whether something was cut off.
    pub(super) fn shifted(&self, shift: i64) -> (Self, bool) {
        let distance = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
        let mut shifted = Self::default();
        if shift >= 0 {
            shifted.add(self, distance);
            return (shifted, false);
        }
        let (limbs, bits) = (distance / LIMB_BITS, distance % LIMB_BITS);
        let kept = self.0.get(limbs..).unwrap_or_default();
        let mut cut = self.0.iter().take(limbs).any(|limb| *limb != 0);
        for (at, limb) in kept.iter().enumerate() {
            let lifted = u128::from(*limb) << (LIMB_BITS - bits);
            let below = lowest(lifted);
            shifted.add_at(lifted >> LIMB_BITS, at * LIMB_BITS);
            match at.checked_sub(1) {
                Some(before) => shifted.add_at(u128::from(below), before * LIMB_BITS),
                None => cut |= below != 0,
            }
        }
        (shifted, cut)
    }

    /// Returns the lowest 128 bits.
    pub(super) fn low_128(&self) -> u128 {
        let mut limbs = self.0.iter().map(|limb| u128::from(*limb));
        limbs.next().unwrap_or(0) | (limbs.next().unwrap_or(0) << LIMB_BITS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn digits_are_read_and_written() {
        for digits in ["0", "7", "18446744073709551616", "10000000000000000000000000000000000000000"] {
            assert_eq!(Natural::from_digits(digits).digits(), digits);
        }
        let long = "9".repeat(4_300);
        assert_eq!(Natural::from_digits(&long).digits(), long);
    }

    proptest! {
        #[test]
        fn arithmetic_is_that_of_128_bits(one in any::<u64>(), other in any::<u64>(), bit in 0_usize..64, by in 1_u64..) {
            let natural = |value: u128| Natural::from_digits(&value.to_string());
            let (wide, narrow) = (u128::from(one), u128::from(other));
            prop_assert_eq!(natural(wide).square().low_128(), wide * wide);
            let mut sum = natural(wide);
            sum.add_at(narrow, bit);
            let added = wide + (narrow << bit);
            prop_assert_eq!(sum.low_128(), added);
            prop_assert_eq!(sum.clone().minus(&natural(wide)).low_128(), narrow << bit);
            prop_assert_eq!(sum.compared(&natural(narrow)), added.cmp(&narrow));
            prop_assert_eq!(sum.bits(), 128 - added.leading_zeros() as usize);
            let shift = i64::try_from(bit).unwrap();
            let (right, cut) = sum.shifted(-shift);
            prop_assert_eq!((right.low_128(), cut), (added >> bit, added >> bit << bit != added));
            prop_assert_eq!(natural(wide).shifted(shift).0.low_128(), wide << bit);
            let remainder = sum.divide(by);
            prop_assert_eq!((sum.low_128(), u128::from(remainder)), (added / u128::from(by), added % u128::from(by)));
        }
    }
}
