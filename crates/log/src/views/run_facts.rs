//! The facts of a task that a list of runs needs: its row, and the names by which filters take it. It is small, so that a list keeps the facts of
//! thousands of tasks instead of folding them again.

use std::collections::BTreeSet;

use proto_events::call::{Call, CallKind};
use proto_events::id::StreamId;
use proto_events::task::Task;

use crate::api::error::ReadError;
use crate::api::reader::EventReader;
use crate::read::fold::FoldedStream;
use crate::views::run_row::RunRow;

/// The facts of a task that a list of runs needs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunFacts {
    /// The row.
    pub row: RunRow,
    /// The tools that were called, or whose approval is awaited.
    pub tools: BTreeSet<String>,
    /// The models that were asked.
    pub models: BTreeSet<String>,
}

impl RunFacts {
    /// Returns the facts of a task that was folded.
    ///
    /// # Errors
    /// [`ReadError`] if its first record cannot be read.
    pub fn new(
        reader: &dyn EventReader,
        stream: &StreamId,
        folded: &FoldedStream<Task>,
    ) -> Result<Self, ReadError> {
        let task = &folded.state;
        let targets = |kind: CallKind| {
            let mut names = BTreeSet::new();
            for call in task.calls().iter().filter(|call: &&Call| call.request.kind == kind) {
                // A long task calls few tools many times.
                if !names.contains(&call.request.target) {
                    names.insert(call.request.target.clone());
                }
            }
            names
        };
        let mut tools = targets(CallKind::Tool);
        tools.extend(task.awaited_approvals().map(|approval| approval.request.tool.clone()));
        let row = RunRow::new(reader, stream, folded)?;
        Ok(Self { row, tools, models: targets(CallKind::Infer) })
    }
}
