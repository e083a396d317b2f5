//! Deliberate differences between our strategies under agentix's rules and those of agentix: there are none.

#[path = "../deviations/deviation.rs"]
mod deviation;

pub(crate) use deviation::Deviation;

/// All deviations.
pub(crate) static RULES: &[Deviation] = &[];
