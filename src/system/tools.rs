//! The tools of a system: their stored states, and the tools of MCP servers.

use proto_events::id::StreamId;
use proto_events::tool_store::ToolStore;
use taskreel_log::read::fold_stream;

use crate::error::Error;
use crate::system::handle::{System, blocking};

impl System {
    /// Returns the state that a tool keeps between its calls, as it is on disk.
    ///
    /// # Errors
    /// [`Error::Id`] if this is not a valid tool name, or an error of reading the log.
    pub async fn tool_state(&self, tool: &str) -> Result<ToolStore, Error> {
        let stream = StreamId::tool(&self.inner.agent, tool)?;
        let store = self.log();
        let read = move || fold_stream::<ToolStore>(store.as_ref(), &stream, None);
        Ok(blocking(read).await??.state)
    }
}

#[cfg(feature = "mcp")]
impl crate::system::builder::Builder {
    /// Connects the MCP servers on the runtime for calls, where their connections then live, and adds their
    /// tools.
    pub(crate) async fn list_mcp(&mut self, calls: &tokio::runtime::Handle) -> Result<(), Error> {
        for server in std::mem::take(&mut self.mcp) {
            let name = server.name().to_owned();
            let listed = calls.spawn(server.tools()).await;
            let listed = listed.map_err(|error| Error::Internal(format!("MCP server `{name}`: {error}")))?;
            for tool in listed.map_err(Error::Builder)? {
                let known = &tool.spec().name;
                if self.agent.tools.get(known).is_some() {
                    return Err(Error::Builder(format!(
                        "MCP server `{name}` has a tool whose name `{known}` is already in use; set a prefix for the server"
                    )));
                }
                self.agent.tools.register(tool);
            }
        }
        Ok(())
    }
}
