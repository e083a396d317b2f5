//! Tests of your own agents: a system without disk and without waiting.
//!
//! [`system`] starts an agent over a log in memory, with ids that follow from a number and a clock that the test moves.
//! All of it runs on one thread, so that the same test takes the same course every time. A back-off of minutes takes
//! no time, and neither does a tool that sleeps on the system's clock.
//!
//! ```
//! use std::convert::Infallible;
//! use taskreel::testing::{self, Entry, Scripted};
//! use taskreel::{JsonSchema, Part, TaskState};
//!
//! #[derive(serde::Deserialize, JsonSchema)]
//! struct Payment { euros: u32 }
//! async fn pay(ask: Payment) -> Result<String, Infallible> { Ok(format!("{} paid", ask.euros)) }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), taskreel::Error> {
//! let system = testing::system(|builder| {
//!     builder.tool("pay", "Pays", pay).infer(Scripted::by_prompt([(
//!         "the rent".to_owned(),
//!         vec![
//!             Entry::Text(r#"{"type":"tool_call","tool":"pay","args":{"euros":900}}"#.to_owned()),
//!             Entry::Text(r#"{"type":"final","content":"It is paid."}"#.to_owned()),
//!         ],
//!     )]))
//! }).await?;
//! let task = system.session("home").send(Part::infer("Pay the rent")).await?;
//! let end = system.finish(&task).await?;
//! assert_eq!(end.state(), TaskState::Completed);
//! assert_eq!(system.ledger().executions().len(), 1);
//! testing::assert_well_formed(system.store().as_ref());
//! # system.shutdown().await
//! # }
//! ```
//!
//! # What may be crashed, and where
//!
//! [`TestSystem::crash`] drops all that is in flight and starts again on what the log holds;
//! [`TestSystem::cut_after`] starts on a log that ends earlier. [`CrashMatrix`] does that behind every append of a run
//! and checks what follows.
//!
//! # Which time is virtual
//!
//! Back-offs, time limits of attempts, deadlines, and the second looks of actors that wait for each other. Real are
//! only the moment at which an idle actor is put to sleep, and how long a reopening waits for calls that hear no
//! interruption: neither decides what is written. A tool or a model
//! that is to take its time waits with [`sleep`]; tokio's own timers know the real time only. While a
//! tool runs that is no `async fn`, no time passes.

mod assert;
mod clock;
mod cut;
mod ids;
mod judge;
mod ledger;
mod matrix;
mod system;

pub use assert::{assert_well_formed, ill_formed};
pub use clock::{VirtualClock, sleep};
pub use cut::{appends, cut_after};
pub use ids::CountedIds;
pub use judge::{Cells, Row};
pub use ledger::{Execution, Ledger};
pub use matrix::{Broken, CrashMatrix, CrashReport};
pub use proto_events::scenario;
pub use system::{Driver, TestSystem, system, system_over};

pub use crate::agent::scripted::{Entry, Scripted};
