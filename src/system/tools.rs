//! Tools, as a system has them: what each keeps, and those of MCP servers.

use proto_events::id::StreamId;
use proto_events::tool_store::ToolStore;

use crate::error::Error;
use crate::store::snapshot::fold_from_snapshot;

use super::{System, blocking};

impl System {
    /// What a tool keeps between its calls, as it is on disk.
    ///
    /// # Errors
    /// [`Error::Id`] if this cannot be a tool's name, or what reading the log answers.
    pub async fn tool_state(&self, tool: &str) -> Result<ToolStore, Error> {
        let stream = StreamId::tool(&self.inner.agent, tool)?;
        let store = self.log();
        let read = move || fold_from_snapshot::<ToolStore>(store.as_ref(), &stream);
        Ok(blocking(read).await??.state)
    }
}

#[cfg(feature = "mcp")]
impl super::Builder {
    /// Connects the MCP servers on the runtime for calls, where their connections then live, and adds their tools.
    pub(super) async fn list_mcp(&mut self, calls: &tokio::runtime::Handle) -> Result<(), Error> {
        for server in std::mem::take(&mut self.mcp) {
            let name = server.name().to_owned();
            let listed = calls.spawn(server.tools()).await;
            let listed = listed.map_err(|error| Error::Internal(format!("MCP server `{name}`: {error}")))?;
            for tool in listed.map_err(Error::Builder)? {
                let known = &tool.spec().name;
                if self.agent.tools.get(known).is_some() {
                    return Err(Error::Builder(format!(
                        "MCP server `{name}` has a tool that would be called `{known}`, as another is; give it a prefix"
                    )));
                }
                self.agent.tools.register(tool);
            }
        }
        Ok(())
    }
}
