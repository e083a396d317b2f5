//! The context of an attempt, and the failures that the router reports itself.

use std::sync::Arc;

use proto_events::call::recovery::RetryWish;
use proto_events::call::{CallFailure, FailureClass};
use taskreel_log::ports::Ports;
use tokio::sync::Notify;

use crate::actors::shared::messages::{AttemptEnd, ToTask};
use crate::actors::shared::route::Route;
use crate::actors::shared::secrets::CallSecrets;
use crate::actors::shared::tool_stores::ToolStores;
use crate::live::LiveSource;
use crate::tools::texts::short;
use crate::tools::tool::Cancellation;

/// The input of an attempt besides its order.
pub(crate) struct AttemptContext {
    pub(crate) stores: Arc<ToolStores>,
    pub(crate) secrets: CallSecrets,
    pub(crate) ports: Ports,
    pub(crate) live: LiveSource,
    pub(crate) cancellation: Cancellation,
    /// Notified of each report of progress.
    pub(crate) beats: Arc<Notify>,
    /// The way to the task's actor.
    pub(crate) to_task: Route<Box<ToTask>>,
    /// A random number from 0 to 1, for the attempt's back-off.
    pub(crate) jitter: f64,
}

pub(crate) fn failed(class: FailureClass, error_type: &str, message: &str) -> AttemptEnd {
    AttemptEnd::Failed { failure: failure(class, error_type, message), retry: RetryWish::Unsaid }
}

pub(crate) fn failure(class: FailureClass, error_type: &str, message: &str) -> CallFailure {
    CallFailure { class, error_type: short(error_type), message: short(message), usage: None }
}
