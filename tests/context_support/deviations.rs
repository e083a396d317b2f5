//! Deliberate differences between our strategies under agentix's rules and those of agentix: there are none.

#[path = "../deviations/deviation.rs"]
#[allow(dead_code, reason = "there is no rule whose words and example could be checked")]
mod deviation;

pub(crate) use deviation::Deviation;

/// All deviations.
pub(crate) static RULES: &[Deviation] = &[];
