//! API keys and their sources.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::models::backend::{InferError, InferErrorKind};

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
            let path = path.into();
            // Whole: it is read for each call, when the program may have another working directory.
            let path = std::path::absolute(&path).unwrap_or(path);
            self.with(|settings| settings.key = KeySource::File(path))
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
    }
}
