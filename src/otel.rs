//! Spans of runs as OpenTelemetry, in the words of the `GenAI` semantic conventions (v1.41.0; their status is
//! *development*, so a later version may rename them). The events are the truth, this is a view of it for dashboards.
//!
//! | span | becomes | with |
//! |---|---|---|
//! | `task` | `invoke_agent {agent}` | `gen_ai.agent.name`, `gen_ai.conversation.id` |
//! | `infer` | `chat {model}`, a client's span | `gen_ai.provider.name`, `gen_ai.request.model`, `gen_ai.response.model`, `gen_ai.usage.input_tokens`, `gen_ai.usage.output_tokens`, `gen_ai.conversation.id`, `error.type` |
//! | `tool.call` | `execute_tool {tool}` | `gen_ai.tool.name`, `gen_ai.tool.type`, `gen_ai.tool.call.id`, `error.type` |
//! | `agent.call` | `invoke_agent {agent}`, a client's span | `gen_ai.agent.name`, `error.type` |
//! | `route`, `log.append` | themselves | their fields under `taskreel.` |
//!
//! Prompts, answers, arguments and results are in none of them. Spans of others go out as they are.
//!
//! ```no_run
//! use tracing_subscriber::prelude::*;
//!
//! let telemetry = taskreel::otel::Telemetry::otlp("my-service")?;
//! tracing_subscriber::registry().with(telemetry.layer()).init();
//! // …work, and at the end:
//! telemetry.shutdown()?;
//! # Ok::<(), taskreel::otel::TelemetryError>(())
//! ```

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::{SpanKind, Status, TracerProvider as _};
use opentelemetry::{Key, KeyValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

/// How long spans that wait may take to go out when the end comes.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(5);

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The exporter cannot be made, for example because its endpoint is no URL.
    #[error("no exporter: {0}")]
    Exporter(String),
    /// No thread for it.
    #[error("no runtime for the exporter: {0}")]
    Runtime(#[from] std::io::Error),
    /// Spans that waited did not go out.
    #[error("spans were not exported: {0}")]
    Export(#[from] OTelSdkError),
}

/// The way out of spans. Dropping it exports what waits and ends it.
pub struct Telemetry {
    provider: SdkTracerProvider,
    /// Exporters speak HTTP, which wants a runtime that lives as long as they do.
    runtime: Option<tokio::runtime::Runtime>,
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").finish_non_exhaustive()
    }
}

impl Telemetry {
    /// Exports by OTLP over HTTP, in batches, to where `OTEL_EXPORTER_OTLP_ENDPOINT` says (and the other
    /// `OTEL_EXPORTER_OTLP_…` variables); without it to `http://localhost:4318`. Needs no runtime of the caller's.
    ///
    /// # Errors
    /// [`TelemetryError`] if the endpoint is none, or no thread is to be had.
    pub fn otlp(service: &str) -> Result<Self, TelemetryError> {
        let exporter = opentelemetry_otlp::SpanExporter::builder().with_http().build();
        let exporter = exporter.map_err(|error| TelemetryError::Exporter(error.to_string()))?;
        Self::with_exporter(service, exporter)
    }

    /// Exports through an exporter of your own, in batches.
    ///
    /// # Errors
    /// [`TelemetryError::Runtime`] if no thread is to be had.
    pub fn with_exporter(
        service: &str,
        exporter: impl SpanExporter + 'static,
    ) -> Result<Self, TelemetryError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("taskreel-otel")
            .enable_all()
            .build()?;
        let exporter = GenAi { exporter: Arc::new(exporter), runtime: runtime.handle().clone() };
        let provider = SdkTracerProvider::builder()
            .with_resource(Resource::builder().with_service_name(service.to_owned()).build())
            .with_batch_exporter(exporter)
            .build();
        Ok(Self { provider, runtime: Some(runtime) })
    }

    /// The layer for your subscriber.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + 'static
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("taskreel"))
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_level(false)
            .with_target(true)
    }

    /// Exports what waits, and goes on. Blocks.
    ///
    /// # Errors
    /// [`TelemetryError::Export`] if it did not go out.
    pub fn flush(&self) -> Result<(), TelemetryError> {
        Ok(self.provider.force_flush()?)
    }

    /// Exports what waits and ends. Blocks for at most five seconds.
    ///
    /// # Errors
    /// [`TelemetryError::Export`] if it did not go out.
    pub fn shutdown(mut self) -> Result<(), TelemetryError> {
        Ok(self.end()?)
    }

    fn end(&mut self) -> OTelSdkResult {
        let Some(runtime) = self.runtime.take() else { return Ok(()) };
        let ended = self.provider.shutdown_with_timeout(SHUTDOWN_WITHIN);
        runtime.shutdown_background();
        ended
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "spans were not exported");
        }
    }
}

/// An exporter that is told our spans in the words of the conventions.
struct GenAi<E> {
    exporter: Arc<E>,
    runtime: tokio::runtime::Handle,
}

impl<E> fmt::Debug for GenAi<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenAi").finish_non_exhaustive()
    }
}

impl<E: SpanExporter + 'static> SpanExporter for GenAi<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let exporter = Arc::clone(&self.exporter);
        let batch = batch.into_iter().map(in_their_words).collect();
        let sent = self.runtime.spawn(async move { exporter.export(batch).await });
        sent.await.unwrap_or_else(|error| Err(OTelSdkError::InternalFailure(error.to_string())))
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        // Nobody else has it yet: the provider sets it before the first span.
        if let Some(exporter) = Arc::get_mut(&mut self.exporter) {
            exporter.set_resource(resource);
        }
    }
}

/// One of our spans as the conventions would have it. Others' stay as they are.
fn in_their_words(mut span: SpanData) -> SpanData {
    let target = span.attributes.iter().position(|attribute| attribute.key.as_str() == "target");
    let ours = target
        .and_then(|at| span.attributes.get(at))
        .is_some_and(|target| target.value.as_str().split("::").next() == Some("taskreel"));
    if !ours {
        return span;
    }
    span.attributes.retain(|attribute| attribute.key.as_str() != "target");
    let (operation, about) = match span.name.as_ref() {
        "task" | "agent.call" => (Some("invoke_agent"), "agent"),
        "infer" => (Some("chat"), "model"),
        "tool.call" => (Some("execute_tool"), "tool"),
        _ => (None, ""),
    };
    let said = |key: &str| {
        let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
        found.map(|attribute| attribute.value.as_str().into_owned())
    };
    if let Some(error) = said("error") {
        span.status = Status::error(error);
    } else if said("state").as_deref() == Some("failed") {
        span.status = Status::error("the task failed");
    }
    let (name, about) = (span.name.clone(), said(about));
    span.attributes.retain(|attribute| attribute.key.as_str() != "error");
    for attribute in &mut span.attributes {
        attribute.key = Key::from(their_key(&name, attribute.key.as_str()));
    }
    if let Some(operation) = operation {
        span.attributes.push(KeyValue::new("gen_ai.operation.name", operation));
        span.name =
            about.map_or(Cow::Borrowed(operation), |about| Cow::Owned(format!("{operation} {about}")));
    }
    match name.as_ref() {
        "infer" | "agent.call" => span.span_kind = SpanKind::Client,
        "tool.call" => span.attributes.push(KeyValue::new("gen_ai.tool.type", Value::from("function"))),
        _ => {}
    }
    span
}

/// The name of a field in the conventions; what they do not know stands under `taskreel.`.
fn their_key(span: &str, field: &str) -> Cow<'static, str> {
    Cow::Borrowed(match (span, field) {
        (_, "error_type") => "error.type",
        ("task" | "infer", "session") => "gen_ai.conversation.id",
        ("task" | "agent.call", "agent") => "gen_ai.agent.name",
        ("infer", "backend") => "gen_ai.provider.name",
        ("infer", "model") => "gen_ai.request.model",
        ("infer", "response_model") => "gen_ai.response.model",
        ("infer", "input_tokens") => "gen_ai.usage.input_tokens",
        ("infer", "output_tokens") => "gen_ai.usage.output_tokens",
        ("tool.call", "tool") => "gen_ai.tool.name",
        ("tool.call", "call_id") => "gen_ai.tool.call.id",
        (_, "call_id") => "taskreel.call.id",
        ("task", "id") | ("infer" | "tool.call" | "agent.call", "task") => "taskreel.task.id",
        ("task", "state") => "taskreel.task.state",
        _ => return Cow::Owned(format!("taskreel.{field}")),
    })
}
