//! The flow state of a run: its checkpoint, which a host or a workflow stores under the run's id.

pub(crate) mod command;
pub(crate) mod decide;
pub(crate) mod event;
pub(crate) mod state;

pub use command::{FlowCommand, FlowRejection};
pub use event::FlowEvent;
pub use state::{Checkpoint, FlowRun};
