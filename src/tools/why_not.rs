//! Functions that find out why a function is not a tool. Each does nothing and requires one trait bound after
//! another, so that the compiler names the missing one. Call the variant for the shape of the function, read
//! the error, and remove the call.
//!
//! ```
//! # use serde::Deserialize;
//! # use taskreel::{JsonSchema, tool::why_not};
//! # #[derive(Deserialize, JsonSchema)]
//! # struct Ask {}
//! async fn forecast(_: Ask) -> Result<u8, std::io::Error> {
//!     Ok(20)
//! }
//! why_not::async_fn(&forecast);
//! ```

use std::future::Future;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::tools::into_tool::IntoToolError;
use crate::tools::tool::ToolContext;

/// Checks an `async fn(Args) -> Result<T, E>`.
pub fn async_fn<F, A, Fut, T, E>(_: &F)
where
    F: Fn(A) -> Fut + Send + Sync + 'static,
    A: DeserializeOwned + JsonSchema + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize + 'static,
    E: IntoToolError + 'static,
{
}

/// Checks an `async fn(ToolContext, Args) -> Result<T, E>`.
pub fn async_fn_with_context<F, A, Fut, T, E>(_: &F)
where
    F: Fn(ToolContext, A) -> Fut + Send + Sync + 'static,
    A: DeserializeOwned + JsonSchema + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize + 'static,
    E: IntoToolError + 'static,
{
}

/// Checks a `fn(Args) -> Result<T, E>`.
pub fn plain_fn<F, A, T, E>(_: &F)
where
    F: Fn(A) -> Result<T, E> + Send + Sync + 'static,
    A: DeserializeOwned + JsonSchema + 'static,
    T: Serialize + 'static,
    E: IntoToolError + 'static,
{
}

/// Checks a `fn(ToolContext, Args) -> Result<T, E>`.
pub fn plain_fn_with_context<F, A, T, E>(_: &F)
where
    F: Fn(ToolContext, A) -> Result<T, E> + Send + Sync + 'static,
    A: DeserializeOwned + JsonSchema + 'static,
    T: Serialize + 'static,
    E: IntoToolError + 'static,
{
}
