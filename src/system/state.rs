//! The state of an agent, in four modules: its conversations, its tools' values, its tasks, and the checkpoints of its runs.
//! `control` describes, resets and compacts it, as Protolink's control plane does.

pub(crate) mod authorise;
pub(crate) mod control;
pub(crate) mod conversation;
pub(crate) mod flow;
pub(crate) mod history;
pub(crate) mod reports;
pub(crate) mod tasks;
pub(crate) mod tools;
pub(crate) mod write;

use std::sync::Arc;

use proto_events::json::{JsonObject, JsonText};
use taskreel_log::api::EventStore;

use crate::agent::state_modules::{StateModule, StateModules};
use crate::error::Error;
use crate::system::handle::System;
use crate::system::state::conversation::ConversationState;
use crate::system::state::flow::FlowState;
use crate::system::state::tasks::TaskRecords;
use crate::system::state::tools::ToolsState;

/// The state of the agent that a [`System`] addresses.
///
/// ```
/// use taskreel::prelude::*;
/// use taskreel::state::{StateModules, StateOperationRequest};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), taskreel::Error> {
/// # let store = std::sync::Arc::new(taskreel::log::memory::MemoryStore::new());
/// let system = System::builder("./log").state(StateModules::all());
/// # let system = system.store(store);
/// let system = system.start().await?;
/// let step = JsonText::parse(r#"{"step": 3}"#).map_err(|error| taskreel::Error::Builder(error.to_string()))?;
/// system.state().flow()?.put("run_1", step, None).await?;
/// let described = system.state().describe(&StateOperationRequest::default()).await?;
/// assert_eq!(described.stores.len(), 4);
/// # system.shutdown().await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct State {
    pub(crate) system: System,
}

impl System {
    /// Returns the state of the agent that this handle addresses.
    pub fn state(&self) -> State {
        State { system: self.clone() }
    }
}

impl State {
    /// Returns the enabled modules.
    pub fn modules(&self) -> StateModules {
        self.system.own_agent().agent.state_modules()
    }

    fn enabled(&self, module: StateModule) -> Result<(), Error> {
        if self.modules().has(module) { Ok(()) } else { Err(Error::NoStateModule(module.as_str())) }
    }

    /// Returns the conversations.
    ///
    /// # Errors
    /// [`Error::NoStateModule`] if the module is not enabled.
    pub fn conversation(&self) -> Result<ConversationState, Error> {
        self.enabled(StateModule::Conversation)?;
        Ok(ConversationState { system: self.system.clone() })
    }

    /// Returns the values that tools keep between their calls.
    ///
    /// # Errors
    /// [`Error::NoStateModule`] if the module is not enabled.
    pub fn tools(&self) -> Result<ToolsState, Error> {
        self.enabled(StateModule::Tools)?;
        Ok(ToolsState { system: self.system.clone() })
    }

    /// Returns the tasks.
    ///
    /// # Errors
    /// [`Error::NoStateModule`] if the module is not enabled.
    pub fn tasks(&self) -> Result<TaskRecords, Error> {
        self.enabled(StateModule::Task)?;
        Ok(TaskRecords { system: self.system.clone() })
    }

    /// Returns the checkpoints of runs.
    ///
    /// # Errors
    /// [`Error::NoStateModule`] if the module is not enabled.
    pub fn flow(&self) -> Result<FlowState, Error> {
        self.enabled(StateModule::Flow)?;
        Ok(FlowState { system: self.system.clone() })
    }

    /// Returns the storage of the state: the log.
    pub fn log(&self) -> Arc<dyn EventStore> {
        self.system.log()
    }

    /// Returns the content of all enabled modules, by their names.
    ///
    /// # Errors
    /// An error of reading the log.
    pub async fn to_json(&self) -> Result<JsonText, Error> {
        let mut all = JsonObject::new();
        for module in self.modules().enabled() {
            all.set(module.as_str(), self.content_of(module).await?);
        }
        Ok(all.to_text())
    }

    pub(crate) async fn content_of(&self, module: StateModule) -> Result<JsonText, Error> {
        match module {
            StateModule::Conversation => self.conversation()?.to_json().await,
            StateModule::Tools => self.tools()?.to_json().await,
            StateModule::Task => self.tasks()?.to_json().await,
            StateModule::Flow => self.flow()?.to_json().await,
        }
    }
}
