//! Credentials taken out of what is shown or kept.

use proto_events::json::JsonText;

/// The mark in the place of a secret.
const HIDDEN: &str = "[redacted]";

/// The bytes from which a secret is looked for in what comes and goes. A shorter one would be found everywhere.
const SECRET_MIN: usize = 6;

/// Takes credentials out of a text.
#[derive(Debug, Clone)]
pub(crate) struct Redactor(Vec<String>);

impl Redactor {
    /// Returns what takes these credentials out.
    pub(crate) fn from_credentials(credentials: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = Vec::new();
        for secret in credentials.into_iter().filter(|secret| secret.len() >= SECRET_MIN) {
            let json = JsonText::string(&secret);
            let inside = json.as_str().trim_matches('"').to_owned();
            let encoded: String = secret.bytes().map(percent).collect();
            secrets.extend([secret, inside, encoded]);
        }
        // The longest first, so that nothing is left of one that holds another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self(secrets)
    }

    /// Returns the text without credentials.
    pub(crate) fn clean(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), HIDDEN) } else { text }
        })
    }
}

fn percent(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"-._~*".contains(&byte) {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}
