//! Paths into objects: keys separated by dots. A backslash before a dot or a backslash makes it part of the key.

use proto_events::json::JsonValue as Value;
use proto_events::model::python_json::type_name;

use crate::artifacts::error::ArtifactError;

/// Returns the value at a path; the whole value for an empty one.
pub(super) fn value_at<'a>(data: &'a Value, path: &str) -> Result<&'a Value, ArtifactError> {
    if path.is_empty() {
        return Ok(data);
    }
    segments(path).try_fold(data, |at, field| {
        let Value::Object(fields) = at else {
            return Err(ArtifactError::NoFields { field, kind: type_name(at) });
        };
        fields.get(&field).ok_or_else(|| ArtifactError::FieldMissing {
            field: field.clone(),
            available: fields.keys().cloned().collect(),
        })
    })
}

/// Returns the keys of a path one by one: a path that leads nowhere is not read to its end.
fn segments(path: &str) -> impl Iterator<Item = String> {
    let mut rest = Some(path.chars().peekable());
    std::iter::from_fn(move || {
        let chars = rest.as_mut()?;
        let mut segment = String::new();
        while let Some(char) = chars.next() {
            match char {
                '.' => return Some(segment),
                '\\' => segment.push(chars.next_if(|next| matches!(next, '.' | '\\')).unwrap_or('\\')),
                other => segment.push(other),
            }
        }
        rest = None;
        Some(segment)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::artifacts::key::escaped;

    #[test]
    fn a_backslash_escapes_dots_and_backslashes_only() {
        let segments = |path| segments(path).collect::<Vec<_>>();
        assert_eq!(segments("a.b"), ["a", "b"]);
        assert_eq!(segments("a..b."), ["a", "", "b", ""]);
        assert_eq!(segments(r"a\.b.c\d"), ["a.b", r"c\d"]);
        assert_eq!(segments(r"a\\.b\"), [r"a\", r"b\"]);
    }

    proptest! {
        #[test]
        fn every_key_can_be_reached(keys in proptest::collection::vec("[a.\\\\é]{0,5}", 1..4)) {
            let path = keys.iter().map(|key| escaped(key)).collect::<Vec<_>>().join(".");
            prop_assert_eq!(segments(&path).collect::<Vec<_>>(), keys);
        }
    }
}
