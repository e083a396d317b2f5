//! Compares a result with a recorded one. Generated ids and times are placeholders in the recording: ours
//! must have the placeholder's form, equal placeholders mean equal values, different ones different values.

use std::collections::HashMap;

use proto_events::json::JsonValue as Value;

/// The settings of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    ignore_keys: Vec<String>,
    unordered: bool,
    /// Whether the keys of an object have an order.
    has_key_order: bool,
}

impl Flags {
    /// Returns the settings of a case.
    pub(crate) fn of(case: &Value) -> Self {
        let keys = case["ignore_keys"].as_array().into_iter().flatten();
        Self {
            ignore_keys: keys.filter_map(Value::as_str).map(str::to_owned).collect(),
            unordered: case["unordered_list"] == Value::Bool(true),
            has_key_order: case["ordered_keys"] == Value::Bool(true),
        }
    }
}

/// The value of each placeholder so far.
#[derive(Debug, Clone, Default)]
struct Bindings(HashMap<String, String>);

/// Compares `actual` with `expected`, ignoring the order of keys unless it counts; numbers are compared by their text.
///
/// # Errors
/// The place and kind of the first difference.
pub(crate) fn same(expected: &Value, actual: &Value, flags: &Flags) -> Result<(), String> {
    Bindings::default().value(expected, actual, "$", flags)
}

impl Bindings {
    fn value(&mut self, expected: &Value, actual: &Value, at: &str, flags: &Flags) -> Result<(), String> {
        match (expected, actual) {
            (Value::Object(expected), Value::Object(actual)) => self.object(expected, actual, at, flags),
            (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
                if flags.unordered {
                    self.unordered(expected, actual, at, flags)
                } else {
                    let mut pairs = expected.iter().zip(actual).enumerate();
                    pairs.try_for_each(|(n, (expected, actual))| {
                        self.value(expected, actual, &format!("{at}[{n}]"), flags)
                    })
                }
            }
            (Value::String(expected), Value::String(actual)) => self.text(expected, actual, at),
            (Value::Number(expected), Value::Number(actual))
                if number(&expected.to_string()) == number(&actual.to_string()) =>
            {
                Ok(())
            }
            _ if expected == actual => Ok(()),
            _ => Err(format!("{at}: expected {expected}, got {actual}")),
        }
    }

    fn object(
        &mut self,
        expected: &proto_events::json::JsonMap,
        actual: &proto_events::json::JsonMap,
        at: &str,
        flags: &Flags,
    ) -> Result<(), String> {
        if let Some(extra) = actual.keys().find(|key| !expected.contains_key(key)) {
            return Err(format!("{at}: we answer the key `{extra}`, they do not"));
        }
        let has_other_order = || !expected.keys().eq(actual.keys()) && expected.len() == actual.len();
        if flags.has_key_order && has_other_order() {
            let keys = |map: &proto_events::json::JsonMap| map.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(format!("{at}: their keys are {}, ours {}", keys(expected), keys(actual)));
        }
        for (key, expected) in expected {
            let actual =
                actual.get(key).ok_or_else(|| format!("{at}: they answer the key `{key}`, we do not"))?;
            if !flags.ignore_keys.contains(key) {
                self.value(expected, actual, &format!("{at}.{key}"), flags)?;
            }
        }
        Ok(())
    }

    /// Matches each expected item with the first of ours that fits and is not matched yet.
    fn unordered(
        &mut self,
        expected: &[Value],
        actual: &[Value],
        at: &str,
        flags: &Flags,
    ) -> Result<(), String> {
        let mut left: Vec<&Value> = actual.iter().collect();
        for item in expected {
            let fits = |candidate: &&Value| self.clone().value(item, candidate, at, flags).is_ok();
            let found = left.iter().position(fits).ok_or_else(|| format!("{at}: none of ours is {item}"))?;
            self.value(item, left.remove(found), at, flags)?;
        }
        Ok(())
    }

    /// Compares a text piece by piece: literal text must be in ours, a placeholder matches what has its form.
    fn text(&mut self, expected: &str, actual: &str, at: &str) -> Result<(), String> {
        let wrong = || format!("{at}: expected {expected:?}, got {actual:?}");
        let (mut expected_rest, mut actual_rest) = (expected, actual);
        while let Some((literal, placeholder, after)) = next_placeholder(expected_rest) {
            let ours = actual_rest.strip_prefix(literal).ok_or_else(wrong)?;
            let length = form_length(placeholder, ours).ok_or_else(wrong)?;
            let (value, left) = ours.split_at_checked(length).ok_or_else(wrong)?;
            self.bind(placeholder, value).map_err(|why| format!("{at}: {why}"))?;
            (expected_rest, actual_rest) = (after, left);
        }
        if expected_rest == actual_rest { Ok(()) } else { Err(wrong()) }
    }

    fn bind(&mut self, placeholder: &str, value: &str) -> Result<(), String> {
        // Time placeholders have no number: two times may be equal or not.
        if placeholder == "<ts>" {
            return Ok(());
        }
        if let Some(bound) = self.0.get(placeholder) {
            return if bound == value {
                Ok(())
            } else {
                Err(format!("{placeholder} was {bound:?} before and is {value:?} here"))
            };
        }
        if let Some((other, _)) = self.0.iter().find(|(_, bound)| *bound == value) {
            return Err(format!("{placeholder} and {other} are both {value:?}"));
        }
        self.0.insert(placeholder.to_owned(), value.to_owned());
        Ok(())
    }
}

/// Normalizes a number's text: `1e16`, `1E+16` and `1e+016` are the same; `1` and `1.0` are different.
fn number(text: &str) -> String {
    let text = text.to_ascii_lowercase();
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let negative = exponent.starts_with('-');
    let digits = exponent.trim_start_matches(['+', '-']).trim_start_matches('0');
    format!("{mantissa}e{}{digits}", if negative { "-" } else { "" })
}

/// Returns the text before the next placeholder, the placeholder, and the text after it.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('<').find_map(|(start, _)| {
        let (literal, rest) = text.split_at_checked(start)?;
        let (placeholder, after) = rest.split_at_checked(rest.find('>')? + 1)?;
        let known =
            placeholder == "<ts>" || placeholder.starts_with("<id:") || placeholder.starts_with("<uuid#");
        known.then_some((literal, placeholder, after))
    })
}

/// Returns the length in bytes of the beginning of `ours` that has the placeholder's form.
fn form_length(placeholder: &str, ours: &str) -> Option<usize> {
    if placeholder == "<ts>" {
        // With microseconds, or without when they are exactly zero.
        return ["0000-00-00T00:00:00.000000+00:00", "0000-00-00T00:00:00+00:00"]
            .into_iter()
            .find(|form| has_form(ours, form))
            .map(str::len);
    }
    if placeholder.starts_with("<uuid#") {
        let form = "xxxxxxxx-xxxx-4xxx-xxxx-xxxxxxxxxxxx";
        return has_form(ours, form).then_some(form.len());
    }
    let prefix = placeholder.strip_prefix("<id:")?.split_once('#')?.0;
    let digits = if matches!(prefix, "ctx" | "run" | "action" | "approval") { 6 } else { 8 };
    let form = format!("00000000000000_{}", "x".repeat(digits));
    let stamped = ours.strip_prefix(prefix)?.strip_prefix('_')?;
    has_form(stamped, &form).then_some(prefix.len() + 1 + form.len())
}

/// Whether `text` begins with `form`, in which `0` is a digit, `x` a lower-case hexadecimal digit, all else
/// itself.
fn has_form(text: &str, form: &str) -> bool {
    let fits = |(have, want): (u8, u8)| match want {
        b'0' => have.is_ascii_digit(),
        b'x' => matches!(have, b'0'..=b'9' | b'a'..=b'f'),
        _ => have == want,
    };
    text.len() >= form.len() && text.bytes().zip(form.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(expected: &str, actual: &str) -> Result<(), String> {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        same(&read(expected), &read(actual), &Flags::default())
    }

    const A: &str = "msg_20260101000000_0123abcd";
    const B: &str = "msg_20260101000000_0123abce";

    #[test]
    fn equal_placeholders_are_equal_values_and_different_ones_different_values() {
        let expected = r#"["<id:msg#1>","<id:msg#2>","again <id:msg#1>!"]"#;
        assert!(compared(expected, &format!(r#"["{A}","{B}","again {A}!"]"#)).is_ok());
        assert!(compared(expected, &format!(r#"["{A}","{B}","again {B}!"]"#)).is_err());
        assert!(compared(expected, &format!(r#"["{A}","{A}","again {A}!"]"#)).is_err());
    }

    #[test]
    fn a_placeholder_has_a_form() {
        assert!(compared(r#""<id:run#1>""#, r#""run_20260101000000_012abc""#).is_ok());
        assert!(compared(r#""<id:run#1>""#, r#""run_20260101000000_012abcde""#).is_err());
        assert!(compared(r#""<id:msg#1>""#, r#""art_20260101000000_0123abcd""#).is_err());
        assert!(compared(r#""<id:msg#1>""#, r#""m-1""#).is_err());
        assert!(compared(r#""<ts>""#, r#""2026-01-01T00:00:00.000001+00:00""#).is_ok());
        assert!(compared(r#""<ts>""#, r#""2026-01-01T00:00:00+00:00""#).is_ok());
        assert!(compared(r#""<ts>""#, r#""2026-01-01T00:00:00Z""#).is_err());
        assert!(compared(r#""<uuid#1>""#, r#""0190f8a1-0000-4000-8000-00000000000a""#).is_ok());
        assert!(compared(r#""<uuid#1>""#, r#""0190f8a1-0000-7000-8000-00000000000a""#).is_err());
    }

    #[test]
    fn numbers_count_by_text_but_for_the_way_an_exponent_is_written() {
        assert!(compared("[1e16,1.0]", "[1E+16,1.0]").is_ok());
        assert!(compared("1", "1.0").is_err());
        assert!(compared("1180591620717411303424", "1180591620717411303425").is_err());
        assert!(compared("1e-7", "1e7").is_err());
    }

    #[test]
    fn keys_have_no_order_but_all_count_unless_ignored() {
        assert!(compared(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#).is_ok());
        assert!(compared(r#"{"a":1}"#, r#"{"a":1,"b":2}"#).is_err());
        assert!(compared(r#"{"a":1,"b":2}"#, r#"{"a":1}"#).is_err());
        let (one, other) = (proto_events::json!({"a": 1, "b": 2}), proto_events::json!({"b": 2, "a": 1}));
        let ordered = Flags::of(&proto_events::json!({"ordered_keys": true}));
        assert!(same(&one, &other, &ordered).is_err() && same(&one, &one, &ordered).is_ok());
        let flags = Flags::of(&proto_events::json!({"ignore_keys": ["a"], "unordered_list": true}));
        let (expected, actual) =
            (proto_events::json!([{"a": 1}, {"b": 2}]), proto_events::json!([{"b": 2}, {"a": 7}]));
        assert!(same(&expected, &actual, &flags).is_ok());
        assert!(same(&expected, &actual, &Flags::default()).is_err());
    }
}
