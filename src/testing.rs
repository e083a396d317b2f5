//! A testing kit for your own agents: a system without disk and without waiting.
//!
//! [`system`] starts an agent over a log in memory, with ids derived from a number and a clock that the test
//! controls. All of it runs on one thread, so a test takes the same course each time. A back-off of minutes
//! takes no real time, and neither does a tool that sleeps on the system's clock.
//!
//! ```
//! use std::convert::Infallible;
//! use taskreel::infer::{Entry, Scripted};
//! use taskreel::testing;
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
//! # Crashes
//!
//! [`TestSystem::crash`] drops all work in flight and starts again on the log; [`TestSystem::cut_after`]
//! starts on a log that ends earlier. [`CrashMatrix`] does that after each append of a workload and checks
//! what follows.
//!
//! # Virtual time
//!
//! Back-offs, time limits of attempts, deadlines, and the repeated checks of actors that wait for each other
//! use virtual time. Only two times are real: the moment at which an idle actor is passivated, and the wait
//! of a reopening for calls that ignore their interruption; neither affects what is written. A tool or a
//! model that takes time waits with [`sleep`]; tokio's own timers use real time. While a tool runs that is
//! not an `async fn`, no virtual time passes.

pub(crate) mod assert;
pub(crate) mod clock;
pub(crate) mod cut;
pub(crate) mod ids;
pub(crate) mod judge;
pub(crate) mod ledger;
pub(crate) mod matrix;
pub(crate) mod system;

#[doc(hidden)]
pub use proto_events::scenario;

// Paths from before the split into crates.
#[doc(hidden)]
pub use crate::models::scripted::{Entry, Scripted};
pub use crate::testing::assert::{assert_well_formed, ill_formed};
pub use crate::testing::clock::{VirtualClock, sleep};
pub use crate::testing::cut::{appends, cut_after};
pub use crate::testing::ids::CountedIds;
pub use crate::testing::judge::row::{Cells, Row};
pub use crate::testing::ledger::{Execution, Ledger};
pub use crate::testing::matrix::CrashMatrix;
pub use crate::testing::matrix::report::{Broken, CrashReport};
pub use crate::testing::system::{Driver, TestSystem, system, system_over};
