//! The task: Protolink's lifecycle as a decider. One folder, one state machine.

mod approval;
mod command;
mod decide;
mod event;
mod posted_again;
mod state;

pub use approval::{Approval, ApprovalBook, ApprovalDecided, ApprovalRejection, ApprovalRequested};
pub use command::{TaskCommand, TaskRejection};
pub use event::TaskEvent;
pub use posted_again::Difference;
pub use state::{ItemRef, Run, StateChange, Task};
