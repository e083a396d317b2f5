//! API keys: their source, and their redaction in answers and error texts.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use proto_events::json::JsonText;

use crate::models::backend::{InferError, InferErrorKind, InferReply, ToolAsk};

/// The replacement of a redacted secret.
const REDACTED: &str = "[REDACTED]";

/// The shortest secret that is redacted, in bytes: shorter ones would match ordinary text.
const SECRET_BYTES_MIN: usize = 4;

/// The source of the key. Its debug output names the source, never the key.
#[derive(Clone, Default)]
pub(crate) enum KeySource {
    /// No key: the server needs none.
    #[default]
    None,
    /// A key given directly.
    Inline(Arc<str>),
    /// The name of an environment variable.
    Env(String),
    /// The path of a file, read for each call, so that the key can be replaced while the system runs.
    File(PathBuf),
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Inline(_) => f.write_str("inline"),
            Self::Env(name) => write!(f, "environment variable {name}"),
            Self::File(path) => write!(f, "file {}", path.display()),
        }
    }
}

impl KeySource {
    /// Returns the key, if one must be sent. It may read a file, so it must be called where blocking is
    /// allowed.
    fn read(&self) -> Result<Option<Arc<str>>, InferError> {
        let failed = |why: String| InferError::new(InferErrorKind::Failed, "ApiKeyError", why);
        let key = match self {
            Self::None => return Ok(None),
            Self::Inline(key) => Arc::clone(key),
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

    /// Returns the key, as `read` does, and reads a file on the blocking pool.
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

    /// Checks, before the first call, whether the key is available.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            // The file may be created later.
            Self::File(_) => Ok(()),
            _ => self.read().map(|_| ()).map_err(|error| error.message),
        }
    }
}

/// The texts that must be redacted, longest first: one may contain another.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<Arc<str>>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

impl Secrets {
    /// Adds a secret.
    pub(crate) fn add(&mut self, secret: &str) {
        if secret.len() >= SECRET_BYTES_MIN {
            self.0.push(Arc::from(secret));
            self.0.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        }
    }

    /// Replaces the secrets in a text: some servers echo the key that they refuse.
    pub(crate) fn redact(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| {
            if text.contains(&**secret) { text.replace(&**secret, REDACTED) } else { text }
        })
    }
}

impl Secrets {
    fn redact_ask(&self, ask: ToolAsk) -> ToolAsk {
        let args = self.redact(ask.args.as_str().to_owned());
        // What replaces a secret stands in a string of the JSON, which stays JSON.
        let args = JsonText::parse(&args).unwrap_or_else(|_| JsonText::string(&args));
        ToolAsk { tool: self.redact(ask.tool), args }
    }

    /// Replaces the secrets in the answer or error of a call.
    pub(crate) fn redact_outcome(
        &self,
        outcome: Result<InferReply, InferError>,
    ) -> Result<InferReply, InferError> {
        match outcome {
            Ok(reply) => Ok(InferReply {
                content: self.redact(reply.content),
                calls: reply.calls.into_iter().map(|ask| self.redact_ask(ask)).collect(),
                model: self.redact(reply.model),
                usage: reply.usage,
            }),
            Err(error) => Err(InferError {
                kind: error.kind,
                type_name: self.redact(error.type_name),
                message: self.redact(error.message),
                usage: error.usage,
            }),
        }
    }
}

/// Setters of a model's key, for a builder with `with(FnOnce(&mut Settings))` whose settings have a `key`.
macro_rules! key_setters {
    () => {
        /// Sends this key. Prefer [`Self::api_key_env`] or [`Self::api_key_file`], which keep the key out of
        /// the program.
        #[must_use]
        pub fn api_key(self, key: impl AsRef<str>) -> Self {
            self.with(|settings| settings.key = KeySource::Inline(std::sync::Arc::from(key.as_ref())))
        }

        /// Sends the key in this environment variable. `start` fails if the variable is not set.
        #[must_use]
        pub fn api_key_env(self, variable: impl Into<String>) -> Self {
            self.with(|settings| settings.key = KeySource::Env(variable.into()))
        }

        /// Sends the key in this file. The file is read for each call, so that the key can be replaced while
        /// the system runs; white space around the key is ignored.
        #[must_use]
        pub fn api_key_file(self, path: impl Into<std::path::PathBuf>) -> Self {
            self.with(|settings| settings.key = KeySource::File(path.into()))
        }
    };
}
pub(crate) use key_setters;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_trimmed_and_a_missing_one_names_its_place() {
        assert_eq!(KeySource::Inline("sk-1 \n".into()).read().unwrap().as_deref(), Some("sk-1"));
        assert_eq!(KeySource::None.read().unwrap(), None);
        let missing = KeySource::Env("TASKREEL_NO_SUCH_KEY".to_owned());
        assert!(missing.check().unwrap_err().contains("TASKREEL_NO_SUCH_KEY"));
        assert!(KeySource::Inline("  ".into()).check().unwrap_err().contains("empty"));
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
        assert_eq!(format!("{:?}", KeySource::Inline("sk-secret".into())), "inline");
        let mut secrets = Secrets::default();
        for secret in ["sk-secret", "sk-secret-long", "abc"] {
            secrets.add(secret);
        }
        assert_eq!(format!("{secrets:?}"), "2 secrets");
        let text = "wrong key sk-secret-long, sk-secret; abc".to_owned();
        assert_eq!(secrets.redact(text), "wrong key [REDACTED], [REDACTED]; abc");
    }
}
