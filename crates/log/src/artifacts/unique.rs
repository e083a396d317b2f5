//! The number of different values, as Python tells values apart: 1, 1.0 and true are one; an object or list is its JSON
//! with sorted keys, and equal to a string of that text.
//!
//! A value is kept as a hash of 128 bits, so that a large text takes no more memory than a number.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher, RandomState};
use std::sync::LazyLock;

use proto_events::json::JsonValue as Value;
use proto_events::model::python_json::python_json_sorted;

use crate::artifacts::spread::Read;

/// The different values so far.
#[derive(Debug, Default)]
pub(super) struct Unique {
    seen: HashSet<u128, BuildHasherDefault<ValueHasher>>,
    null: bool,
}

/// The kinds of values of which none equals one of another kind.
#[derive(Debug, Clone, Copy)]
enum ValueKind {
    Whole = 1,
    /// Floats that are no integers, by their bits.
    Fraction,
    /// Integers that 64 bits cannot hold, by their digits.
    Large,
    Text,
}

impl Unique {
    pub(super) fn add(&mut self, value: &Value) {
        match value {
            Value::Null => self.null = true,
            Value::Bool(flag) => self.add_number(Read::Whole(i64::from(*flag))),
            Value::Number(number) => self.add_number(Read::from_number(number)),
            Value::String(text) => self.add_text(text),
            list_or_object @ (Value::Array(_) | Value::Object(_)) => {
                self.add_text(&python_json_sorted(list_or_object));
            }
        }
    }

    /// Adds a number that was read already.
    pub(super) fn add_number(&mut self, number: Read<'_>) {
        match number {
            Read::Whole(whole) => self.add_word(ValueKind::Whole, whole.cast_unsigned()),
            Read::Large(digits) => self.add_bytes(ValueKind::Large, digits.as_bytes()),
            Read::Float(float) => self.add_float(float),
        }
    }

    /// Adds a string.
    pub(super) fn add_text(&mut self, text: &str) {
        self.add_bytes(ValueKind::Text, text.as_bytes());
    }

    fn add_float(&mut self, float: f64) {
        if !float.is_finite() || float.fract() != 0.0 {
            self.add_word(ValueKind::Fraction, float.to_bits());
            return;
        }
        if float.abs() < WHOLE_FLOAT_MAX {
            return self.add_number(Read::Whole(whole_of(float)));
        }
        // Without a fraction a float prints as an integer with all of its digits; zero has no sign there.
        let digits = format!("{:.0}", float + 0.0);
        match digits.parse() {
            Ok(whole) => self.add_number(Read::Whole(whole)),
            Err(_) => self.add_bytes(ValueKind::Large, digits.as_bytes()),
        }
    }

    fn add_word(&mut self, kind: ValueKind, word: u64) {
        let mut hash = Hash::new(kind, 0);
        hash.add(word, 0);
        self.seen.insert(hash.finish());
    }

    fn add_bytes(&mut self, kind: ValueKind, bytes: &[u8]) {
        let mut hash = Hash::new(kind, bytes.len());
        let (blocks, rest) = bytes.as_chunks::<16>();
        for block in blocks {
            hash.add_block(*block);
        }
        let mut last = [0; 16];
        if let Some(to) = last.get_mut(..rest.len()) {
            to.copy_from_slice(rest);
        }
        hash.add_block(last);
        self.seen.insert(hash.finish());
    }

    pub(super) fn count(&self) -> usize {
        self.seen.len() + usize::from(self.null)
    }
}

/// The floats below which every one without a fraction is an integer of 64 bits.
const WHOLE_FLOAT_MAX: f64 = 9e15;

#[allow(clippy::cast_possible_truncation, reason = "the float is an integer that fits")]
fn whole_of(float: f64) -> i64 {
    float as i64
}

/// The keys of the hashes, drawn once: nobody who chooses values knows which of them share a place in the set.
static KEYS: LazyLock<[u64; 4]> = LazyLock::new(|| {
    let state = RandomState::new();
    [0_u8, 1, 2, 3].map(|number| state.hash_one(number))
});

/// A hash of 128 bits: two lanes of multiplied and folded words.
struct Hash {
    one: u64,
    other: u64,
    keys: [u64; 4],
}

impl Hash {
    fn new(kind: ValueKind, length: usize) -> Self {
        let keys @ [first, second, ..] = *KEYS;
        Self { one: first ^ length as u64, other: second ^ kind as u64, keys }
    }

    fn add(&mut self, low: u64, high: u64) {
        let [first, second, third, fourth] = self.keys;
        self.one = folded(low ^ third ^ self.one, high ^ first);
        self.other = folded(high ^ fourth ^ self.other, low ^ second).rotate_left(23) ^ low;
    }

    fn add_block(&mut self, block: [u8; 16]) {
        let block = u128::from_le_bytes(block);
        self.add(low_half(block), low_half(block >> 64));
    }

    fn finish(self) -> u128 {
        let [.., third, fourth] = self.keys;
        let (one, other) =
            (folded(self.one ^ third, self.other ^ fourth), folded(self.other ^ third, self.one ^ fourth));
        (u128::from(one) << 64) | u128::from(other)
    }
}

fn low_half(value: u128) -> u64 {
    u64::try_from(value & u128::from(u64::MAX)).unwrap_or_default()
}

fn folded(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    low_half(product) ^ low_half(product >> 64)
}

/// A hasher of what is a hash already.
#[derive(Debug, Default)]
struct ValueHasher(u64);

impl Hasher for ValueHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = low_half(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_python_calls_equal_count_once() {
        for (list, count) in [
            ("[1,1.0,true,1e0]", 1),
            ("[0,-0.0,false,0.0,-0]", 1),
            ("[[-0],[0]]", 1),
            (r#"[{"a":1,"b":2},{"b":2,"a":1},"{\"a\": 1, \"b\": 2}"]"#, 1),
            ("[[1,2],[2,1],[1.0,2]]", 3),
            ("[1180591620717411303424,1.180591620717411303424e21,1180591620717411303425]", 2),
            (r#"[null,"","null",0.1,0.10,"\u0000","\u0000\u0000"]"#, 6),
        ] {
            let list = Value::parse(list).unwrap();
            let mut unique = Unique::default();
            for value in list.as_array().unwrap() {
                unique.add(value);
            }
            assert_eq!(unique.count(), count, "{list}");
        }
    }

    #[test]
    fn a_hundred_thousand_values_that_are_much_alike_all_count() {
        let mut unique = Unique::default();
        for number in 0..100_000_u32 {
            unique.add(&Value::from(number));
            unique.add(&Value::from(format!("a name of more than one block, number {number}")));
            unique.add(&Value::from(vec![Value::from(number)]));
        }
        assert_eq!(unique.count(), 300_000);
    }
}
