//! Providers other than `OpenAI`, through the crate `genai`: Anthropic, Gemini, Ollama's own API, Bedrock and
//! others.

pub(crate) mod errors;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use genai::adapter::AdapterKind;
use genai::chat::{
    ChatMessage as Said, ChatOptions, ChatRequest, ChatStream, ChatStreamEvent, ContentPart, JsonSpec,
    MessageContent, StopReason, StreamEnd, Tool, ToolCall, ToolResponse,
};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};
use proto_events::call::TokenUsage;
use proto_events::json::{JsonObject, JsonText, JsonValue as Value};
use proto_events::model::LlmRole;

use crate::limits::{INFER_ANSWER_BYTES_MAX, INFER_CONNECT_TIMEOUT, INFER_IDLE_TIMEOUT, NATIVE_CALLS_MAX};
use crate::models::backend::{InferBackend, InferError, InferReply, InferRequest, ToolAsk};
use crate::models::message::{ChatMessage, Image};
use crate::models::providers::client::ModelClient;
use crate::models::providers::common::{
    IMAGES_PLEASE, Names, SentMessage, caption, described, end_reason, failed, failed_end, malformed,
    passing, sent_arguments, with_images_apart,
};
use crate::models::providers::genai::errors::convert_error;
use crate::models::providers::key::{KeySource, key_setters};
use crate::models::providers::secrets::SecretTexts;
use crate::tools::future::BoxFuture;

/// A model of one of the providers that the crate `genai` supports, streamed.
///
/// Notes that follow the system prompt are sent with the role of the user: most of these APIs accept one
/// system text, at the beginning. Parameters are recorded in the intent of each inference, keys nowhere.
#[derive(Clone)]
pub struct Genai {
    settings: Arc<GenaiSettings>,
    http: ModelClient,
}

#[derive(Debug, Clone)]
struct GenaiSettings {
    provider: String,
    pub(crate) model: String,
    base_url: Option<String>,
    pub(crate) key: KeySource,
    temperature: Option<f64>,
    max_tokens: Option<u32>,
    seed: Option<u64>,
    pub(crate) native_tools: bool,
    images: bool,
    pub(crate) idle_timeout: Duration,
}

impl fmt::Debug for Genai {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GenaiSettings { provider, model, base_url, key, .. } = &*self.settings;
        f.debug_struct("Genai")
            .field("provider", provider)
            .field("model", model)
            .field("base_url", base_url)
            .field("key", key)
            .finish_non_exhaustive()
    }
}

impl Genai {
    /// Creates a backend for a model of a provider, by the names that `genai` knows: `anthropic`, `gemini`,
    /// `ollama`, `groq`, `cohere`, … `start` refuses an unknown provider. If no key is set, it is read from
    /// the provider's usual environment variable, for example `ANTHROPIC_API_KEY`.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        let settings = GenaiSettings {
            provider: provider.into(),
            model: model.into(),
            base_url: None,
            key: KeySource::None,
            temperature: None,
            max_tokens: None,
            seed: None,
            native_tools: true,
            images: false,
            idle_timeout: INFER_IDLE_TIMEOUT,
        };
        Self { settings: Arc::new(settings), http: ModelClient::default() }
    }

    fn with(mut self, set: impl FnOnce(&mut GenaiSettings)) -> Self {
        set(Arc::make_mut(&mut self.settings));
        self
    }

    /// Sets the address that replaces the provider's own, for example `http://127.0.0.1:11434/`. It is
    /// recorded in the log: do not put a password in it.
    #[must_use]
    pub fn base_url(self, url: impl Into<String>) -> Self {
        self.with(|settings| {
            let url: String = url.into();
            settings.base_url = Some(if url.ends_with('/') { url } else { url + "/" });
        })
    }

    key_setters!();

    /// Sets the sampling temperature.
    #[must_use]
    pub fn temperature(self, temperature: f64) -> Self {
        self.with(|settings| settings.temperature = Some(temperature))
    }

    /// Sets the most tokens of an answer.
    #[must_use]
    pub fn max_tokens(self, tokens: u32) -> Self {
        self.with(|settings| settings.max_tokens = Some(tokens))
    }

    /// Sets the seed of the sampling, so that answers are repeatable where the provider supports it.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.with(|settings| settings.seed = Some(seed))
    }

    /// Offers no native tools: the model calls tools by JSON actions only, as the system prompt says.
    #[must_use]
    pub fn json_actions(self) -> Self {
        self.with(|settings| settings.native_tools = false)
    }

    /// Sends images that tools attach, such as those in answers of MCP servers, for models that take images: PNG, JPEG and WebP
    /// of at most 5 MB, the newest 16 of a run. Without it a model reads that there is an image.
    #[must_use]
    pub fn images(self) -> Self {
        self.with(|settings| settings.images = true)
    }

    /// Sets the longest silence of the provider in the middle of an answer; 60 s by default.
    #[must_use]
    pub fn idle_timeout(self, timeout: Duration) -> Self {
        self.with(|settings| settings.idle_timeout = timeout)
    }
}

impl GenaiSettings {
    fn kind(&self) -> Result<AdapterKind, String> {
        AdapterKind::from_lower_str(&self.provider)
            .ok_or_else(|| format!("`{}` is no provider that genai knows", self.provider))
    }

    fn options(&self, request: &InferRequest) -> ChatOptions {
        let mut options = ChatOptions::default()
            .with_capture_usage(true)
            .with_capture_content(true)
            .with_capture_tool_calls(true)
            .with_capture_reasoning_content(true);
        options.temperature = self.temperature;
        options.max_tokens = self.max_tokens;
        options.seed = self.seed;
        // The schema would forbid the JSON actions that call tools; beside native ones several providers refuse it.
        let free = request.tools.is_empty();
        if let Some(schema) = request.output_schema.as_ref().filter(|_| free) {
            options = options.with_response_format(JsonSpec::new("answer", schema.to_value()));
        }
        options
    }

    fn question(request: &InferRequest, names: &Names) -> ChatRequest {
        let leading = request.messages.iter().take_while(|message| message.role == LlmRole::System).count();
        let (system, said) = request.messages.split_at(leading);
        let system: Vec<&str> = system.iter().map(|message| message.content.as_str()).collect();
        let native = !names.is_empty();
        let mut messages = Vec::with_capacity(said.len());
        for part in with_images_apart(said) {
            match part {
                SentMessage::Message(message) => messages.push(to_genai_message(message, names)),
                SentMessage::Images { images, follows_answer } => {
                    if follows_answer && native {
                        messages.push(Said::assistant(IMAGES_PLEASE));
                    }
                    messages.push(Said::user(parts_of(&images)));
                }
            }
        }
        let mut question = ChatRequest::new(messages);
        if !system.is_empty() {
            question = question.with_system(system.join("\n\n"));
        }
        if names.is_empty() {
            return question;
        }
        let tools = names.offered().zip(&request.tools).map(|(name, spec)| {
            let schema = spec.schema().cloned().unwrap_or_else(|| proto_events::json!({"type": "object"}));
            Tool::new(name)
                .with_description(spec.description.clone())
                .with_schema(serde_json::Value::from(schema))
        });
        question.with_tools(tools)
    }
}

/// The member of what a provider attached to a call that holds its thought signatures.
const SIGNATURES: &str = "thought_signatures";

/// Returns one message as `genai` takes it.
fn to_genai_message(message: &ChatMessage, names: &Names) -> Said {
    let native = !names.is_empty();
    match (message.role, &message.answers) {
        (LlmRole::Assistant, _) if native && !message.calls.is_empty() => asking(message, names),
        (LlmRole::Tool, Some((call_id, tool))) if native => {
            let mut answer = ToolResponse::new(call_id.clone(), message.content.clone());
            answer.fn_name = Some(names.alias(tool));
            Said::from(answer)
        }
        (LlmRole::Assistant, _) => Said::assistant(message.to_text()),
        (LlmRole::User | LlmRole::System | LlmRole::Tool, _) => Said::user(message.content.clone()),
    }
}

/// Returns images as the parts of a content.
fn parts_of(images: &[&Image]) -> MessageContent {
    let parts = images.iter().flat_map(|image| {
        let content = ContentPart::from_binary_base64(&image.media_type, image.base64.as_str(), None);
        [ContentPart::Text(caption(image)), content]
    });
    MessageContent::from_parts(parts.collect::<Vec<_>>())
}

/// Returns a message of the model that asks for calls.
fn asking(message: &ChatMessage, names: &Names) -> Said {
    let calls = message.calls.iter().map(|call| ToolCall {
        call_id: call.id.clone(),
        fn_name: names.alias(&call.tool),
        fn_arguments: sent_arguments(&call.args).to_value(),
        thought_signatures: call.provider.get(SIGNATURES).and_then(|signatures| signatures.read().ok()),
    });
    let mut content = MessageContent::from_tool_calls(calls.collect());
    if !message.content.is_empty() {
        content.insert(0, ContentPart::Text(message.content.clone()));
    }
    Said::assistant(content)
}

/// Sends the request and assembles the answer.
async fn exchange(
    settings: &GenaiSettings,
    client: &Client,
    model: ModelIden,
    request: &InferRequest,
    secrets: &SecretTexts,
) -> Result<InferReply, InferError> {
    let names = if settings.native_tools { Names::from_tools(&request.tools) } else { Names::default() };
    let question = GenaiSettings::question(request, &names);
    let options = settings.options(request);
    let asked = client.exec_chat_stream(model, question, Some(&options)).await;
    let stream = asked.map_err(|error| convert_error(&error, request, secrets))?.stream;
    let mut said = String::new();
    let read = stream_answer(settings, stream, request, (secrets, &names), &mut said).await;
    read.map_err(|error| error.with_partial(&said))
}

/// Reads the answer, piece by piece, and keeps its text in `said`.
async fn stream_answer(
    settings: &GenaiSettings,
    mut stream: ChatStream,
    request: &InferRequest,
    (secrets, names): (&SecretTexts, &Names),
    said: &mut String,
) -> Result<InferReply, InferError> {
    let (mut heard, mut filter) = (0_usize, secrets.filter());
    let mut calls = HashMap::new();
    loop {
        let next = tokio::time::timeout(settings.idle_timeout, stream.next()).await;
        let Ok(next) = next else {
            let why = format!("timed out: the provider was silent for {:?}", settings.idle_timeout);
            return Err(passing("TimeoutError", why, None));
        };
        match next {
            Some(Ok(ChatStreamEvent::Chunk(chunk))) => {
                heard = heard.saturating_add(chunk.content.len());
                said.push_str(&chunk.content);
                request.deltas.say(&filter.pass(&chunk.content));
            }
            Some(Ok(ChatStreamEvent::End(end))) => {
                request.deltas.say(&filter.flush());
                return reply(settings, &end, names);
            }
            // A chunk has all of its call that has come so far.
            Some(Ok(ChatStreamEvent::ToolCallChunk(chunk))) => {
                let size = chunk.tool_call.size();
                let before = calls.insert(chunk.tool_call.call_id, size).unwrap_or_default();
                heard = heard.saturating_add(size.saturating_sub(before));
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(convert_error(&error, request, secrets)),
            None => {
                let why = "the connection ended in the middle of the answer".to_owned();
                return Err(passing("ConnectionError", why, None));
            }
        }
        if heard > INFER_ANSWER_BYTES_MAX || calls.len() > NATIVE_CALLS_MAX {
            let why = format!("the answer is longer than {INFER_ANSWER_BYTES_MAX} bytes; make it shorter");
            return Err(malformed("AnswerTooLarge", why));
        }
    }
}

fn reply(settings: &GenaiSettings, end: &StreamEnd, names: &Names) -> Result<InferReply, InferError> {
    let usage = end.captured_usage.as_ref().and_then(|usage| {
        let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok());
        let (input_tokens, output_tokens) = (count(usage.prompt_tokens)?, count(usage.completion_tokens)?);
        Some(TokenUsage { input_tokens, output_tokens })
    });
    match &end.captured_stop_reason {
        Some(StopReason::MaxTokens(why)) if why == "model_context_window_exceeded" => {
            let why = format!("the provider ended the answer with `{why}`: the conversation is too long");
            return Err(failed("ContextExceeded", why).with_usage(usage));
        }
        Some(StopReason::MaxTokens(_)) => {
            let why = "the reply was cut off at the token limit; make it shorter".to_owned();
            return Err(malformed("LengthLimit", why).with_usage(usage));
        }
        Some(StopReason::ContentFilter(why)) => {
            let why = format!("the provider stopped the answer: {why}");
            return Err(failed("ContentFilter", why).with_usage(usage));
        }
        Some(StopReason::Other(why)) => {
            if let Some(error) = end_reason(why).and_then(failed_end) {
                return Err(error.with_usage(usage));
            }
        }
        _ => {}
    }
    let content = end.captured_texts().unwrap_or_default().concat();
    let calls = end.captured_tool_calls().unwrap_or_default();
    let asked = |call: &&ToolCall| {
        let arguments = match &call.fn_arguments {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut ask = ToolAsk::from_provider(names.tool(&call.fn_name), &arguments);
        if let Some(signatures) = &call.thought_signatures {
            ask.provider.set(SIGNATURES, JsonText::of_model(signatures));
        }
        ask
    };
    let calls = calls.iter().map(asked).collect();
    let reasoning = end.captured_reasoning_content.clone();
    let without_reason = end.captured_stop_reason.is_none();
    let model = settings.model.clone();
    Ok(InferReply { content, calls, usage, model, reasoning, without_reason, ..InferReply::default() })
}

impl InferBackend for Genai {
    fn backend(&self) -> &str {
        &self.settings.provider
    }

    fn model(&self) -> &str {
        &self.settings.model
    }

    fn parameters(&self) -> JsonObject {
        let settings = &self.settings;
        let mut parameters = JsonObject::new();
        let given = [
            ("temperature", settings.temperature.map(Value::from)),
            ("max_tokens", settings.max_tokens.map(Value::from)),
            ("seed", settings.seed.map(Value::from)),
        ];
        for (name, value) in given {
            if let Some(value) = value {
                parameters.set(name, value.into());
            }
        }
        let mut said = described(settings.base_url.as_deref(), settings.native_tools, None, &parameters);
        if settings.images {
            said.set("images", JsonText::of_model(&true));
        }
        said
    }

    fn takes_images(&self) -> bool {
        self.settings.images
    }

    fn has_native_tools(&self) -> bool {
        self.settings.native_tools
    }

    fn check(&self) -> Result<(), String> {
        self.settings.kind()?;
        self.settings.key.check()
    }

    fn infer(&self, request: InferRequest) -> BoxFuture<'static, Result<InferReply, InferError>> {
        let this = self.clone();
        Box::pin(async move {
            let settings = &this.settings;
            let kind = settings.kind().map_err(|why| failed("ConfigurationError", why))?;
            let usual = || kind.default_key_env_name().and_then(|name| std::env::var(name).ok());
            let key = settings.key.load().await?.map(|key| key.to_string()).or_else(usual);
            let mut secrets = SecretTexts::default();
            if let Some(key) = &key {
                secrets.add(key);
            }
            let base_url = settings.base_url.clone();
            let target = move |mut target: ServiceTarget| {
                if let Some(url) = &base_url {
                    target.endpoint = Endpoint::from_owned(url.as_str());
                }
                if let Some(key) = &key {
                    target.auth = AuthData::from_single(key.clone());
                }
                Ok(target)
            };
            let client = Client::builder()
                .with_reqwest(this.http.get(INFER_CONNECT_TIMEOUT)?)
                .with_service_target_resolver_fn(target)
                .build()
                .map_err(|error| failed("ConfigurationError", error.to_string()))?;
            let model = ModelIden::new(kind, settings.model.clone());
            secrets.redact_outcome(exchange(settings, &client, model, &request, &secrets).await)
        })
    }
}
