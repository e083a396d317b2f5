//! The call whose code runs now, as far as its task goes: code that waits for work which waits for this very call is told so.

use std::future::Future;

use proto_events::id::StreamId;

/// The place of a call's code.
#[derive(Debug, Clone)]
pub(crate) struct CurrentCall {
    /// The system, told from others of this process.
    pub(crate) system: usize,
    /// The stream of the call's task.
    pub(crate) task: StreamId,
    pub(crate) call_id: String,
    /// The session whose turn the call's task holds.
    pub(crate) session: Option<String>,
}

tokio::task_local! {
    static CURRENT: CurrentCall;
}

/// Runs the code of a call.
pub(crate) async fn within<T>(call: CurrentCall, code: impl Future<Output = T>) -> T {
    CURRENT.scope(call, code).await
}

/// Returns the call whose code this task of the runtime is. Work that the code has spawned is not found.
pub(crate) fn current_call() -> Option<CurrentCall> {
    CURRENT.try_with(CurrentCall::clone).ok()
}
