//! The actors and their messages. Nothing outside this folder depends on them being actix actors.
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
//! Each stream has one actor, and each actor one [`crate::actors::entity::Entity`]: the loop of decide,
//! append, evolve. Actors live on one arbiter, or on several by the names of their streams; nothing blocks there. Reads of
//! the log go through its blocking
//! pool.

pub(crate) mod entity;
pub(crate) mod router;
pub(crate) mod seed;
pub(crate) mod session;
pub(crate) mod shared;
pub(crate) mod stream_reads;
pub(crate) mod supervisor;
pub(crate) mod task;
