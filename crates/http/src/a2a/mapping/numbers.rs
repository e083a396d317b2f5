//! Numbers on their way through A2A. `data` and `metadata` are values of `google.protobuf.Value` there: a client whose SDK is
//! built on protobuf sends 3 as 3.0, loses digits of integers beyond 2^53, and writes a float as its own language prints it.
//!
//! So content whose numbers do not come back as they were has its text beside it ([`is_kept`]), and a number that comes as a
//! whole double is read as an integer ([`whole`]), which it is equal to there. The same holds for content that nests deeper than
//! protobuf reads.

use proto_events::json::{JsonNumber, JsonText, JsonValue};

/// The largest integer up to which every integer is a double.
const WHOLE_MAX: u64 = 1 << 53;

/// The deepest nesting that every client reads: protobuf's readers stop at 100 messages in each other, of which an object in an
/// object takes three, and the task around the content some.
pub(crate) const DEPTH_MAX: usize = 24;

/// Whether a value comes back as it is written here, by [`whole`], from a client that reads its numbers as doubles, and its
/// objects as messages in each other.
pub(crate) fn is_kept(json: &JsonText) -> bool {
    depth(json) <= DEPTH_MAX && (holds_no_digit(json) || all(&json.tree(), &is_kept_number))
}

/// Returns how deep objects and arrays stand in each other.
fn depth(json: &JsonText) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in json.as_str().bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Returns the value with whole doubles as integers; the same text without any.
pub(crate) fn whole(json: &JsonText) -> JsonText {
    if holds_no_digit(json) {
        return json.clone();
    }
    let mut tree = json.tree();
    if make_whole(&mut tree) { JsonText::of_model(&tree) } else { json.clone() }
}

fn holds_no_digit(json: &JsonText) -> bool {
    !json.as_str().bytes().any(|byte| byte.is_ascii_digit())
}

fn all(tree: &JsonValue, holds: &impl Fn(&JsonNumber) -> bool) -> bool {
    match tree {
        JsonValue::Number(number) => holds(number),
        JsonValue::Array(items) => items.iter().all(|item| all(item, holds)),
        JsonValue::Object(members) => members.values().all(|value| all(value, holds)),
        _ => true,
    }
}

fn is_kept_number(number: &JsonNumber) -> bool {
    let text = number.as_str();
    if !number.is_float() {
        let is_exact = number.as_i64().is_some_and(|whole| whole.unsigned_abs() <= WHOLE_MAX);
        return is_exact && text != "-0";
    }
    // As every language prints it: the shortest text, without an exponent.
    let float = number.as_f64().unwrap_or(f64::NAN);
    let is_plain = (1e-4..1e15).contains(&float.abs());
    is_plain && float.fract() != 0.0 && float.to_string() == text
}

/// Writes whole doubles as integers, and returns whether there was one.
fn make_whole(tree: &mut JsonValue) -> bool {
    match tree {
        JsonValue::Number(number) => {
            let Some(whole) = number.is_float().then(|| whole_of(number)).flatten() else { return false };
            *tree = JsonValue::Number(whole);
            true
        }
        JsonValue::Array(items) => items.iter_mut().fold(false, |any, item| make_whole(item) | any),
        JsonValue::Object(members) => members.values_mut().fold(false, |any, value| make_whole(value) | any),
        _ => false,
    }
}

/// Returns a double as an integer, if it is a whole one up to 2^53; minus zero does not count.
fn whole_of(number: &JsonNumber) -> Option<JsonNumber> {
    let float = number.as_f64()?;
    let is_whole = float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0;
    if !is_whole || (float == 0.0 && float.is_sign_negative()) {
        return None;
    }
    format!("{float:.0}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> JsonText {
        JsonText::parse(text).unwrap()
    }

    #[test]
    fn what_a_double_prints_otherwise_is_not_kept() {
        for kept in
            ["3", "-7", "9007199254740992", "0.5", "-12.25", "{\"a\":[1,2.5,\"7.0\"]}", "\"1e5\"", "null"]
        {
            assert!(is_kept(&json(kept)), "{kept}");
        }
        for lost in ["7.0", "1e16", "1E2", "-0.0", "-0", "1180591620717411303424", "9007199254740993", "0.10"]
        {
            assert!(!is_kept(&json(lost)), "{lost}");
            assert!(!is_kept(&json(&format!("[{{\"a\":{lost}}}]"))), "{lost}");
        }
    }

    #[test]
    fn what_protobuf_does_not_read_for_its_depth_is_not_kept() {
        let nested = |depth: usize| json(&format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        assert!(is_kept(&nested(DEPTH_MAX)) && !is_kept(&nested(DEPTH_MAX + 1)));
        let text = format!("{:?}", "[{\"\\".repeat(99));
        assert_eq!(depth(&json(&format!("[{{\"a\":{text}}}, []]"))), 2);
    }

    #[test]
    fn whole_doubles_become_integers_and_all_else_keeps_its_text() {
        assert_eq!(whole(&json("[3.0, 1e2,-4.0]")).as_str(), "[3,100,-4]");
        for same in ["[ 3, 0.5 ]", "1180591620717411303424", "-0.0", "1e300", "\"3.0\""] {
            assert_eq!(whole(&json(same)).as_str(), same);
        }
    }
}
