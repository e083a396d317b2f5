//! Asking a tool's target, after an attempt was lost, whether it took effect: the `Reconcile` mode's other half.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use proto_events::call::Verdict;
use proto_events::json::JsonText;
use serde::de::DeserializeOwned;

use super::into_tool::IntoToolError;
use super::tool::{BoxFuture, ToolContext, ToolError};

/// Finds out about a lost attempt. It only reads: it may be asked more than once.
pub trait Probe: Send + Sync + 'static {
    /// Looks whether the call of this context took effect. `args` are those that the attempt was sent with; the
    /// context's idempotency key is the same too.
    fn ask(&self, cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<Verdict, ToolError>>;
}

/// A probe in a policy. Two are equal if they are the same one.
#[derive(Clone)]
pub struct ProbeRef(Arc<dyn Probe>);

impl ProbeRef {
    /// A probe out of an `async fn(ToolContext, Args) -> Result<Verdict, E>`.
    pub fn of<F, A, Fut, E>(ask: F) -> Self
    where
        F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
        A: DeserializeOwned + 'static,
        Fut: Future<Output = Result<Verdict, E>> + Send + 'static,
        E: IntoToolError + 'static,
    {
        Self(Arc::new(Typed { ask, args: PhantomData }))
    }

    /// The probe itself.
    pub fn get(&self) -> &Arc<dyn Probe> {
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

struct Typed<F, A> {
    ask: F,
    args: PhantomData<fn(A)>,
}

impl<F, A, Fut, E> Probe for Typed<F, A>
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
