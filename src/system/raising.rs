//! A budget that a person raises, so that a run goes on which waits for that.

use proto_events::envelope::Principal;
use proto_events::json::JsonObject;
use proto_events::model::RunBudget;
use proto_events::task::TaskCommand;

use crate::error::Error;
use crate::system::handles::TaskHandle;

impl TaskHandle {
    /// Replaces the budget of the task, and lets it go on if it waits for that: where it stopped, so that nothing is paid
    /// again. What was used counts on. `by` names the person.
    ///
    /// # Errors
    /// [`Error::TaskNotFound`], [`Error::Task`] if the task is over or the run was ended meanwhile, or an error of the log. A
    /// budget that was replaced stays so: raising it again lets the task go on.
    pub async fn raise_budget(&self, budget: RunBudget, by: impl Into<Principal>) -> Result<(), Error> {
        let by = by.into();
        let now = self.snapshot().await?;
        let mut context: JsonObject = match now.task().metadata().get("run_context") {
            Some(context) => {
                context.read().map_err(|error| Error::RunRequest(format!("the run context: {error}")))?
            }
            None => JsonObject::new(),
        };
        context.set("budget", budget.to_json());
        let entries = [("run_context".to_owned(), context.to_text())].into_iter().collect();
        self.acting_as(by.clone()).command(TaskCommand::MergeMetadata(entries)).await?;
        let stop = now.task().budget_stop().filter(|(approval, _)| approval.decision.is_none());
        if let Some((approval, _)) = stop {
            self.approve(&approval.request.approval_id, by).await?;
        }
        Ok(())
    }
}
