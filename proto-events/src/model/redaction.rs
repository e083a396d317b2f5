//! The redaction of secrets in what is kept of a run for people: the value of a key whose name says that it is a
//! secret is replaced.

use crate::json::{JsonObject, JsonText};

/// The text in the place of a secret.
pub const REDACTED: &str = "[REDACTED]";

/// The keys whose values are secrets.
const KEYS: [&str; 8] =
    ["api_key", "apikey", "authorization", "client_secret", "credentials", "password", "secret", "token"];

/// The endings of keys whose values are secrets.
const ENDINGS: [&str; 5] = ["_api_key", "_secret", "_token", "_password", "_credentials"];

/// Whether the value of a key is a secret: by the key's name in lower case, `-` read as `_`.
pub fn is_secret_key(key: &str) -> bool {
    let key = key.to_lowercase().replace('-', "_");
    KEYS.contains(&key.as_str()) || ENDINGS.iter().any(|ending| key.ends_with(ending))
}

/// Returns the value with every secret in it replaced by [`REDACTED`], at any depth. A value without a secret keeps
/// its text.
#[must_use]
pub fn redacted(value: &JsonText) -> JsonText {
    changed(value).unwrap_or_else(|| value.clone())
}

/// Returns the value without its secrets; `None` if it has none.
fn changed(value: &JsonText) -> Option<JsonText> {
    match value.as_str().as_bytes().first() {
        Some(b'{') => {
            let mut object: JsonObject = value.read().ok()?;
            let mut is_changed = false;
            let keys: Vec<String> = object.iter().map(|(key, _)| key.to_owned()).collect();
            for key in keys {
                let member = object.get(&key)?;
                let new =
                    if is_secret_key(&key) { Some(JsonText::string(REDACTED)) } else { changed(member) };
                if let Some(new) = new {
                    is_changed = true;
                    object.set(key, new);
                }
            }
            is_changed.then(|| object.to_text())
        }
        Some(b'[') => {
            let mut items: Vec<JsonText> = value.read().ok()?;
            let mut is_changed = false;
            for item in &mut items {
                if let Some(new) = changed(item) {
                    is_changed = true;
                    *item = new;
                }
            }
            is_changed.then(|| JsonText::of_model(&items))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_redacted_by_its_keys_name_at_any_depth_and_nothing_else_is_touched() {
        let given = r#"{"Api-Key":"k","n":1.50,"deep":[{"X_TOKEN":{"a":1},"tokens":3},[{"password":null}]]}"#;
        let shown = redacted(&JsonText::parse(given).unwrap());
        assert_eq!(
            shown.as_str(),
            r#"{"Api-Key":"[REDACTED]","n":1.50,"deep":[{"X_TOKEN":"[REDACTED]","tokens":3},[{"password":"[REDACTED]"}]]}"#
        );
        assert_eq!(redacted(&shown), shown);
        let plain = JsonText::parse(r#"{"a" : [1.0, {"b":"token"}]}"#).unwrap();
        assert_eq!(redacted(&plain), plain);
    }
}
