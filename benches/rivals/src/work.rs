//! The work of a run: one call of a tool that pays, the same arguments and the same answer in each system.

use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The number of payments made in this process.
static PAID: AtomicU64 = AtomicU64::new(0);

/// The arguments of the tool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Payment {
    to: String,
    cents: u64,
    reference: String,
}

/// The answer of the tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Receipt {
    reference: String,
    number: u64,
}

impl Payment {
    /// Returns the payment of a run.
    pub(crate) fn of(run: u64) -> Self {
        Self {
            to: "DE02 1203 0000 0000 2020 51".to_owned(),
            cents: 100 + run % 900,
            reference: format!("invoice {run} of the year 2026, paid by the agent of accounting"),
        }
    }

    /// Takes effect at once, so that nothing is measured but what the systems do around it.
    pub(crate) fn pay(&self) -> Receipt {
        let number = PAID.fetch_add(1, Ordering::Relaxed) + 1;
        Receipt { reference: self.reference.clone(), number }
    }
}

/// Returns the number of payments made in this process.
pub(crate) fn paid() -> u64 {
    PAID.load(Ordering::Relaxed)
}
