//! A budget that a person raises, so that a run goes on which waits for that.

use proto_events::envelope::{Committed, Principal};
use proto_events::model::RunBudget;

use crate::actors::shared::messages::TaskOp;
use crate::error::Error;
use crate::system::handles::TaskHandle;

impl TaskHandle {
    /// Replaces the budget of the task, and lets it go on if it waits for that: where it stopped, so that nothing is paid
    /// again. What was used counts on. `by` names the person. Both are one append.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], [`Error::Task`] if the task is over or the run was ended meanwhile, or an error of the log.
    pub async fn raise_budget(
        &self,
        budget: RunBudget,
        by: impl Into<Principal>,
    ) -> Result<Committed, Error> {
        let by = by.into();
        let op = TaskOp::RaiseBudget { budget: Box::new(budget), by: by.clone() };
        self.ask_as(op, by).await
    }
}
