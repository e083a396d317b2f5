//! agentplane with its store on redb: a skill that performs one mutating effect. It sends nothing through a sink, so that no gate
//! of its information flow is measured.

use std::path::Path;
use std::sync::Arc;

use agentplane::core::{Effect, EffectDescriptor, EffectError};
use agentplane::prelude::{
    JournalStore, Outcome, RedbStore, Runtime, Skill, SkillDescriptor, SkillError, StepCtx, Tainted,
};
use async_trait::async_trait;
use serde_json::Value;

use crate::child::Runs;
use crate::report::Failure;
use crate::work::{Payment, Receipt};

/// The effect: it mutates and is never repeated by itself, which is the default.
struct Pay {
    payment: Payment,
    described: Value,
}

#[async_trait]
impl Effect for Pay {
    type Output = Receipt;

    fn descriptor(&self) -> EffectDescriptor {
        EffectDescriptor::new("pay", self.described.clone())
    }

    async fn perform(&self) -> Result<Receipt, EffectError> {
        Ok(self.payment.pay())
    }
}

#[derive(Debug)]
struct PayOnce;

#[async_trait]
impl Skill for PayOnce {
    fn descriptor(&self) -> SkillDescriptor {
        SkillDescriptor::new("pay")
    }

    async fn invoke(&self, cx: &mut StepCtx<'_>, input: Tainted<Value>) -> Result<Outcome, SkillError> {
        let other = |error: serde_json::Error| SkillError::Other(error.to_string());
        let described = input.peek().clone();
        let payment = serde_json::from_value(described.clone()).map_err(other)?;
        let receipt = cx.effect(Pay { payment, described }).await?;
        Ok(Outcome::done(receipt.map(|receipt| serde_json::json!(receipt))))
    }
}

#[derive(Clone)]
pub(crate) struct Agentplane(Arc<Runtime>);

impl Agentplane {
    pub(crate) fn start(dir: &Path) -> Result<Self, Failure> {
        let store: Arc<dyn JournalStore> = Arc::new(RedbStore::open(dir.join("agentplane.redb"))?);
        Ok(Self(Runtime::builder(store).skill(PayOnce).build()))
    }
}

impl Runs for Agentplane {
    async fn run(&self, number: u64) -> Result<(), Failure> {
        let input = Tainted::trusted(serde_json::to_value(Payment::of(number))?);
        let outcome = self.0.start("pay", input).run().await?;
        outcome.success().map_err(|failure| format!("agentplane: {failure}"))?;
        Ok(())
    }

    async fn end(self) -> Result<(), Failure> {
        Ok(())
    }
}
