//! Numbers of a schema and of an answer: integers exactly, as far as 128 bits reach, all else as floats.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Roundings that a quotient may have gathered.
const QUOTIENT_ERROR: f64 = 1e-9;

/// Whether a number is an integer in JSON Schema's sense: `1.0` is one.
pub(super) fn is_integer(number: &Number) -> bool {
    !number.as_str().contains(['.', 'e', 'E']) || float(number).fract() == 0.0
}

/// How two numbers stand to each other.
pub(super) fn order(left: &Number, right: &Number) -> Option<Ordering> {
    match (exact(left), exact(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => float(left).partial_cmp(&float(right)),
    }
}

/// Whether one is a multiple of the other; nothing is asked by a step that is not above zero.
pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    if let (Some(number), Some(of)) = (exact(number), exact(of)) {
        return of <= 0 || number % of == 0;
    }
    let of = float(of);
    let quotient = float(number) / of;
    of <= 0.0 || (quotient - quotient.round()).abs() < QUOTIENT_ERROR
}

/// Equality as JSON Schema has it: numbers by value, objects whatever the order of their keys, and `true` is no number.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || order(left, right) == Some(Ordering::Equal)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| equal(value, other)))
        }
        _ => left == right,
    }
}

fn exact(number: &Number) -> Option<i128> {
    number.as_str().parse().ok()
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}
