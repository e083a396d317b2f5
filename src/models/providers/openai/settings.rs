//! The settings of an OpenAI-compatible server.

use std::time::Duration;

use proto_events::json::JsonObject;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::models::providers::key::KeySource;
use crate::models::providers::openai::profile::{Profile, Rules};
use crate::models::providers::secrets::SecretTexts;

/// The way in which tools are offered to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NativeTools {
    /// The tools are offered natively, in addition to their description in the system prompt.
    Offered,
    /// The tools are in the system prompt only.
    Never,
}

/// The role of the notes that follow the leading system prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SystemNotes {
    AsSystem,
    AsUser,
}

/// The settings of a backend.
#[derive(Clone)]
pub(crate) struct OpenAiSettings {
    pub(crate) url: Result<Url, String>,
    /// The base URL without parts that may be secret.
    pub(crate) shown_url: String,
    pub(crate) model: String,
    pub(crate) key: KeySource,
    pub(crate) headers: HeaderMap,
    pub(crate) secrets: SecretTexts,
    pub(crate) parameters: JsonObject,
    pub(crate) native_tools: NativeTools,
    pub(crate) system_notes: SystemNotes,
    pub(crate) streams: bool,
    pub(crate) images: bool,
    pub(crate) profile: Profile,
    /// The rules of the profile, with what the host changed.
    pub(crate) rules: Rules,
    pub(crate) connect_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) answer_bytes_max: usize,
    /// The first setting that is invalid.
    pub(crate) wrong: Option<String>,
}

impl OpenAiSettings {
    pub(crate) fn complain(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    pub(crate) fn set_header(&mut self, name: &str, value: &str) {
        match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(mut value_sent)) => {
                value_sent.set_sensitive(true);
                self.secrets.add(value);
                self.headers.insert(name, value_sent);
            }
            (Err(_), _) => self.complain(format!("`{name}` is not a valid header name")),
            (_, Err(_)) => self.complain(format!("the value of the header `{name}` is not valid")),
        }
    }

    /// Returns the URL, or the first setting that is invalid.
    pub(crate) fn check(&self) -> Result<Url, String> {
        match &self.wrong {
            Some(wrong) => Err(wrong.clone()),
            None => self.url.clone(),
        }
    }
}
