//! The control plane over an agent's state: describe, reset, compact, with Protolink's results and errors.
//!
//! A reset of everything goes stream by stream, each under the command id of the request. A caller that chose the id and sends
//! the same request again, after a crash or a lost answer, has the rest done: what was cleared under this id before is counted
//! and left as it is now.

use futures_util::StreamExt;
use futures_util::stream::iter;
use proto_events::id::StreamId;
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::{
    HistoryCompactionRequest, StateOperation, StateOperationRequest, StateOperationResult, StateStoreReport,
};
use proto_events::task::TaskCommand;

use crate::actors::shared::messages::{TaskOp, ToTask};
use crate::agent::state_modules::StateModule;
use crate::error::Error;
use crate::system::handle::System;
use crate::system::state::State;
use crate::system::state::authorise::AuthorisedOperation;
use crate::system::state::reports;
use crate::system::state::reports::{around, failed, not_enabled, of_module, of_session};
use crate::system::task_index::STATE_RESET;

/// The streams that a reset works on at once.
const AT_ONCE: usize = 64;

const ONLY_CONVERSATION: &str = "session-scoped reset is only supported for conversation state";
const NO_PARTIAL_RESET: &str = "partial full-state reset is not supported by namespace storage";
const NEEDS_SESSION: &str = "compact_state requires session_id";
const NEEDS_MODEL: &str = "Agent has no LLM but received a state compaction request";
const NO_SESSION: &str = "conversation session not found";

impl State {
    /// Describes the requested modules, or all enabled ones.
    ///
    /// # Errors
    /// [`Error::ActionDenied`], [`Error::ApprovalRequired`] or [`Error::ApprovalUndecided`] by the agent's policy, [`Error::Model`] if the request is out of
    /// bounds, or an error of reading the log.
    pub async fn describe(&self, request: &StateOperationRequest) -> Result<StateOperationResult, Error> {
        request.check()?;
        self.authorised("describe_state", &["state.describe"], request).await?;
        let session = request.session_id.as_deref();
        let mut result = StateOperationResult::new(StateOperation::Describe, session);
        for name in selected(request, self.modules().enabled()) {
            let report = match self.enabled_module(&name) {
                None => {
                    result.missing.push(name.clone());
                    not_enabled(&name)
                }
                Some(module) => self.described(module, session, request.include_data).await?,
            };
            result.stores.push(report);
        }
        Ok(result)
    }

    /// Clears one conversation, or all enabled modules. Each is cleared by events: the log keeps what was. A turn that is open
    /// goes on, and its messages are not folded into the cleared history. Tasks that have ended leave the list of the
    /// module; those at work stay.
    ///
    /// # Errors
    /// As [`Self::describe`], and an error of the log. If the caller chose the id of the command ([`System::once`]), the same
    /// request sent again under it does the rest.
    pub async fn reset(&self, request: &StateOperationRequest) -> Result<StateOperationResult, Error> {
        request.check()?;
        let state = self.authorised("reset_state", &["state.reset"], request).await?;
        if let Some(session) = request.session_id.as_deref() {
            return state.reset_session(request, session).await;
        }
        let request = request.clone();
        self.system.spawned("the state", async move { state.reset_all(&request).await }).await
    }

    /// Compacts one conversation by the requested strategy.
    ///
    /// # Errors
    /// As [`Self::describe`], and as [`System::compact_history`].
    pub async fn compact(&self, request: &StateOperationRequest) -> Result<StateOperationResult, Error> {
        request.check()?;
        let capabilities = ["state.compact", "llm.history.compact"];
        let state = self.authorised("compact_state", &capabilities, request).await?;
        let name = StateModule::Conversation.as_str();
        let mut result = StateOperationResult::new(StateOperation::Compact, request.session_id.as_deref());
        let refusal = match request.session_id.as_deref() {
            None => Some(NEEDS_SESSION),
            Some(_) if self.system.own_agent().agent.backend.is_none() => Some(NEEDS_MODEL),
            Some(_) => None,
        };
        if let Some(message) = refusal {
            result.stores.push(failed(name, message));
            result.fault(name, message);
            return Ok(result);
        }
        if !self.modules().has(StateModule::Conversation) {
            result.missing.push(name.to_owned());
            result.stores.push(not_enabled(name));
            return Ok(result);
        }
        let session = request.session_id.as_deref().unwrap_or_default();
        let asked = history_request(request);
        let Some(compacted) = state.system.compact_session(session, &asked, false).await? else {
            result.missing.push(name.to_owned());
            result.stores.push(failed(name, NO_SESSION));
            return Ok(result);
        };
        let count = |messages: i64| usize::try_from(messages).unwrap_or(0);
        let (before, after) =
            (of_session(count(compacted.before_messages)), of_session(count(compacted.after_messages)));
        let mut metadata = around(&before, &after);
        metadata.set("compaction", compacted.to_json());
        result.compacted.push(name.to_owned());
        result.stores.push(StateStoreReport { compacted: true, metadata, ..after });
        Ok(result)
    }

    /// Returns the state through which an operation is carried out, if it is allowed and approved.
    async fn authorised(
        &self,
        action: &'static str,
        capabilities: &[&str],
        request: &StateOperationRequest,
    ) -> Result<Self, Error> {
        let (session_id, args) = (request.session_id.as_deref(), request.to_json());
        let system =
            self.system.authorise(AuthorisedOperation { action, capabilities, session_id, args }).await?;
        Ok(Self { system })
    }

    fn enabled_module(&self, name: &str) -> Option<StateModule> {
        StateModule::named(name).filter(|module| self.modules().has(*module))
    }

    async fn described(
        &self,
        module: StateModule,
        session: Option<&str>,
        include_data: bool,
    ) -> Result<StateStoreReport, Error> {
        let mut report = match (module, session) {
            (StateModule::Conversation, Some(session)) => {
                let history = self.conversation()?.history(session).await?;
                let mut report = of_session(history.len());
                if include_data && report.exists {
                    report.data = history.to_json();
                }
                return Ok(report);
            }
            (module, _) => of_module(module, self.system.count_items(module).await?),
        };
        if session.is_some() {
            report.metadata = reports::scoped(false);
        }
        if include_data && report.exists {
            report.data = self.content_of(module).await?;
        }
        Ok(report)
    }

    async fn reset_session(
        &self,
        request: &StateOperationRequest,
        session: &str,
    ) -> Result<StateOperationResult, Error> {
        let stream = StreamId::session(self.system.agent_name(), session)?;
        let mut result = StateOperationResult::new(StateOperation::Reset, Some(session));
        for name in selected(request, [StateModule::Conversation]) {
            let report = match self.enabled_module(&name) {
                None => {
                    result.missing.push(name.clone());
                    not_enabled(&name)
                }
                Some(StateModule::Conversation) => {
                    let messages = self.system.clear_session(&stream).await?;
                    let (before, after) = (of_session(messages), of_session(0));
                    let metadata = around(&before, &after);
                    result.cleared.push(name.clone());
                    StateStoreReport { cleared: true, metadata, ..after }
                }
                Some(_) => {
                    result.fault(&name, ONLY_CONVERSATION);
                    failed(&name, ONLY_CONVERSATION)
                }
            };
            result.stores.push(report);
        }
        Ok(result)
    }

    async fn reset_all(&self, request: &StateOperationRequest) -> Result<StateOperationResult, Error> {
        let mut result = StateOperationResult::new(StateOperation::Reset, None);
        let enabled: Vec<StateModule> = self.modules().enabled().collect();
        let names = selected(request, enabled.iter().copied());
        let is_whole = enabled.iter().all(|module| names.iter().any(|name| name == module.as_str()));
        // One command clears all streams, so that the request sent again finds what it has done.
        let system = self.system.with_command();
        for name in names {
            let report = match self.enabled_module(&name) {
                None => {
                    result.missing.push(name.clone());
                    not_enabled(&name)
                }
                Some(_) if !is_whole => {
                    result.fault(&name, NO_PARTIAL_RESET);
                    failed(&name, NO_PARTIAL_RESET)
                }
                Some(module) => {
                    let cleared = system.clear_module(module).await?;
                    let before = of_module(module, cleared);
                    let after = of_module(module, system.count_items(module).await?);
                    let metadata = around(&before, &after);
                    result.cleared.push(name.clone());
                    StateStoreReport { cleared: true, metadata, ..after }
                }
            };
            result.stores.push(report);
        }
        Ok(result)
    }
}

/// Returns the names of the requested modules, or of these.
fn selected(
    request: &StateOperationRequest,
    otherwise: impl IntoIterator<Item = StateModule>,
) -> Vec<String> {
    if request.stores.is_empty() {
        return otherwise.into_iter().map(|module| module.as_str().to_owned()).collect();
    }
    request.stores.clone()
}

fn history_request(request: &StateOperationRequest) -> HistoryCompactionRequest {
    HistoryCompactionRequest {
        strategy: request.strategy,
        max_messages: request.max_messages,
        max_tokens: request.max_tokens,
        preserve_recent: request.preserve_recent,
        summary_max_tokens: request.summary_max_tokens,
        session_id: request.session_id.clone(),
        metadata: request.metadata.clone(),
    }
}

impl System {
    /// Clears a module, and returns the number of its items that this command has cleared, now or when it was sent before.
    async fn clear_module(&self, module: StateModule) -> Result<usize, Error> {
        match module {
            StateModule::Conversation => self.clear_sessions().await,
            StateModule::Tools => self.clear_tools().await,
            StateModule::Task => self.clear_tasks().await,
            StateModule::Flow => self.clear_flows().await,
        }
    }

    async fn clear_sessions(&self) -> Result<usize, Error> {
        let command = self.caller.command_id.clone().unwrap_or_default();
        let (before, due) = self
            .on_sessions(move |_, index| {
                let (mut before, mut due) = (0, Vec::new());
                for (stream, size) in index.all() {
                    if size.cleared_by() == Some(command.as_str()) {
                        before += 1;
                    } else if size.can_be_cleared() {
                        due.push((stream.clone(), size.messages() > 0));
                    }
                }
                Ok((before, due))
            })
            .await?;
        let each = due.into_iter().map(|(stream, counts)| async move {
            let messages = self.clear_session(&stream).await?;
            Ok::<usize, Error>(usize::from(counts || messages > 0))
        });
        Ok(before + sum_of(each).await?)
    }

    async fn clear_tools(&self) -> Result<usize, Error> {
        let tools = State { system: self.clone() }.tools()?;
        let rows = tools.list().await?;
        let each = rows.into_iter().map(|row| {
            let tools = tools.clone();
            async move { tools.clear(&row.tool).await.map(|()| 1) }
        });
        sum_of(each).await
    }

    async fn clear_flows(&self) -> Result<usize, Error> {
        let flow = State { system: self.clone() }.flow()?;
        let rows = flow.list().await?;
        let each = rows.into_iter().map(|row| {
            let flow = flow.clone();
            async move { flow.delete(&row.run_id, None).await.map(usize::from) }
        });
        sum_of(each).await
    }

    /// Has the tasks that have ended leave the list.
    async fn clear_tasks(&self) -> Result<usize, Error> {
        let records = State { system: self.clone() }.tasks()?;
        let all = records.all().await?;
        let command = self.caller.command_id.clone().unwrap_or_default();
        let ended = all.iter().filter(|info| info.state.is_terminal()).map(|info| info.id.clone());
        let each = ended.collect::<Vec<_>>().into_iter().map(|id| {
            let mut entries = JsonObject::new();
            entries.set(STATE_RESET, JsonText::string(&command));
            async move {
                let stream = StreamId::task(self.agent_name(), &id)?;
                let op = TaskOp::Command(Box::new(TaskCommand::MergeMetadata(entries)));
                let mut message = ToTask::of_caller(stream, op);
                message.cause = self.cause()?;
                self.ask_patiently(message).await.map(|_| 1)
            }
        });
        sum_of(each).await.map(|_| all.len())
    }
}

/// Carries out work on many streams, some at once, and returns the sum. After an error nothing more is begun.
async fn sum_of<W: Future<Output = Result<usize, Error>>>(
    each: impl Iterator<Item = W>,
) -> Result<usize, Error> {
    let mut sum = 0;
    let mut done = iter(each).buffer_unordered(AT_ONCE);
    while let Some(count) = done.next().await {
        sum += count?;
    }
    Ok(sum)
}
