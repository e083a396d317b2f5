//! salvor with its store on `SQLite` (WAL, `synchronous=FULL`, as it opens files), driven through the context of a run, without
//! the model calls of its built-in loop: the start, the intent, the outcome and the end are a transaction each.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use salvor::core::RunId;
use salvor::runtime::{RunCtx, ToolCallResult};
use salvor::store::{EventStore, SqliteStore};
use salvor::tools::{Effect, HandlerError, ToolCtx, ToolHandler, ToolMeta, ToolOutcome, TypedTool};

use crate::child::Runs;
use crate::report::Failure;
use crate::work::{Payment, Receipt};

struct Pay;

impl ToolMeta for Pay {
    const NAME: &'static str = "pay";
    const DESCRIPTION: &'static str = "Pays";
    /// Never sent again by itself, as `Manual` is with us.
    const EFFECT: Effect = Effect::Write;
}

#[async_trait]
impl ToolHandler for Pay {
    type Input = Payment;
    type Output = Receipt;

    async fn call(&self, _: &ToolCtx, payment: Payment) -> Result<ToolOutcome<Receipt>, HandlerError> {
        Ok(ToolOutcome::Output(payment.pay()))
    }
}

#[derive(Clone)]
pub(crate) struct Salvor {
    store: Arc<dyn EventStore>,
    pay: Arc<TypedTool<Pay>>,
}

impl Salvor {
    pub(crate) fn start(dir: &Path) -> Result<Self, Failure> {
        let store = Arc::new(SqliteStore::open(dir.join("salvor.db"))?);
        Ok(Self { store, pay: Arc::new(TypedTool::new(Pay)) })
    }
}

impl Runs for Salvor {
    async fn run(&self, number: u64) -> Result<(), Failure> {
        let mut run = RunCtx::new(Arc::clone(&self.store), RunId::new(), Vec::new())?;
        let input = run.begin("rivals", &serde_json::to_value(Payment::of(number))?).await?;
        let ToolCallResult::Output(output) = run.tool_call(self.pay.as_ref(), &input, None).await? else {
            return Err("salvor: the call has no output".into());
        };
        Ok(run.complete_run(&output).await?)
    }

    async fn end(self) -> Result<(), Failure> {
        Ok(())
    }
}
