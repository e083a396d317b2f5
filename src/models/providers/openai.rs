//! A model on any server that speaks `OpenAI`'s chat completions: hosted ones, Ollama, vLLM, llama.cpp, LM
//! Studio.
//!
//! The model may answer with an action in JSON, as the system prompt asks, or with a native tool call, which
//! is read as the same action. Several calls in one answer are one step. One `infer` is one attempt: the router
//! makes the retries.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod exchange;
mod native_calls;
pub(crate) mod profile;
pub(crate) mod settings;
pub(crate) mod sse;
#[cfg(test)]
pub(crate) mod tests;
mod waits;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use proto_events::json::{JsonObject, JsonText, JsonValue as Value};
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName};

use crate::limits::{INFER_ANSWER_BYTES_MAX, INFER_CONNECT_TIMEOUT, INFER_IDLE_TIMEOUT};
use crate::models::backend::{InferBackend, InferError, InferReply, InferRequest};
use crate::models::providers::client::ModelClient;
use crate::models::providers::common::{described, failed};
use crate::models::providers::key::{KeySource, key_setters};
use crate::models::providers::openai::body::OWN_FIELDS;
use crate::models::providers::openai::profile::Profile;
use crate::models::providers::openai::settings::{NativeTools, OpenAiSettings, SystemNotes};
use crate::models::providers::secrets::SecretTexts;
use crate::tools::future::BoxFuture;

/// A model on a server that speaks `OpenAI`'s chat completions.
///
/// Only the base URL and the model are required. Parameters (temperature and the like) and the base URL are
/// recorded in the intent of each inference, so that readers of the log see them; keys and headers are
/// recorded nowhere, and a secret echoed by the server, in an error or in an answer, is redacted.
///
/// Answers are streamed unless [`OpenAiCompatible::whole_answers`] is set. A whole answer to a request for a
/// stream is read as well.
#[derive(Clone)]
pub struct OpenAiCompatible {
    settings: Arc<OpenAiSettings>,
    client: ModelClient,
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
    /// Creates a backend for a model at a base URL, for example `http://127.0.0.1:11434/v1`: the part before
    /// `/chat/completions`. No key is sent unless one is set.
    pub fn new(base_url: impl AsRef<str>, model: impl Into<String>) -> Self {
        let (url, shown_url, secrets) = endpoint(base_url.as_ref());
        let profile = url.as_ref().map_or(Profile::Other, Profile::for_url);
        let settings = OpenAiSettings {
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
            images: false,
            profile,
            rules: profile.rules(),
            connect_timeout: INFER_CONNECT_TIMEOUT,
            idle_timeout: INFER_IDLE_TIMEOUT,
            answer_bytes_max: INFER_ANSWER_BYTES_MAX,
            wrong: None,
        };
        Self { settings: Arc::new(settings), client: ModelClient::default() }
    }

    fn with(mut self, set: impl FnOnce(&mut OpenAiSettings)) -> Self {
        set(Arc::make_mut(&mut self.settings));
        // A client that a clone created earlier has other timeouts.
        Self { client: ModelClient::default(), ..self }
    }

    key_setters!();

    /// Sends this header with every request. Its value is treated as a secret.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        self.with(|settings| settings.set_header(name, value))
    }

    /// Sets the organization that pays, as `OpenAI-Organization`.
    #[must_use]
    pub fn organization(self, id: &str) -> Self {
        self.header("OpenAI-Organization", id)
    }

    /// Sets the project, as `OpenAI-Project`.
    #[must_use]
    pub fn project(self, id: &str) -> Self {
        self.header("OpenAI-Project", id)
    }

    /// Sets the sampling temperature.
    #[must_use]
    pub fn temperature(self, temperature: f64) -> Self {
        self.parameter("temperature", temperature)
    }

    /// Sets the most tokens of an answer, as `max_tokens`. For a server with another name for it, use
    /// `parameter("max_completion_tokens", ..)`.
    #[must_use]
    pub fn max_tokens(self, tokens: u32) -> Self {
        self.parameter("max_tokens", tokens)
    }

    /// Sets the seed of the sampling, so that answers are repeatable where the server supports it.
    #[must_use]
    pub fn seed(self, seed: i64) -> Self {
        self.parameter("seed", seed)
    }

    /// Sends another field with each request, for example `top_p`. `start` refuses the fields that are set
    /// here: the model, the messages, tools, streaming, the answer's format.
    #[must_use]
    pub fn parameter(self, name: &str, value: impl Into<Value>) -> Self {
        let value = JsonText::from(value.into());
        self.with(|settings| {
            if OWN_FIELDS.contains(&name) {
                settings.complain(format!("the request field `{name}` cannot be set as a parameter"));
            } else {
                settings.parameters.set(name, value);
            }
        })
    }

    /// Offers no native tools: the model calls tools by JSON actions only, as the system prompt says. For
    /// servers and models that refuse `tools`.
    #[must_use]
    pub fn json_actions(self) -> Self {
        self.with(|settings| settings.native_tools = NativeTools::Never)
    }

    /// Sends the notes that follow the system prompt (results of tools, corrections) with the role of the
    /// user. For servers whose chat templates accept only one system message, at the beginning.
    #[must_use]
    pub fn notes_as_user(self) -> Self {
        self.with(|settings| settings.system_notes = SystemNotes::AsUser)
    }

    /// Sets the provider whose rules are followed, where it does not follow from the base URL: a gateway, a server under another
    /// name. What a profile sends and takes stands in `docs/model-servers.md`. Settings of single rules come after it.
    #[must_use]
    pub fn profile(self, profile: Profile) -> Self {
        self.with(|settings| (settings.profile, settings.rules) = (profile, profile.rules()))
    }

    /// Sets whether `stream_options` is sent with a stream, which asks for the tokens of the answer. Without them a budget
    /// estimates.
    #[must_use]
    pub fn stream_options(self, sent: bool) -> Self {
        self.with(|settings| settings.rules.stream_options = sent)
    }

    /// Sets whether `response_format` is sent where tools are offered too. Many servers refuse both together: the schema then
    /// stands in the prompt, and the answer is checked here.
    #[must_use]
    pub fn format_with_tools(self, sent: bool) -> Self {
        self.with(|settings| settings.rules.format_with_tools = sent)
    }

    /// Sets whether reasoning that came with calls is sent back with them, in the member in which it came. Some models require it,
    /// some servers refuse it.
    #[must_use]
    pub fn returns_reasoning(self, sent: bool) -> Self {
        self.with(|settings| settings.rules.returns_reasoning = sent)
    }

    /// Sends images that tools attach, such as those in answers of MCP servers, for models that take images: PNG, JPEG and WebP
    /// of at most 5 MB, the newest 16 of a run. Without it a model reads that there is an image.
    #[must_use]
    pub fn images(self) -> Self {
        self.with(|settings| settings.images = true)
    }

    /// Requests whole answers instead of streams, so that partial answers cannot be observed.
    #[must_use]
    pub fn whole_answers(self) -> Self {
        self.with(|settings| settings.streams = false)
    }

    /// Sets the longest time to connect; 10 s by default.
    #[must_use]
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.connect_timeout = timeout)
    }

    /// Sets the longest silence of the server in the middle of an answer; 60 s by default. The time for the
    /// whole answer, including the wait for its beginning, is limited by the call's own timeout.
    #[must_use]
    pub fn idle_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.idle_timeout = timeout)
    }

    /// Sets the longest accepted answer, in bytes; 8 MiB by default.
    #[must_use]
    pub fn answer_bytes_max(self, bytes: usize) -> Self {
        self.with(|settings| settings.answer_bytes_max = bytes)
    }
}

/// Returns the URL of requests, the base URL without parts that may be secret, and those parts.
fn endpoint(base: &str) -> (Result<Url, String>, String, SecretTexts) {
    let mut secrets = SecretTexts::default();
    let mut url = match Url::parse(base.trim()) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => url,
        Ok(url) => {
            let why = format!("the base URL begins with `{}:` and not with http: or https:", url.scheme());
            return (Err(why), "(no address)".to_owned(), secrets);
        }
        Err(error) => {
            return (Err(format!("the base URL is invalid: {error}")), "(no address)".to_owned(), secrets);
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
    // These calls fail only for URLs without a host.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    (Ok(url), shown.as_str().trim_end_matches('/').to_owned(), secrets)
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
        let native_tools = settings.native_tools == NativeTools::Offered;
        let notes = (settings.system_notes == SystemNotes::AsUser).then_some("user");
        let mut said = described(Some(&settings.shown_url), native_tools, notes, &settings.parameters);
        if settings.rules != Profile::Other.rules() {
            said.set("profile", settings.rules.described());
        }
        if settings.images {
            said.set("images", JsonText::of_model(&true));
        }
        said
    }

    fn takes_images(&self) -> bool {
        self.settings.images
    }

    fn tools_max(&self) -> Option<usize> {
        self.settings.rules.tools_max.filter(|_| self.has_native_tools())
    }

    fn has_native_tools(&self) -> bool {
        self.settings.native_tools == NativeTools::Offered
    }

    fn check(&self) -> Result<(), String> {
        self.settings.check()?;
        self.settings.key.check()
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let this = self.clone();
        Box::pin(async move {
            let url = this.settings.check().map_err(|why| failed("ConfigurationError", why))?;
            let key = this.settings.key.load().await?;
            let client = this.client.get(this.settings.connect_timeout)?;
            exchange::exchange(&client, &this.settings, url, key, request).await
        })
    }
}
