//! Conversion of code into a tool: an `async fn(Args)`, an `async fn(ToolContext, Args)`, a closure of either
//! shape, or a [`DynTool`] whose schema is known only at run time. Functions that are not async are in
//! [`blocking_tools`](crate::tools::blocking_tools).

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use proto_events::json::{JsonText, JsonValue as Value};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::tools::error::ToolError;
use crate::tools::future::BoxFuture;
use crate::tools::schema::type_schema::schema_of;
use crate::tools::tool::{Tool, ToolContext};

/// The schema and the code of a tool, without its name and description.
pub struct ToolParts {
    /// The JSON Schema of the arguments; `Null` accepts any object.
    pub input_schema: Value,
    /// The code.
    pub tool: Arc<dyn Tool>,
}

impl fmt::Debug for ToolParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolParts").field("input_schema", &self.input_schema).finish_non_exhaustive()
    }
}

/// Code that can be registered as a tool. `Marker` distinguishes the shapes and is inferred by the compiler.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as a tool",
    label = "not a tool",
    note = "a tool is `async fn(Args) -> Result<T, E>` or `async fn(ToolContext, Args) -> Result<T, E>`, the same without `async`, or a closure of that shape with its argument types written out",
    note = "`Args` needs `serde::Deserialize` and `schemars::JsonSchema`, `T` needs `serde::Serialize`, `E` is an error, a `String` or `ToolError`, and the future must be `Send`",
    note = "to see which of these is missing, call one of `taskreel::tool::why_not`, such as `why_not::async_fn(&forecast)`"
)]
pub trait IntoTool<Marker>: Send + Sync + 'static {
    /// Returns the tool's schema and code.
    fn into_tool(self) -> ToolParts;
}

/// An error that a tool may return: every `std::error::Error`, a `String`, and [`ToolError`], which passes
/// through unchanged.
#[diagnostic::on_unimplemented(
    message = "a tool cannot fail with `{Self}`",
    note = "use a type that implements `std::error::Error`, a `String`, or `taskreel::tool::ToolError`"
)]
pub trait IntoToolError {
    /// Converts the error into a tool's failure.
    fn into_tool_error(self) -> ToolError;
}

impl<E> IntoToolError for E
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    fn into_tool_error(self) -> ToolError {
        match self.into().downcast::<ToolError>() {
            Ok(error) => *error,
            Err(other) => ToolError::failed(other.to_string()).with_type(short_type_name::<E>()),
        }
    }
}

/// Shortens `std::num::ParseIntError` to `ParseIntError`; types that say nothing about the error become
/// `Error`.
fn short_type_name<E>() -> &'static str {
    let full = std::any::type_name::<E>();
    let plain = full.split('<').next().unwrap_or(full);
    match plain.rsplit("::").next() {
        None | Some("Box" | "String" | "&str") => "Error",
        Some(name) => name,
    }
}

/// The code of an async function that takes its arguments as a typed value.
struct FunctionTool<F, A, Shape> {
    run: F,
    shape: PhantomData<fn(A) -> Shape>,
}

/// The marker of a function that takes only the arguments.
enum ArgsOnly {}

/// The marker of a function that also takes the context.
enum WithContext {}

impl<F, A, Fut, T, E> Tool for FunctionTool<F, A, ArgsOnly>
where
    F: Fn(A) -> Fut + Send + Sync + 'static,
    A: DeserializeOwned + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize,
    E: IntoToolError,
{
    fn call(&self, _cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<JsonText, ToolError>> {
        finish(read_args(&args).map(|args| (self.run)(args)))
    }
}

impl<F, A, Fut, T, E> Tool for FunctionTool<F, A, WithContext>
where
    F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
    A: DeserializeOwned + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize,
    E: IntoToolError,
{
    fn call(&self, cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<JsonText, ToolError>> {
        finish(read_args(&args).map(|args| (self.run)(cx, args)))
    }
}

/// Deserializes the arguments. Values that the schema allows and the type refuses are the caller's mistake,
/// not the tool's.
pub(crate) fn read_args<A: DeserializeOwned>(args: &JsonText) -> Result<A, ToolError> {
    args.read().map_err(|error| ToolError::arguments(format!("tool args: {error}")))
}

fn finish<Fut, T, E>(started: Result<Fut, ToolError>) -> BoxFuture<'static, Result<JsonText, ToolError>>
where
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize,
    E: IntoToolError,
{
    Box::pin(async move { write_result(started?.await) })
}

/// Converts a tool's answer into the recorded form.
pub(crate) fn write_result<T, E>(answer: Result<T, E>) -> Result<JsonText, ToolError>
where
    T: Serialize,
    E: IntoToolError,
{
    let answer = answer.map_err(IntoToolError::into_tool_error)?;
    JsonText::encode(&answer)
        .map_err(|error| ToolError::failed(format!("the tool's result cannot be written as JSON: {error}")))
}

impl<F, A, Fut, T, E> IntoTool<(A,)> for F
where
    F: Fn(A) -> Fut + Send + Sync + 'static,
    A: DeserializeOwned + JsonSchema + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize + 'static,
    E: IntoToolError + 'static,
{
    fn into_tool(self) -> ToolParts {
        ToolParts {
            input_schema: schema_of::<A>(),
            tool: Arc::new(FunctionTool::<F, A, ArgsOnly> { run: self, shape: PhantomData }),
        }
    }
}

impl<F, A, Fut, T, E> IntoTool<(ToolContext, A)> for F
where
    F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
    A: DeserializeOwned + JsonSchema + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize + 'static,
    E: IntoToolError + 'static,
{
    fn into_tool(self) -> ToolParts {
        ToolParts {
            input_schema: schema_of::<A>(),
            tool: Arc::new(FunctionTool::<F, A, WithContext> { run: self, shape: PhantomData }),
        }
    }
}

/// A tool whose arguments are known only at run time: its schema is a value, its arguments are JSON.
pub struct DynTool<F> {
    schema: Value,
    run: F,
}

impl<F> DynTool<F> {
    /// Creates a tool with this JSON Schema; `Null` accepts any object.
    pub fn new<Fut>(schema: impl Into<Value>, run: F) -> Self
    where
        F: Fn(ToolContext, JsonText) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<JsonText, ToolError>> + Send + 'static,
    {
        Self { schema: schema.into(), run }
    }
}

impl<F> fmt::Debug for DynTool<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynTool").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// The marker of [`DynTool`].
#[derive(Debug)]
pub enum Dynamic {}

struct Raw<F>(F);

impl<F, Fut> Tool for Raw<F>
where
    F: Fn(ToolContext, JsonText) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<JsonText, ToolError>> + Send + 'static,
{
    fn call(&self, cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<JsonText, ToolError>> {
        Box::pin((self.0)(cx, args))
    }
}

impl<F, Fut> IntoTool<Dynamic> for DynTool<F>
where
    F: Fn(ToolContext, JsonText) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<JsonText, ToolError>> + Send + 'static,
{
    fn into_tool(self) -> ToolParts {
        ToolParts { input_schema: self.schema, tool: Arc::new(Raw(self.run)) }
    }
}
