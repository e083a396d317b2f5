//! Requests to an agent's control plane and their results, one file per subject.

mod action;
mod cancellation;
mod compaction;
mod state;

pub use action::RunAction;
pub use cancellation::TaskCancellationRequest;
pub use compaction::{CompactionStrategy, HistoryCompactionRequest, HistoryCompactionResult};
pub use state::{StateOperation, StateOperationRequest, StateOperationResult, StateStoreReport};
