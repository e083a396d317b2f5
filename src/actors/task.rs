//! The actor of a task. [`actor`] handles the messages, and [`replies`] answers them; [`work`] carries an operation out on the state in [`core`], step by
//! step ([`step`]) and without waiting: [`ops`] decides it ([`handler_ops`] what a handler says), [`plan`] plans what follows, [`flush`] makes an append of it, and [`effect`]
//! names what the router does afterwards. [`operation_driver`] waits between the steps, and [`panic_recovery`]
//! goes on after a panic. [`approval_ops`]
//! and [`approver`] handle approvals, [`definition_change`] and [`found_run`] runs whose agent has changed,
//! [`outside_state`] keeps the state that is not in the log, and [`outside_ops`] works on it. Above [`shared`](crate::actors::shared); the supervisor starts these actors.

pub(crate) mod actor;
pub(crate) mod approval_ops;
pub(crate) mod approver;
pub(crate) mod core;
pub(crate) mod definition_change;
pub(crate) mod effect;
pub(crate) mod flush;
pub(crate) mod found_run;
pub(crate) mod handler_ops;
pub(crate) mod operation_driver;
pub(crate) mod ops;
pub(crate) mod outside_ops;
pub(crate) mod outside_state;
pub(crate) mod panic_recovery;
pub(crate) mod pending_reply;
pub(crate) mod plan;
mod replies;
pub(crate) mod secret_ops;
pub(crate) mod step;
pub(crate) mod waiters;
mod waits;
pub(crate) mod work;
