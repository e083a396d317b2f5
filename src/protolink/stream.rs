//! A task as Protolink streams it. [`fold`] turns the task's events into stream events ([`event`]), and [`read`] reads
//! them from the wire; [`infer`], [`actions`], [`refusal`] and [`budget`] hold its parts for the infer loop, actions and
//! budgets; [`resume`] is the place from which a subscriber continues.

pub(crate) mod actions;
pub(crate) mod budget;
pub(crate) mod event;
pub(crate) mod fold;
pub(crate) mod infer;
pub(crate) mod read;
pub(crate) mod refusal;
pub(crate) mod resume;
