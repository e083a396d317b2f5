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

pub(crate) mod entity;
pub(crate) mod messages;
pub(crate) mod router;
pub(crate) mod session;
pub(crate) mod supervisor;
pub(crate) mod task;
mod task_core;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::Addr;

use crate::agent::Agent;
use crate::ports::Ports;
use crate::store::EventStore;

/// What a system is made of before it starts.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) agent: Arc<Agent>,
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) ports: Ports,
    /// Where tools and models run; never the arbiter.
    pub(crate) calls: tokio::runtime::Handle,
    pub(crate) passivate_after: Duration,
    /// Set once: no new work from then on.
    pub(crate) stopping: Arc<AtomicBool>,
}

/// What every actor of a system shares.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) agent: Arc<Agent>,
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) ports: Ports,
    pub(crate) router: Addr<router::Router>,
    pub(crate) supervisor: Addr<supervisor::Supervisor>,
    pub(crate) passivate_after: Duration,
    stopping: Arc<AtomicBool>,
}

impl Shared {
    fn new(parts: Parts, router: Addr<router::Router>, supervisor: Addr<supervisor::Supervisor>) -> Self {
        let Parts { agent, store, ports, passivate_after, stopping, .. } = parts;
        Self { agent, store, ports, router, supervisor, passivate_after, stopping }
    }

    /// Whether the system takes no new work.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
