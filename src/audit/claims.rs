//! An exported line says everything twice: in bytes, which hashes cover, and in words, which people and other programs
//! read. Here the words are held against the bytes.

use proto_events::json::JsonText;
use serde_json::Value;

use super::difference::first_difference;
use super::export::record_json;
use crate::store::StoredRecord;

/// What a line says that its bytes do not; nothing, if they agree. Fields that this release does not write are not
/// looked at, nor is missed what the line leaves out: another release may say more or less.
pub fn contradiction(line: &str, stored: &StoredRecord) -> Option<String> {
    // What we write nests a little deeper than what the log may hold; a hostile line could nest without end.
    let said = match JsonText::parse_stored(line) {
        Ok(said) => said.to_value(),
        Err(error) => return Some(error.to_string()),
    };
    let meant = record_json(stored).to_value();
    let said = common(&said, &meant);
    let found = first_difference(&said, &common(&meant, &said))?;
    Some(format!("its `{}` is {}, but its bytes say {}", found.place, found.left, found.right))
}

/// A value without the fields that the other has not, wherever both have an object.
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
