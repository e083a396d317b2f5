//! The key: where it comes from, and how it is kept out of everything that is printed.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::agent::infer::{InferError, InferErrorKind};

/// What stands where a secret stood.
const REDACTED: &str = "[REDACTED]";

/// Secrets shorter than this are not searched for in texts: they would be found everywhere.
const SECRET_BYTES_MIN: usize = 4;

/// Where the key comes from. Printed as the place, never as the key.
#[derive(Clone, Default)]
pub(crate) enum KeySource {
    /// The server wants none.
    #[default]
    None,
    /// Given as it is.
    Given(Arc<str>),
    /// In this environment variable.
    Env(String),
    /// In this file, read for each call, so that it may be exchanged.
    File(PathBuf),
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Given(_) => f.write_str("given"),
            Self::Env(name) => write!(f, "environment variable {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
        }
    }
}

impl KeySource {
    /// The key, if there is one to send. Reads a file: call it where blocking is allowed.
    fn read(&self) -> Result<Option<Arc<str>>, InferError> {
        let failed = |why: String| InferError::new(InferErrorKind::Failed, "ApiKeyError", why);
        let key = match self {
            Self::None => return Ok(None),
            Self::Given(key) => Arc::clone(key),
            Self::Env(name) => std::env::var(name).map(Arc::from).map_err(|_| {
                failed(format!("the environment variable {name}, which should hold the API key, is not set"))
            })?,
            Self::File(path) => std::fs::read_to_string(path).map(Arc::from).map_err(|error| {
                failed(format!("the API key cannot be read from {}: {error}", path.display()))
            })?,
        };
        let trimmed = key.trim();
        if trimmed.is_empty() {
            return Err(failed(format!("the API key is empty ({self:?})")));
        }
        Ok(Some(if trimmed.len() == key.len() { key } else { Arc::from(trimmed) }))
    }

    /// The same, with files read where blocking is allowed.
    pub(crate) async fn load(&self) -> Result<Option<Arc<str>>, InferError> {
        if !matches!(self, Self::File(_)) {
            return self.read();
        }
        let source = self.clone();
        let read = tokio::task::spawn_blocking(move || source.read()).await;
        read.unwrap_or_else(|error| {
            Err(InferError::new(InferErrorKind::Failed, "ApiKeyError", error.to_string()))
        })
    }

    /// What can be known to be missing before the first call.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            // A file may be put there later.
            Self::File(_) => Ok(()),
            _ => self.read().map(|_| ()).map_err(|error| error.message),
        }
    }
}

/// The texts that must not come out again, longest first: one may hold another.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<Arc<str>>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

impl Secrets {
    /// One more.
    pub(crate) fn add(&mut self, secret: &str) {
        if secret.len() >= SECRET_BYTES_MIN {
            self.0.push(Arc::from(secret));
            self.0.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
    }

    /// The text without them: servers repeat the key that they refuse.
    pub(crate) fn redact(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| {
            if text.contains(&**secret) { text.replace(&**secret, REDACTED) } else { text }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_trimmed_and_a_missing_one_names_its_place() {
        assert_eq!(KeySource::Given("sk-1 \n".into()).read().unwrap().as_deref(), Some("sk-1"));
        assert_eq!(KeySource::None.read().unwrap(), None);
        let missing = KeySource::Env("TASKREEL_NO_SUCH_KEY".to_owned());
        assert!(missing.check().unwrap_err().contains("TASKREEL_NO_SUCH_KEY"));
        assert!(KeySource::Given("  ".into()).check().unwrap_err().contains("empty"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let file = KeySource::File(path.clone());
        assert!(file.read().unwrap_err().message.contains("key"));
        assert!(file.check().is_ok());
        std::fs::write(&path, "sk-file\n").unwrap();
        assert_eq!(file.read().unwrap().as_deref(), Some("sk-file"));
    }

    #[test]
    fn a_key_is_printed_nowhere() {
        assert_eq!(format!("{:?}", KeySource::Given("sk-secret".into())), "given");
        let mut secrets = Secrets::default();
        for secret in ["sk-secret", "sk-secret-long", "abc"] {
            secrets.add(secret);
        }
        assert_eq!(format!("{secrets:?}"), "2 secrets");
        let text = "wrong key sk-secret-long, sk-secret; abc".to_owned();
        assert_eq!(secrets.redact(text), "wrong key [REDACTED], [REDACTED]; abc");
    }
}
