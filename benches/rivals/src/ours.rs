//! taskreel as an embedder uses it: a system on a log in a directory, one tool with the default policy (`Manual`), all other
//! settings at their defaults (`Durability::Strict` among them).

use std::convert::Infallible;
use std::path::Path;

use taskreel::{Part, System, TaskState};

use crate::child::Runs;
use crate::report::Failure;
use crate::work::Payment;

#[derive(Clone)]
pub(crate) struct Ours(System);

impl Ours {
    pub(crate) async fn start(dir: &Path) -> Result<Self, Failure> {
        let pay = |payment: Payment| async move { Ok::<_, Infallible>(payment.pay()) };
        let system = System::builder(dir.join("log")).name("rivals").tool("pay", "Pays", pay);
        Ok(Self(system.start().await?))
    }
}

impl Runs for Ours {
    async fn run(&self, number: u64) -> Result<(), Failure> {
        let part = Part::tool_call("pay", Payment::of(number))?;
        let end = self.0.run_to_end(part).await?;
        if end.state() == TaskState::Completed { Ok(()) } else { Err(format!("{}", end.state()).into()) }
    }

    async fn end(self) -> Result<(), Failure> {
        Ok(self.0.shutdown().await?)
    }
}
