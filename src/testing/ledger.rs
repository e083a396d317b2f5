//! What the world outside saw of an agent: every attempt of a tool, noted beside the log, as the tool's own target
//! would note it. Against it stands what the log says.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto_events::envelope::Timestamp;
use proto_events::id::Position;
use proto_events::json::JsonText;

use crate::actors::stage::Stage;
use crate::agent::tool::{BoxFuture, Tool, ToolContext, ToolError};
use crate::ports::Clock;
use crate::store::EventReader;

/// One attempt of a tool, when it began.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Execution {
    /// The task on whose behalf.
    pub task_id: String,
    /// The call.
    pub call_id: String,
    /// The key that the tool was given, the same for all attempts of the call.
    pub idempotency_key: String,
    /// Which attempt.
    pub attempt: u32,
    /// Its arguments.
    pub args: JsonText,
    /// When it began.
    pub at: Timestamp,
    /// Where the log ended then.
    pub head: Position,
}

/// All attempts of an agent's tools. Clones are the same ledger.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Vec<Execution>>>);

impl Ledger {
    /// All attempts, in the order in which they began.
    pub fn executions(&self) -> Vec<Execution> {
        self.lock().clone()
    }

    /// How often each call was carried out, by its idempotency key.
    pub fn dispatches(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for execution in self.lock().iter() {
            *counts.entry(execution.idempotency_key.clone()).or_default() += 1;
        }
        counts
    }

    /// How often a call was carried out.
    pub fn times(&self, call_id: &str) -> usize {
        self.lock().iter().filter(|execution| execution.call_id == call_id).count()
    }

    fn note(&self, execution: Execution) {
        self.lock().push(execution);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Execution>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A tool with somebody who watches at its door.
pub(super) struct Watched {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) ledger: Ledger,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) log: Arc<dyn EventReader>,
    pub(super) stage: Arc<Stage>,
}

impl Tool for Watched {
    fn call(&self, cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<JsonText, ToolError>> {
        self.ledger.note(Execution {
            task_id: cx.task_id().to_owned(),
            call_id: cx.call_id().to_owned(),
            idempotency_key: cx.idempotency_key().to_owned(),
            attempt: cx.attempt(),
            args: args.clone(),
            at: self.clock.now(),
            head: self.log.head().unwrap_or_default(),
        });
        // No time passes while a function runs that is not async: it has a thread of its own.
        let beside = self.tool.is_blocking().then(|| self.stage.wait_for());
        let work = self.tool.call(cx, args);
        Box::pin(async move {
            let answer = work.await;
            drop(beside);
            answer
        })
    }

    fn is_blocking(&self) -> bool {
        self.tool.is_blocking()
    }
}
