//! Checks an exported line against itself. A line states everything twice: in bytes, which hashes cover, and
//! in words, which people and other programs read. The words must agree with the bytes.

use proto_events::json::{JsonText, JsonValue as Value};

use crate::api::record::StoredRecord;
use crate::audit::difference::first_difference;
use crate::audit::export::record_json;
use crate::audit::json::one_line;

/// Returns the first contradiction between a line's words and its bytes, if there is one. Fields that this
/// release does not write are ignored, and fields may be missing: another release may write more or fewer of
/// them.
pub(crate) fn contradiction(line: &str, stored: &StoredRecord) -> Option<String> {
    let ours = record_json(stored);
    // The common case: the line is what this release writes.
    if one_line(&ours) == line {
        return None;
    }
    // An exported line nests a little deeper than a stored value; a hostile line could nest without limit.
    let said = match JsonText::parse_stored(line) {
        Ok(said) => said.tree(),
        Err(error) => return Some(error.to_string()),
    };
    let meant = ours.tree();
    let said = common(&said, &meant);
    let found = first_difference(&said, &common(&meant, &said))?;
    Some(format!("its `{}` is {}, but its bytes say {}", found.path, found.left, found.right))
}

/// The value `of` without the object fields that `with` lacks, at every depth.
fn common(of: &Value, with: &Value) -> Value {
    match (of, with) {
        (Value::Object(of), Value::Object(with)) => {
            let both = of.iter().filter_map(|(key, value)| Some((key, value, with.get(key)?)));
            Value::Object(both.map(|(key, value, with)| (key.clone(), common(value, with))).collect())
        }
        (Value::Array(of), Value::Array(with)) if of.len() == with.len() => {
            Value::Array(of.iter().zip(with).map(|(of, with)| common(of, with)).collect())
        }
        _ => of.clone(),
    }
}
