//! Replies that depend on nothing but an append: they go to their callers from the store's own thread, as soon as the append is
//! durable. A caller that had to wait for the actor too would wait for another thread to wake.

use std::sync::Arc;

use proto_events::envelope::Committed;
use proto_events::task::Task;
use tokio::sync::oneshot::Sender;

use crate::actors::shared::messages::{TaskReply, TaskView};

/// The reply to a command once its last append is durable.
pub(crate) enum DurableReply {
    /// The end of the task's stream, to the caller of the command.
    Decided(Sender<TaskReply>),
    /// The task at the end of its run, to those who wait for it.
    Ended { callers: Vec<Sender<TaskReply>>, task: Arc<Task> },
}

impl DurableReply {
    /// Sends the reply. The append ends the task's stream here.
    pub(crate) fn send(self, committed: Committed) {
        // A caller that has gone away needs none.
        match self {
            Self::Decided(caller) => drop(caller.send(Ok(TaskView { task: None, committed }))),
            Self::Ended { callers, task } => {
                for caller in callers {
                    let _ = caller.send(Ok(TaskView { task: Some(Arc::clone(&task)), committed }));
                }
            }
        }
    }
}
