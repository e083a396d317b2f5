//! Probes of the `Reconcile` mode, which ask a tool's target whether a lost attempt took effect.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use proto_events::call::Verdict;
use proto_events::json::JsonText;
use serde::de::DeserializeOwned;

use crate::tools::error::ToolError;
use crate::tools::future::BoxFuture;
use crate::tools::into_tool::IntoToolError;
use crate::tools::tool::ToolContext;

/// Code that finds out whether a lost attempt took effect. It only reads, as it may be called more than once.
pub(crate) trait Probe: Send + Sync + 'static {
    /// Checks whether the call of this context took effect. `args` and the context's idempotency key are
    /// the arguments of the lost attempt.
    fn ask(&self, cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<Verdict, ToolError>>;
}

/// A probe in a policy. Two are equal if they are the same object.
#[derive(Clone)]
pub(crate) struct ProbeRef(Arc<dyn Probe>);

impl ProbeRef {
    /// Creates a probe from an `async fn(ToolContext, Args) -> Result<Verdict, E>`.
    pub(crate) fn new<F, A, Fut, E>(ask: F) -> Self
    where
        F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
        A: DeserializeOwned + 'static,
        Fut: Future<Output = Result<Verdict, E>> + Send + 'static,
        E: IntoToolError + 'static,
    {
        Self(Arc::new(TypedProbe { ask, args: PhantomData }))
    }

    /// Returns the probe.
    pub(crate) fn get(&self) -> &Arc<dyn Probe> {
        &self.0
    }
}

impl fmt::Debug for ProbeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProbeRef").finish_non_exhaustive()
    }
}

impl PartialEq for ProbeRef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ProbeRef {}

struct TypedProbe<F, A> {
    ask: F,
    args: PhantomData<fn(A)>,
}

impl<F, A, Fut, E> Probe for TypedProbe<F, A>
where
    F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
    A: DeserializeOwned + 'static,
    Fut: Future<Output = Result<Verdict, E>> + Send + 'static,
    E: IntoToolError + 'static,
{
    fn ask(&self, cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<Verdict, ToolError>> {
        let asked = match args.read::<A>() {
            Ok(args) => Ok((self.ask)(cx, args)),
            Err(error) => Err(ToolError::arguments(format!("tool args: {error}"))),
        };
        Box::pin(async move { asked?.await.map_err(IntoToolError::into_tool_error) })
    }
}
