//! The task: Protolink's lifecycle as a decider. One folder, one state machine.

pub(crate) mod answer;
pub(crate) mod approval;
pub(crate) mod approval_rules;
pub(crate) mod budget_stop;
pub(crate) mod changed_agent;
pub(crate) mod command;
pub(crate) mod content;
pub(crate) mod decide;
pub(crate) mod event;
pub(crate) mod fold;
pub(crate) mod output;
pub(crate) mod posted_again;
pub(crate) mod queue;
pub(crate) mod secrets;
pub(crate) mod state;
pub(crate) mod usage;
pub(crate) mod webhook;
pub(crate) mod webhook_rules;

pub use approval::{
    Approval, ApprovalBook, ApprovalDecided, ApprovalRejection, ApprovalRequested, BY_HANDLER, BY_SYSTEM,
};
pub use approval_rules::approved_args;
pub use budget_stop::{BUDGET_STOP, BUDGET_STOP_ID};
pub use changed_agent::{AgentChange, CHANGED_AGENT, CHANGED_AGENT_ID, ChangeIds};
pub use command::{HandlerSays, TaskCommand, TaskRejection};
pub use content::fields as command_content;
pub use event::TaskEvent;
pub use posted_again::PostedDifference;
pub use queue::QueuedMessage;
pub use state::{ItemRef, Run, StateChange, Task};
pub use webhook::{Webhook, WebhookBook, WebhookEvent, WebhookFailure, WebhookRegistration, WebhookState};
pub use webhook_rules::{WebhookCommand, WebhookRejection};
