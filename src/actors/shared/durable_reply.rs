//! A reply that depends on nothing but an append: the store's thread sends it to its caller as soon as the append is durable. A
//! caller that had to wait for the actor too would wait for another thread to wake.

use proto_events::envelope::Committed;
use tokio::sync::oneshot::Sender;

use crate::actors::shared::messages::{TaskReply, TaskView};
use crate::tools::panics::caught;

/// The reply to a command once its last append is durable.
pub(crate) struct DurableReply {
    pub(crate) caller: Sender<TaskReply>,
}

impl DurableReply {
    /// Tells the caller that the append is durable, and ends the task's stream here.
    pub(crate) fn send(self, committed: Committed) {
        // The caller is woken here, and its waker is its own code: a panic of it would end the store's thread.
        let sent = caught(|| self.caller.send(Ok(TaskView { task: None, committed })));
        if let Err(panic) = sent {
            tracing::warn!(panic, "a caller could not be woken");
        }
    }
}
