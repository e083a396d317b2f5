//! The stored states of a system's tools.

use proto_events::id::StreamId;
use proto_events::tool_store::ToolStore;
use taskreel_log::read::fold_stream;

use crate::error::Error;
use crate::system::handle::System;

impl System {
    /// Returns the state that a tool keeps between its calls, as it is on disk.
    ///
    /// # Errors
    /// [`Error::Id`] if this is not a valid tool name, or an error of reading the log.
    pub async fn tool_state(&self, tool: &str) -> Result<ToolStore, Error> {
        let stream = StreamId::tool(self.agent_name(), tool)?;
        let store = self.log();
        let read = move || fold_stream::<ToolStore>(store.as_ref(), &stream, None);
        Ok(self.on_pool(move || Ok(read()?)).await?.state)
    }
}
