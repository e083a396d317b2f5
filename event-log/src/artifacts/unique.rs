//! The number of different values, as Python tells values apart: 1, 1.0 and true are one; an object or list is its JSON
//! with sorted keys, and equal to a string of that text.

use std::borrow::Cow;
use std::collections::HashSet;

use proto_events::json::{JsonNumber, JsonValue as Value};
use proto_events::model::python_json::python_json_sorted;

/// The different values so far.
#[derive(Debug, Default)]
pub(super) struct Unique<'a> {
    texts: HashSet<Cow<'a, str>>,
    whole: HashSet<i64>,
    /// The floats that are no integers, by their bits.
    fractions: HashSet<u64>,
    /// The integers that 64 bits cannot hold, by their digits.
    large: HashSet<String>,
    null: bool,
}

impl<'a> Unique<'a> {
    pub(super) fn add(&mut self, value: &'a Value) {
        match value {
            Value::Null => self.null = true,
            Value::Bool(flag) => {
                self.whole.insert(i64::from(*flag));
            }
            Value::Number(number) => self.add_number(number),
            Value::String(text) => {
                self.texts.insert(Cow::Borrowed(text));
            }
            list_or_object @ (Value::Array(_) | Value::Object(_)) => {
                self.texts.insert(Cow::Owned(python_json_sorted(list_or_object)));
            }
        }
    }

    fn add_number(&mut self, number: &JsonNumber) {
        if let Some(whole) = number.as_i64() {
            self.whole.insert(whole);
        } else if number.is_float() {
            self.add_float(number.as_str().parse().unwrap_or(f64::NAN));
        } else {
            self.large.insert(number.as_str().to_owned());
        }
    }

    fn add_float(&mut self, float: f64) {
        if !float.is_finite() || float.fract() != 0.0 {
            self.fractions.insert(float.to_bits());
            return;
        }
        // Without a fraction a float prints as an integer with all of its digits; zero has no sign there.
        let digits = format!("{:.0}", float + 0.0);
        match digits.parse() {
            Ok(whole) => self.whole.insert(whole),
            Err(_) => self.large.insert(digits),
        };
    }

    pub(super) fn count(&self) -> usize {
        let Self { texts, whole, fractions, large, null } = self;
        texts.len() + whole.len() + fractions.len() + large.len() + usize::from(*null)
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
            (r#"[{"a":1,"b":2},{"b":2,"a":1},"{\"a\": 1, \"b\": 2}"]"#, 1),
            ("[[1,2],[2,1],[1.0,2]]", 3),
            ("[1180591620717411303424,1.180591620717411303424e21,1180591620717411303425]", 2),
            (r#"[null,"","null",0.1,0.10]"#, 4),
        ] {
            let list = Value::parse(list).unwrap();
            let mut unique = Unique::default();
            for value in list.as_array().unwrap() {
                unique.add(value);
            }
            assert_eq!(unique.count(), count, "{list}");
        }
    }
}
