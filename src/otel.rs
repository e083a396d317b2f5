//! Spans of runs as OpenTelemetry, with the names of the `GenAI` semantic conventions (v1.41.0; their status
//! is *development*, so a later version may rename them). The spans are a view of the events for dashboards.
//!
//! | span | becomes | with |
//! |---|---|---|
//! | `task` | `invoke_agent {agent}` | `gen_ai.agent.name`, `gen_ai.conversation.id` |
//! | `infer` | `chat {model}`, a client's span | `gen_ai.provider.name`, `gen_ai.request.model`, `gen_ai.response.model`, `gen_ai.usage.input_tokens`, `gen_ai.usage.output_tokens`, `gen_ai.conversation.id`, `error.type` |
//! | `tool.call` | `execute_tool {tool}` | `gen_ai.tool.name`, `gen_ai.tool.type`, `gen_ai.tool.call.id`, `error.type` |
//! | `agent.call` | `invoke_agent {agent}`, a client's span | `gen_ai.agent.name`, `error.type` |
//! | `route`, `log.append` | themselves | their fields under `taskreel.` |
//!
//! The spans contain no prompts, answers, arguments or results. Foreign spans are exported unchanged.
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
use opentelemetry_otlp::{
    OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, OTEL_EXPORTER_OTLP_TRACES_TIMEOUT,
    WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::http_client;

/// The time limit for exporting queued spans at the end.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(5);

/// The reason why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The exporter cannot be built, for example because its endpoint is not a URL.
    #[error("the exporter cannot be created: {0}")]
    Exporter(String),
    /// The exporter's thread cannot be started.
    #[error("the runtime of the exporter cannot be created: {0}")]
    Runtime(#[from] std::io::Error),
    /// Queued spans could not be exported.
    #[error("spans could not be exported: {0}")]
    Export(String),
}

impl TelemetryError {
    fn export(error: &OTelSdkError) -> Self {
        Self::Export(error.to_string())
    }
}

/// The export of spans. Dropping it exports queued spans and ends the exporter.
pub struct Telemetry {
    provider: SdkTracerProvider,
    /// The exporter's runtime: exporters speak HTTP and need a runtime that lives as long as they do.
    runtime: Option<tokio::runtime::Runtime>,
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").finish_non_exhaustive()
    }
}

impl Telemetry {
    /// Exports by OTLP over HTTP, in batches, to `OTEL_EXPORTER_OTLP_ENDPOINT` (and by the other
    /// `OTEL_EXPORTER_OTLP_…` variables), by default to `http://localhost:4318`. It needs no runtime of the
    /// caller's.
    ///
    /// # Errors
    /// [`TelemetryError`] if the endpoint is invalid, or no thread can be started.
    pub fn otlp(service: &str) -> Result<Self, TelemetryError> {
        let wrong = |error: &dyn std::error::Error| TelemetryError::Exporter(http_client::with_causes(error));
        let timeout = export_timeout();
        let client = http_client::client().timeout(timeout).build().map_err(|error| wrong(&error))?;
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_timeout(timeout)
            .build()
            .map_err(|error| wrong(&error))?;
        Self::with_exporter(service, exporter)
    }

    /// Exports through an exporter of your own, in batches. Hidden because `opentelemetry_sdk` is a 0.x crate: its
    /// next release is another trait.
    ///
    /// # Errors
    /// [`TelemetryError::Runtime`] if no thread can be started.
    #[doc(hidden)]
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

    /// Returns the layer for your subscriber, of `tracing-subscriber` 0.3: the one place where a 0.x crate is part of
    /// this crate's public API.
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

    /// Exports queued spans; the exporter continues. Blocks.
    ///
    /// # Errors
    /// [`TelemetryError::Export`] if they were not exported.
    pub fn flush(&self) -> Result<(), TelemetryError> {
        self.provider.force_flush().map_err(|error| TelemetryError::export(&error))
    }

    /// Exports queued spans and ends the exporter. Blocks for at most five seconds.
    ///
    /// # Errors
    /// [`TelemetryError::Export`] if they were not exported.
    pub fn shutdown(mut self) -> Result<(), TelemetryError> {
        self.end().map_err(|error| TelemetryError::export(&error))
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
            tracing::warn!(%error, "spans could not be exported");
        }
    }
}

/// The longest time for one batch, in milliseconds where the variables of the OTLP specification set it.
fn export_timeout() -> Duration {
    let set = [OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, OTEL_EXPORTER_OTLP_TIMEOUT]
        .into_iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok());
    set.map_or(OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, Duration::from_millis)
}

/// An exporter that renames our spans by the conventions.
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
        // The exporter is not shared yet: the provider sets the resource before the first span.
        if let Some(exporter) = Arc::get_mut(&mut self.exporter) {
            exporter.set_resource(resource);
        }
    }
}

/// Renames one of our spans by the conventions. Foreign spans stay unchanged.
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

/// Returns a field's name in the conventions; other fields get the prefix `taskreel.`.
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
