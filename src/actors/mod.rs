//! The actors and who talks to whom. Nothing outside this folder knows that they are actix actors.
//!
//! ```text
//!            System (any runtime)
//!               │ TaskOp, with a reply channel inside
//!               ▼
//!          Supervisor ──starts, finds, restarts──▶ TaskActor ──the turn──▶ SessionActor
//!               ▲                                    │  ▲                      │
//!               │ Outcome: an ordinary command       │  └──── TurnGranted ─────┘
//!               │                                    ▼
//!             Router ◀────────── dispatch ────── (after the append)
//!               │
//!               ▼
//!       tool or model, on the runtime for calls
//! ```
//!
//! Each stream has one actor, and each actor one [`entity::Entity`]: the loop of decide, append, evolve.
//! Actors live on one arbiter; nothing blocks there. Reads of the log go through its blocking pool.

mod asking;
mod awake;
mod delegate;
pub(crate) mod doubtful;
pub(crate) mod entity;
pub(crate) mod live;
pub(crate) mod messages;
pub(crate) mod places;
pub(crate) mod router;
pub(crate) mod session;
pub(crate) mod shared;
pub(crate) mod snapshots;
pub(crate) mod spans;
#[cfg(feature = "testing")]
pub(crate) mod stage;
pub(crate) mod supervisor;
pub(crate) mod task;
mod task_core;
pub(crate) mod tool_stores;
