//! Push notifications: webhooks are told the events of tasks, from the log.
//!
//! ```text
//! settings ─▶ outbox ─▶ worker ─▶ means ─▶ sender ─▶ address
//! ```
//!
//! A registration is an event of its task, and so is how far its deliveries have come: what is owed follows from the log alone,
//! also after a crash. [`outbox`] has a worker for each registration to which something may be owed and wakes it when its task
//! has news; a [`worker`] reads the task's stream after the place that the log names, delivers one event after another, and
//! notes its progress; a [`sender`] makes one request, only to an address that [`address`] lets through.
//!
//! Progress is noted where a webhook has been told everything and nothing follows for a second, after 32 deliveries, and at
//! the end of the task; a failure at its third attempt and when it is given up. One record for each delivery would make the log
//! of a task that streams its answer twice as long. After a crash a webhook is thus told at most 32 events again.

#[cfg(not(feature = "client"))]
mod absent;
#[cfg(feature = "client")]
pub(crate) mod address;
pub(crate) mod format;
#[cfg(feature = "client")]
pub(crate) mod means;
#[cfg(feature = "client")]
pub(crate) mod outbox;
#[cfg(feature = "client")]
pub(crate) mod sender;
#[cfg(feature = "client")]
pub(crate) mod settings;
#[cfg(feature = "client")]
pub(crate) mod worker;

#[cfg(not(feature = "client"))]
pub(crate) use absent::PushDeliveries;
#[cfg(feature = "client")]
pub(crate) use settings::PushDeliveries;
