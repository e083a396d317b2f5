//! Any server that speaks `OpenAI`'s chat completions, as a model: hosted ones, Ollama, vLLM, llama.cpp, LM Studio.
//!
//! The model may answer with an action in JSON, as the system prompt asks, or with a native tool call, which is
//! read as the same action. Of several calls in one answer the first is taken, since actions go one at a time; the
//! request asks for that (`parallel_tool_calls`). One `infer` is one attempt: retries are the router's.

mod answer;
mod body;
mod exchange;
mod sse;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use proto_events::json::{JsonObject, JsonText};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use serde_json::Value;

use super::infer::{InferBackend, InferError, InferErrorKind, InferReply, InferRequest};
use super::key::{KeySource, Secrets};
use super::tool::BoxFuture;
use crate::limits::{INFER_ANSWER_BYTES_MAX, INFER_CONNECT_TIMEOUT, INFER_IDLE_TIMEOUT};

/// Whether tools are offered in the API's own form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NativeTools {
    /// Beside their description in the system prompt.
    Offered,
    /// They stand in the system prompt only.
    Never,
}

/// In whose name the notes are sent that follow the leading system prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SystemNotes {
    AsSystem,
    AsUser,
}

/// A model behind a server that speaks `OpenAI`'s chat completions.
///
/// Nothing but the base URL and the model must be said. Parameters (temperature and the like) and the base URL stand in
/// the intent of each inference, so that whoever reads the log sees them; keys and headers stand nowhere, and where a server
/// repeats one, in an error or in an answer, it is blotted out.
///
/// Answers are streamed unless [`OpenAiCompatible::whole_answers`] is said. A server that does not stream though
/// it is asked to is read all the same.
#[derive(Clone)]
pub struct OpenAiCompatible {
    settings: Arc<Settings>,
    /// Made at the first call, shared by clones.
    client: Arc<OnceLock<Result<Client, String>>>,
}

/// All that can be said about it.
#[derive(Clone)]
struct Settings {
    url: Result<Url, String>,
    /// The base URL without what may be secret in it.
    shown_url: String,
    model: String,
    key: KeySource,
    headers: HeaderMap,
    secrets: Secrets,
    parameters: JsonObject,
    native_tools: NativeTools,
    system_notes: SystemNotes,
    streams: bool,
    connect_timeout: Duration,
    idle_timeout: Duration,
    answer_bytes_max: usize,
    /// The first thing that was said and cannot be done.
    wrong: Option<String>,
}

impl fmt::Debug for OpenAiCompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.settings;
        let headers: Vec<&str> = settings.headers.keys().map(HeaderName::as_str).collect();
        f.debug_struct("OpenAiCompatible")
            .field("base_url", &settings.shown_url)
            .field("model", &settings.model)
            .field("key", &settings.key)
            .field("headers", &headers)
            .field("parameters", &settings.parameters)
            .finish_non_exhaustive()
    }
}

impl OpenAiCompatible {
    /// The model at a server, for example `http://127.0.0.1:11434/v1`: what stands before `/chat/completions`. No key is
    /// sent unless one is named.
    pub fn new(base_url: impl AsRef<str>, model: impl Into<String>) -> Self {
        let (url, shown_url, secrets) = endpoint(base_url.as_ref());
        let settings = Settings {
            url,
            shown_url,
            model: model.into(),
            key: KeySource::None,
            headers: HeaderMap::new(),
            secrets,
            parameters: JsonObject::new(),
            native_tools: NativeTools::Offered,
            system_notes: SystemNotes::AsSystem,
            streams: true,
            connect_timeout: INFER_CONNECT_TIMEOUT,
            idle_timeout: INFER_IDLE_TIMEOUT,
            answer_bytes_max: INFER_ANSWER_BYTES_MAX,
            wrong: None,
        };
        Self { settings: Arc::new(settings), client: Arc::default() }
    }

    fn with(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(Arc::make_mut(&mut self.settings));
        // A client that a clone made before knows other timeouts.
        Self { client: Arc::default(), ..self }
    }

    /// Sends this key. Rather keep it out of the program: see [`Self::api_key_env`] and [`Self::api_key_file`].
    #[must_use]
    pub fn api_key(self, key: impl AsRef<str>) -> Self {
        self.with(|settings| settings.key = KeySource::Given(Arc::from(key.as_ref())))
    }

    /// Sends the key that stands in this environment variable. `start` refuses if it is not set.
    #[must_use]
    pub fn api_key_env(self, variable: impl Into<String>) -> Self {
        self.with(|settings| settings.key = KeySource::Env(variable.into()))
    }

    /// Sends the key that stands in this file. It is read for each call, so that it may be exchanged while the system
    /// runs; blanks around it do not count.
    #[must_use]
    pub fn api_key_file(self, path: impl Into<PathBuf>) -> Self {
        self.with(|settings| settings.key = KeySource::File(path.into()))
    }

    /// Sends this header with every request. Its value is treated as a secret.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        self.with(|settings| settings.set_header(name, value))
    }

    /// Names the organization that pays, as `OpenAI-Organization`.
    #[must_use]
    pub fn organization(self, id: &str) -> Self {
        self.header("OpenAI-Organization", id)
    }

    /// Names the project, as `OpenAI-Project`.
    #[must_use]
    pub fn project(self, id: &str) -> Self {
        self.header("OpenAI-Project", id)
    }

    /// How freely the model chooses its words.
    #[must_use]
    pub fn temperature(self, temperature: f64) -> Self {
        self.parameter("temperature", temperature)
    }

    /// Most tokens of an answer, as `max_tokens`. A server that wants another name for it takes
    /// `parameter("max_completion_tokens", ..)`.
    #[must_use]
    pub fn max_tokens(self, tokens: u32) -> Self {
        self.parameter("max_tokens", tokens)
    }

    /// Asks for the same choice of words each time, where the server can.
    #[must_use]
    pub fn seed(self, seed: i64) -> Self {
        self.parameter("seed", seed)
    }

    /// Sends any other field with each request, for example `top_p`. `start` refuses the fields that are filled in here:
    /// the model, the messages, tools, streaming, the answer's format.
    #[must_use]
    pub fn parameter(self, name: &str, value: impl Into<Value>) -> Self {
        let value = JsonText::from(value.into());
        self.with(|settings| {
            if body::OWN_FIELDS.contains(&name) {
                settings.complain(format!("the field `{name}` of a request is not a parameter"));
            } else {
                settings.parameters.set(name, value);
            }
        })
    }

    /// Offers no native tools: the model calls tools by JSON actions alone, as the system prompt says. For servers and
    /// models that refuse `tools`.
    #[must_use]
    pub fn json_actions(self) -> Self {
        self.with(|settings| settings.native_tools = NativeTools::Never)
    }

    /// Sends the notes that follow the system prompt (results of tools, corrections) in the name of the user. For
    /// servers whose chat templates take one system message, at the beginning.
    #[must_use]
    pub fn notes_as_user(self) -> Self {
        self.with(|settings| settings.system_notes = SystemNotes::AsUser)
    }

    /// Asks for whole answers instead of streams: nobody can watch them come in.
    #[must_use]
    pub fn whole_answers(self) -> Self {
        self.with(|settings| settings.streams = false)
    }

    /// Longest time to connect; 10 s if nothing is said.
    #[must_use]
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.connect_timeout = timeout)
    }

    /// Longest silence of the server in the middle of an answer; 60 s if nothing is said. How long the answer as a whole
    /// may take, the wait for its beginning included, is the call's own timeout.
    #[must_use]
    pub fn idle_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.idle_timeout = timeout)
    }

    /// Longest answer that is taken, in bytes; 8 MiB if nothing is said.
    #[must_use]
    pub fn answer_bytes_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.answer_bytes_max = bytes)
    }

    fn client(&self) -> Result<Client, InferError> {
        let made = self.client.get_or_init(|| {
            Client::builder()
                .user_agent(concat!("taskreel/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(self.settings.connect_timeout)
                // The key goes nowhere but where it was meant to.
                .redirect(reqwest::redirect::Policy::none())
                // One call is one attempt; the log counts them.
                .retry(reqwest::retry::never())
                .build()
                .map_err(|error| shown(&error))
        });
        made.clone().map_err(|why| {
            InferError::new(InferErrorKind::Failed, "ClientError", format!("no HTTP client: {why}"))
        })
    }
}

impl Settings {
    fn complain(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    fn set_header(&mut self, name: &str, value: &str) {
        match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(mut value_sent)) => {
                value_sent.set_sensitive(true);
                self.secrets.add(value);
                self.headers.insert(name, value_sent);
            }
            (Err(_), _) => self.complain(format!("`{name}` cannot be the name of a header")),
            (_, Err(_)) => self.complain(format!("the value of the header `{name}` cannot be sent")),
        }
    }

    /// What cannot work, whoever asks.
    fn check(&self) -> Result<Url, String> {
        match &self.wrong {
            Some(wrong) => Err(wrong.clone()),
            None => self.url.clone(),
        }
    }
}

/// Where requests go, that place without what may be secret in it, and what may be.
fn endpoint(base: &str) -> (Result<Url, String>, String, Secrets) {
    let mut secrets = Secrets::default();
    let mut url = match Url::parse(base.trim()) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => url,
        Ok(url) => {
            let why = format!("the base URL begins with `{}:` and not with http: or https:", url.scheme());
            return (Err(why), "(no address)".to_owned(), secrets);
        }
        Err(error) => {
            return (Err(format!("the base URL is no URL: {error}")), "(no address)".to_owned(), secrets);
        }
    };
    if let Some(password) = url.password() {
        secrets.add(password);
    }
    for (_, value) in url.query_pairs() {
        secrets.add(&value);
    }
    let path = format!("{}/chat/completions", url.path().trim_end_matches('/'));
    let base_path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    url.set_fragment(None);
    let mut shown = url.clone();
    shown.set_query(None);
    shown.set_path(&base_path);
    // Both can fail for addresses without a host only.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    (Ok(url), shown.as_str().trim_end_matches('/').to_owned(), secrets)
}

/// An error with its causes.
fn shown(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.ends_with(&cause) { text } else { format!("{text}: {cause}") }
    })
}

impl InferBackend for OpenAiCompatible {
    fn backend(&self) -> &'static str {
        "openai-compatible"
    }

    fn model(&self) -> &str {
        &self.settings.model
    }

    fn parameters(&self) -> JsonObject {
        let settings = &self.settings;
        let mut said = JsonObject::new();
        said.set("base_url", JsonText::string(&settings.shown_url));
        if settings.native_tools == NativeTools::Never {
            said.set("tools", JsonText::string("json-actions"));
        }
        if settings.system_notes == SystemNotes::AsUser {
            said.set("notes", JsonText::string("user"));
        }
        if !settings.parameters.is_empty() {
            said.set("parameters", settings.parameters.to_text());
        }
        said
    }

    fn check(&self) -> Result<(), String> {
        self.settings.check()?;
        self.settings.key.check()
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let this = self.clone();
        Box::pin(async move {
            let wrong = |why: String| InferError::new(InferErrorKind::Failed, "ConfigurationError", why);
            let url = this.settings.check().map_err(wrong)?;
            let key = this.settings.key.load().await?;
            exchange::exchange(&this.client()?, &this.settings, url, key, request).await
        })
    }
}

#[cfg(test)]
mod tests;
