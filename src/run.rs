//! The planner: the next step of a run, as a pure function of the task's fold, the session's turn and the
//! agent. Above [`agent`](crate::agent), below [`actors`](crate::actors), which carry out its steps.
//!
//! No state is kept between two questions. After a crash the planner answers the same question about the
//! replayed state, so recovery and normal progress are the same code. Each answer is a list of ordinary
//! commands; the caller decides them and asks again, until the answer is to wait.
//!
//! The rules follow Protolink 0.6.4's `execute_task` and infer loop.

pub(crate) mod after_decision;
pub(crate) mod after_resolution;
pub(crate) mod approval_text;
pub(crate) mod call_of;
pub(crate) mod child_wait;
pub(crate) mod deadline;
pub(crate) mod delegation;
pub(crate) mod delegation_request;
pub(crate) mod handler;
pub(crate) mod infer;
pub(crate) mod infer_request;
pub(crate) mod model_input;
pub(crate) mod new_webhook;
pub(crate) mod next;
pub(crate) mod notes;
pub(crate) mod permission;
pub(crate) mod person_steps;
pub(crate) mod question;
pub(crate) mod reply_reading;
pub(crate) mod responder;
pub(crate) mod secrets;
pub(crate) mod settled_actions;
pub(crate) mod spent;
pub(crate) mod steps;
pub(crate) mod summary;
pub(crate) mod tool;
pub(crate) mod turn_end;

pub(crate) use proto_events::call::recovery::{after_failure, after_loss};

pub(crate) use crate::run::delegation::waits_for_parent;
pub(crate) use crate::run::infer_request::infer_request;
