//! The reports of the control plane on the modules of an agent's state, in Protolink's shapes.

use proto_events::json::{JsonObject, JsonText};
use proto_events::model::StateStoreReport;

use crate::agent::state_modules::StateModule;
use crate::error::Error;
use crate::system::handle::System;
use crate::system::state::conversation::ConversationState;
use crate::system::state::flow::FlowState;
use crate::system::state::tasks::TaskRecords;
use crate::system::state::tools::ToolsState;

/// The error of a module that the agent does not have, in Protolink's words.
pub(crate) const NOT_ENABLED: &str = "state store is not enabled";

/// The key that says whether a report is about one session.
const SESSION_SCOPED: &str = "session_scoped";

/// Returns the report on a module that the agent does not have.
pub(crate) fn not_enabled(name: &str) -> StateStoreReport {
    StateStoreReport { error: Some(NOT_ENABLED.to_owned()), ..StateStoreReport::new(name, false) }
}

/// Returns the report on a module in which the operation failed.
pub(crate) fn failed(name: &str, message: &str) -> StateStoreReport {
    StateStoreReport { error: Some(message.to_owned()), ..StateStoreReport::new(name, true) }
}

/// Returns the report on one conversation, which has as many messages.
pub(crate) fn of_session(messages: usize) -> StateStoreReport {
    let count = i64::try_from(messages).ok().filter(|count| *count > 0);
    let mut report = StateStoreReport::new(StateModule::Conversation.as_str(), true);
    (report.exists, report.item_count, report.message_count) = (count.is_some(), count, count);
    report.metadata = scoped(true);
    report
}

/// Returns the report on a module as a whole, which has as many items. Conversations and checkpoints exist without any item, as
/// Protolink has it; the other two do not.
pub(crate) fn of_module(module: StateModule, items: usize) -> StateStoreReport {
    let mut report = StateStoreReport::new(module.as_str(), true);
    let count = i64::try_from(items).unwrap_or(i64::MAX);
    let always = matches!(module, StateModule::Conversation | StateModule::Flow);
    report.exists = always || items > 0;
    report.item_count = report.exists.then_some(count);
    report
}

/// Returns the metadata that say whether a report is about one session.
pub(crate) fn scoped(is_scoped: bool) -> JsonObject {
    let mut metadata = JsonObject::new();
    metadata.set(SESSION_SCOPED, JsonText::of_model(&is_scoped));
    metadata
}

/// Returns the metadata of an operation's report: the reports before and after it.
pub(crate) fn around(before: &StateStoreReport, after: &StateStoreReport) -> JsonObject {
    let mut metadata = JsonObject::new();
    metadata.set("before", before.to_json());
    metadata.set("after", after.to_json());
    metadata
}

impl System {
    /// Returns the number of items in a module.
    pub(crate) async fn count_items(&self, module: StateModule) -> Result<usize, Error> {
        let system = self.clone();
        Ok(match module {
            StateModule::Conversation => ConversationState { system }.sessions().await?.len(),
            StateModule::Tools => ToolsState { system }.list().await?.len(),
            StateModule::Task => TaskRecords { system }.all().await?.len(),
            StateModule::Flow => FlowState { system }.list().await?.len(),
        })
    }
}
