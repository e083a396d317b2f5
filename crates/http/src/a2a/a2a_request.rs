//! A request, whatever binding it came by: the agent that it addresses, who sends it, and in which form it is answered.

use std::sync::Arc;

use proto_events::envelope::Principal;
use taskreel::{System, TaskHandle, TaskSnapshot};

use crate::a2a::failure::{A2aFailure, FailureKind};
use crate::a2a::settings::A2aSettings;
use crate::a2a::wire::DataForm;
use crate::auth::allowance::Allowance;
use crate::auth::caller::{Caller, Scope};
use crate::auth::quota::QuotaPermit;
use crate::handler::connection::StopSignal;

/// A request of a client.
#[derive(Debug, Clone)]
pub(crate) struct A2aRequest {
    /// The agent, acting for the caller.
    pub(crate) system: System,
    /// The settings of the handler.
    pub(crate) settings: Arc<A2aSettings>,
    /// The caller, if its credentials were checked.
    pub(crate) caller: Option<Caller>,
    /// The form of the request and of its answer.
    pub(crate) form: DataForm,
    /// The address of the agent, as the client sees it.
    pub(crate) url: String,
    /// The place from which a stream continues.
    pub(crate) after: Option<String>,
    /// The key under which a message is sent once.
    pub(crate) key: Option<String>,
    /// The extensions that the client names.
    pub(crate) extensions: Vec<String>,
    /// The word that the server stops.
    pub(crate) stopping: Option<StopSignal>,
    /// The quota of the caller, where a guard stands before the handler.
    pub(crate) allowance: Option<Allowance>,
}

impl A2aRequest {
    /// Refuses a caller without this scope.
    pub(crate) fn needs(&self, scope: Scope) -> Result<(), A2aFailure> {
        if self.caller.as_ref().is_none_or(|caller| caller.scopes.has(scope)) {
            return Ok(());
        }
        let text = format!("the credential has not the scope `{}`, which this request needs", scope.as_str());
        Err(A2aFailure::new(FailureKind::Forbidden, text))
    }

    /// Returns whose tasks exist for this caller; `None` where nobody's name was checked, so that all do.
    pub(crate) fn owner(&self) -> Option<&Principal> {
        self.caller.as_ref().map(|caller| &caller.principal).filter(|principal| !principal.name.is_empty())
    }

    /// Waits until the caller has room for an answer of this many bytes, which is kept until what is returned is dropped.
    ///
    /// # Errors
    /// [`FailureKind::Overloaded`] if the caller's other answers are not read in time.
    pub(crate) async fn room(&self, bytes: usize) -> Result<Option<QuotaPermit>, A2aFailure> {
        let Some(allowance) = &self.allowance else { return Ok(None) };
        let taken = allowance.take_answer(bytes).await;
        taken.map(Some).map_err(|problem| A2aFailure::new(FailureKind::Overloaded, problem.message()))
    }

    /// Returns a task of the caller's, and the task as it is on disk.
    ///
    /// # Errors
    /// [`FailureKind::TaskNotFound`], also for a task of somebody else.
    pub(crate) async fn task(&self, id: &str) -> Result<(TaskHandle, TaskSnapshot), A2aFailure> {
        let task = self.system.task(id).map_err(|_| A2aFailure::no_task(id))?;
        let snapshot = task.snapshot().await?;
        if self.owner().is_some_and(|owner| snapshot.task().principal() != owner) {
            return Err(A2aFailure::no_task(id));
        }
        Ok((task, snapshot))
    }
}
