//! The official server for Rust, with its tasks in memory.

use std::net::SocketAddr;
use std::sync::Arc;

use a2a::event::{StreamResponse, TaskStatusUpdateEvent};
use a2a::{A2AError, Message, Part, Role, Task, TaskState, TaskStatus};
use a2a_server::{AgentExecutor, DefaultRequestHandler, ExecutorContext, InMemoryTaskStore, jsonrpc};
use futures_util::stream::{self, BoxStream, StreamExt as _};

use crate::report::Failure;

/// An agent that says what it heard, and completes.
struct Agent;

fn status(state: TaskState, message: Option<Message>) -> TaskStatus {
    TaskStatus { state, message, timestamp: None }
}

impl AgentExecutor for Agent {
    fn execute(&self, cx: ExecutorContext) -> BoxStream<'static, Result<StreamResponse, A2AError>> {
        let heard = cx.message.as_ref().and_then(Message::text).unwrap_or_default();
        let said = Message::new(Role::Agent, vec![Part::text(format!("heard {heard}"))]);
        let task = Task {
            id: cx.task_id.clone(),
            context_id: cx.context_id.clone(),
            status: status(TaskState::Submitted, None),
            artifacts: None,
            history: cx.message.map(|message| vec![message]),
            metadata: None,
        };
        let done = TaskStatusUpdateEvent {
            task_id: cx.task_id,
            context_id: cx.context_id,
            status: status(TaskState::Completed, Some(said)),
            metadata: None,
        };
        stream::iter([Ok(StreamResponse::Task(task)), Ok(StreamResponse::StatusUpdate(done))]).boxed()
    }

    fn cancel(&self, _: ExecutorContext) -> BoxStream<'static, Result<StreamResponse, A2AError>> {
        stream::empty().boxed()
    }
}

/// Begins to serve, and returns the address.
pub(crate) async fn serve() -> Result<SocketAddr, Failure> {
    let handler = Arc::new(DefaultRequestHandler::new(Agent, InMemoryTaskStore::new()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, jsonrpc::jsonrpc_router(handler)).await });
    Ok(address)
}
