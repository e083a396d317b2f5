//! The servers of tools that brought less than they should, in the newest epoch of a log.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proto_events::id::{StreamId, Version};
use proto_events::system::{SystemEvent, ToolServerSeen};

use crate::api::error::ReadError;
use crate::api::reader::{EventReader, for_each_page_of};
use crate::read::decode_record;

/// Returns the servers of which something was missing when the newest program last saw them: all of their tools, or
/// some. By agent and name.
///
/// # Errors
/// [`ReadError`] if the log cannot be read.
pub fn tool_servers(reader: &dyn EventReader) -> Result<Vec<ToolServerSeen>, ReadError> {
    let mut newest: BTreeMap<(String, String), ToolServerSeen> = BTreeMap::new();
    let mut epoch = 0;
    for_each_page_of(reader, &StreamId::of_system(0), Version(1), |page| {
        for stored in &page {
            for recorded in decode_record::<SystemEvent>(stored)? {
                match recorded.event {
                    SystemEvent::Started(started) if started.epoch != epoch => {
                        epoch = started.epoch;
                        newest.clear();
                    }
                    SystemEvent::ToolServerSeen(seen) => {
                        newest.insert((seen.agent.clone(), seen.server.clone()), seen);
                    }
                    SystemEvent::Started(_) | SystemEvent::Stopped { .. } => {}
                }
            }
        }
        Ok::<_, ReadError>(ControlFlow::Continue(()))
    })?;
    Ok(newest.into_values().filter(|seen| seen.failure.is_some() || !seen.left_out.is_empty()).collect())
}
