//! Plain functions as tools: `fn(Args)` and `fn(ToolContext, Args)`, closures too. They run on the blocking pool of the
//! runtime for calls, where they may take their time. Nobody can stop one in the middle: it looks at its
//! [`ToolContext`] whether its result is still wanted, and what it answers later is told as late.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use proto_events::json::JsonText;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::into_tool::{IntoTool, IntoToolError, ToolParts, read_args, write_result};
use super::schema::schema_of;
use super::tool::{BoxFuture, LateSink, Tool, ToolContext, ToolError};

/// The marker of a function that answers its result itself, not a future of it.
#[derive(Debug)]
pub struct Blocking<Shape>(PhantomData<Shape>);

/// The code of a plain function.
struct Plain<F, A, Shape> {
    run: Arc<F>,
    shape: PhantomData<fn(A) -> Shape>,
}

/// Marks a function that takes the arguments only.
enum ArgsOnly {}

/// Marks a function that takes the context too.
enum WithContext {}

impl<F, A, T, E> Tool for Plain<F, A, ArgsOnly>
where
    F: Fn(A) -> Result<T, E> + Send + Sync + 'static,
    A: DeserializeOwned + 'static,
    T: Serialize,
    E: IntoToolError,
{
    fn call(&self, cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<JsonText, ToolError>> {
        let run = Arc::clone(&self.run);
        off_thread(cx.late(), move || write_result(run(read_args(&args)?)))
    }
}

impl<F, A, T, E> Tool for Plain<F, A, WithContext>
where
    F: Fn(ToolContext, A) -> Result<T, E> + Send + Sync + 'static,
    A: DeserializeOwned + 'static,
    T: Serialize,
    E: IntoToolError,
{
    fn call(&self, cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<JsonText, ToolError>> {
        let run = Arc::clone(&self.run);
        off_thread(cx.late(), move || write_result(run(cx, read_args(&args)?)))
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
        let tool = Plain::<F, A, ArgsOnly> { run: Arc::new(self), shape: PhantomData };
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
        let tool = Plain::<F, A, WithContext> { run: Arc::new(self), shape: PhantomData };
        ToolParts { input_schema: schema_of::<A>(), tool: Arc::new(tool) }
    }
}

/// How a plain function ended: with an answer, or with a panic.
type End = Result<Result<JsonText, ToolError>, Box<dyn Any + Send>>;

/// Runs the work on the blocking pool and waits for it. If nobody waits any more when it ends, `late` is told.
fn off_thread(
    late: Option<LateSink>,
    work: impl FnOnce() -> Result<JsonText, ToolError> + Send + 'static,
) -> BoxFuture<'static, Result<JsonText, ToolError>> {
    Box::pin(async move {
        let (tell, told) = oneshot::channel();
        let (span, too_late) = (tracing::Span::current(), late.clone());
        tokio::task::spawn_blocking(move || {
            let end: End = catch_unwind(AssertUnwindSafe(|| span.in_scope(work)));
            if let Err(end) = tell.send(end) {
                tell_late(too_late.as_ref(), end);
            }
        });
        let mut waiting = Waiting { told, late };
        match (&mut waiting.told).await {
            Ok(Ok(answer)) => answer,
            // As that of an async tool: whoever runs tools makes a failure of it.
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(ToolError::failed("the runtime for calls ended before the tool could run")
                .with_type("RuntimeGone")),
        }
    })
}

/// Somebody who waits for the work. If he goes away just when it has ended, its end is late all the same.
struct Waiting {
    told: oneshot::Receiver<End>,
    late: Option<LateSink>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.told.close();
        if let Ok(end) = self.told.try_recv() {
            tell_late(self.late.as_ref(), end);
        }
    }
}

fn tell_late(late: Option<&LateSink>, end: End) {
    let Some(late) = late else { return };
    late(end.unwrap_or_else(|_panic| Err(ToolError::failed("the call panicked").with_type("panic"))));
}
