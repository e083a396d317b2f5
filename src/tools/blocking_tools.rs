//! Blocking functions as tools: `fn(Args)` and `fn(ToolContext, Args)`, closures too. They run on the
//! blocking pool of the runtime for calls, where they may take long. A running function cannot be stopped: it
//! can check in its [`ToolContext`] whether its result is still wanted, and a result after that is recorded
//! as late.

use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::sync::Arc;

use proto_events::json::JsonText;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::tools::error::ToolError;
use crate::tools::future::BoxFuture;
use crate::tools::into_tool::{IntoTool, IntoToolError, ToolParts, read_args, write_result};
use crate::tools::schema::type_schema::schema_of;
use crate::tools::tool::{Tool, ToolContext};

/// The marker of a function that returns its result directly, not a future of it.
#[derive(Debug)]
pub struct Blocking<Shape>(PhantomData<Shape>);

/// The code of a blocking function.
struct Plain<F, A, Shape> {
    run: Arc<F>,
    shape: PhantomData<fn(A) -> Shape>,
}

/// The marker of a function that takes only the arguments.
enum BlockingArgsOnly {}

/// The marker of a function that also takes the context.
enum BlockingWithContext {}

impl<F, A, T, E> Tool for Plain<F, A, BlockingArgsOnly>
where
    F: Fn(A) -> Result<T, E> + Send + Sync + 'static,
    A: DeserializeOwned + 'static,
    T: Serialize,
    E: IntoToolError,
{
    fn call(&self, _cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<JsonText, ToolError>> {
        let run = Arc::clone(&self.run);
        off_thread(move || write_result(run(read_args(&args)?)))
    }

    fn is_blocking(&self) -> bool {
        true
    }
}

impl<F, A, T, E> Tool for Plain<F, A, BlockingWithContext>
where
    F: Fn(ToolContext, A) -> Result<T, E> + Send + Sync + 'static,
    A: DeserializeOwned + 'static,
    T: Serialize,
    E: IntoToolError,
{
    fn call(&self, cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<JsonText, ToolError>> {
        let run = Arc::clone(&self.run);
        off_thread(move || write_result(run(cx, read_args(&args)?)))
    }

    fn is_blocking(&self) -> bool {
        true
    }
}

impl<F, A, T, E> IntoTool<Blocking<(A,)>> for F
where
    F: Fn(A) -> Result<T, E> + Send + Sync + 'static,
    A: DeserializeOwned + JsonSchema + 'static,
    T: Serialize + 'static,
    E: IntoToolError + 'static,
{
    fn into_tool(self) -> ToolParts {
        let tool = Plain::<F, A, BlockingArgsOnly> { run: Arc::new(self), shape: PhantomData };
        ToolParts { input_schema: schema_of::<A>(), tool: Arc::new(tool) }
    }
}

impl<F, A, T, E> IntoTool<Blocking<(ToolContext, A)>> for F
where
    F: Fn(ToolContext, A) -> Result<T, E> + Send + Sync + 'static,
    A: DeserializeOwned + JsonSchema + 'static,
    T: Serialize + 'static,
    E: IntoToolError + 'static,
{
    fn into_tool(self) -> ToolParts {
        let tool = Plain::<F, A, BlockingWithContext> { run: Arc::new(self), shape: PhantomData };
        ToolParts { input_schema: schema_of::<A>(), tool: Arc::new(tool) }
    }
}

/// Runs the work on the blocking pool and waits for it. A panic is resumed here, like that of an async tool;
/// the caller turns it into a failure.
fn off_thread(
    work: impl FnOnce() -> Result<JsonText, ToolError> + Send + 'static,
) -> BoxFuture<'static, Result<JsonText, ToolError>> {
    Box::pin(async move {
        let span = tracing::Span::current();
        match tokio::task::spawn_blocking(move || span.in_scope(work)).await {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => Err(ToolError::failed("the runtime for calls ended before the tool could run")
                .with_type("RuntimeGone")),
        }
    })
}
