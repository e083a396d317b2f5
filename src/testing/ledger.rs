//! The executions of an agent's tools as seen from outside: each attempt, noted apart from the log, as the
//! tool's own target would note it. The log is checked against it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto_events::envelope::Timestamp;
use proto_events::id::Position;
use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::Message;
use taskreel_log::api::EventReader;
use taskreel_log::ports::Clock;

use crate::actors::shared::observed_runtime::ObservedRuntime;
use crate::agent::handler::{HandlerCode, HandlerContext, HandlerEnd};
use crate::tools::error::ToolError;
use crate::tools::future::BoxFuture;
use crate::tools::tool::{Tool, ToolContext};

/// An attempt of a tool, noted when it began.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Execution {
    /// The id of the task.
    pub task_id: String,
    /// The id of the call.
    pub call_id: String,
    /// The key that the tool received, the same for all attempts of the call.
    pub idempotency_key: String,
    /// The number of the attempt.
    pub attempt: u32,
    /// The arguments that the tool received.
    pub args: JsonText,
    /// The time at which the attempt began.
    pub at: Timestamp,
    /// The head of the log at that time.
    pub head: Position,
}

/// All attempts of an agent's tools. Clones are the same ledger.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Vec<Execution>>>);

impl Ledger {
    /// Returns all attempts, in the order in which they began.
    pub fn executions(&self) -> Vec<Execution> {
        self.lock().clone()
    }

    /// Returns the number of executions of each call, by its idempotency key.
    pub fn dispatches(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for execution in self.lock().iter() {
            *counts.entry(execution.idempotency_key.clone()).or_default() += 1;
        }
        counts
    }

    /// Returns the number of executions of a call.
    pub fn times(&self, call_id: &str) -> usize {
        self.lock().iter().filter(|execution| execution.call_id == call_id).count()
    }

    fn record(&self, execution: Execution) {
        self.lock().push(execution);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Execution>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handler whose attempts are noted in the ledger.
pub(crate) struct WatchedHandler {
    pub(crate) handler: Arc<dyn HandlerCode>,
    pub(crate) ledger: Ledger,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) log: Arc<dyn EventReader>,
}

impl HandlerCode for WatchedHandler {
    fn run(&self, cx: HandlerContext, message: Message) -> BoxFuture<'static, Result<HandlerEnd, ToolError>> {
        let place = cx.task().messages().iter().position(|known| *known == message).unwrap_or_default();
        let args = json!({"message": u64::try_from(place).unwrap_or(u64::MAX)}).to_text();
        self.ledger.record(execution(cx.call(), args, self.clock.as_ref(), self.log.as_ref()));
        self.handler.run(cx, message)
    }
}

fn execution(cx: &ToolContext, args: JsonText, clock: &dyn Clock, log: &dyn EventReader) -> Execution {
    Execution {
        task_id: cx.task_id().to_owned(),
        call_id: cx.call_id().to_owned(),
        idempotency_key: cx.idempotency_key().to_owned(),
        attempt: cx.attempt(),
        args,
        at: clock.now(),
        head: log.head().unwrap_or_default(),
    }
}

/// A tool whose attempts are noted in the ledger.
pub(crate) struct LedgerTool {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) ledger: Ledger,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) log: Arc<dyn EventReader>,
    pub(crate) observed: Arc<ObservedRuntime>,
}

impl Tool for LedgerTool {
    fn call(&self, cx: ToolContext, args: JsonText) -> BoxFuture<'static, Result<JsonText, ToolError>> {
        self.ledger.record(execution(&cx, args.clone(), self.clock.as_ref(), self.log.as_ref()));
        // No time passes while a blocking function runs, which has a thread of its own.
        let blocking = self.tool.is_blocking().then(|| self.observed.track_blocking());
        let work = self.tool.call(cx, args);
        Box::pin(async move {
            let answer = work.await;
            drop(blocking);
            answer
        })
    }

    fn is_blocking(&self) -> bool {
        self.tool.is_blocking()
    }
}
