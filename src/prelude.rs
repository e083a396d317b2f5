//! The names of a first program: a system, its tools, its runs and their ends.
//!
//! ```
//! use taskreel::prelude::*;
//!
//! #[derive(serde::Deserialize, JsonSchema)]
//! struct Refund {
//!     order: String,
//! }
//!
//! async fn refund(cx: ToolContext, ask: Refund) -> Result<String, ToolError> {
//!     Ok(format!("{} asked for {}", cx.principal(), ask.order))
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), taskreel::Error> {
//! # let store = std::sync::Arc::new(taskreel::log::memory::MemoryStore::new());
//! let system = System::builder("./log").tool("refund", "Refunds an order", refund);
//! # let system = system.store(store);
//! let system = system.start().await?;
//! let call = Part::tool_call("refund", proto_events::json!({"order": "A1"}))?;
//! match system.session("ada").run(call).principal("ada").once("refund-A1").await?.settled().await? {
//!     Outcome::Failed(failure) => println!("failed: {failure}"),
//!     outcome => assert_eq!(outcome.answer::<String>()?, "ada asked for A1"),
//! }
//! system.shutdown().await
//! # }
//! ```

pub use proto_events::json::JsonText;
pub use proto_events::model::{Message, Part, RunBudget, TaskState};
pub use schemars::JsonSchema;

pub use crate::error::Error;
pub use crate::system::{
    AgentBuilder, Builder, Failure, InferAs, Outcome, RunEvent, SessionHandle, System, TaskHandle,
    TaskSnapshot,
};
pub use crate::tools::error::ToolError;
pub use crate::tools::policy::ToolPolicy;
pub use crate::tools::tool::ToolContext;
