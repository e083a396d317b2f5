//! Circuits: a target that failed so many times in a row is left alone for a while, then one call is let through. What
//! the circuit refuses failed before any effect, and says so in the log; the circuit itself is forgotten at a restart.

use std::collections::HashMap;
use std::time::Duration;

use proto_events::call::FailureClass;
use proto_events::envelope::Timestamp;

use crate::actors::messages::AttemptEnd;
use crate::agent::policy::Breaker;

/// All circuits of an agent, by target. One that is closed and has seen no failure has no entry.
#[derive(Debug, Default)]
pub(super) struct Breakers(HashMap<String, Circuit>);

#[derive(Debug)]
struct Circuit {
    rule: Breaker,
    failures: u32,
    /// Nothing is sent before this moment.
    open_until: Option<Timestamp>,
    /// The one call that was let through has not answered yet.
    trying: bool,
}

impl Breakers {
    /// Why an attempt is not sent now, and for how long not; or nothing, if it is.
    pub(super) fn refuses(&mut self, target: &str, now: Timestamp) -> Option<(String, Duration)> {
        let circuit = self.0.get_mut(target)?;
        let until = circuit.open_until?;
        let left = if circuit.trying { circuit.rule.cooldown } else { until.since(now) };
        if left.is_zero() {
            circuit.trying = true;
            return None;
        }
        let text = format!(
            "the circuit of {target} is open after {} failures in a row; it is tried again in {} ms",
            circuit.failures,
            left.as_millis()
        );
        Some((text, left))
    }

    /// The call that was let through has gone without an answer: another may be.
    pub(super) fn let_go(&mut self, target: &str) {
        if let Some(circuit) = self.0.get_mut(target) {
            circuit.trying = false;
        }
    }

    /// Notes how an attempt of a target with such a rule ended.
    pub(super) fn note(&mut self, target: &str, rule: Option<Breaker>, end: &AttemptEnd, now: Timestamp) {
        let Some(rule) = rule else { return };
        if !is_failure(end) {
            self.0.remove(target);
            return;
        }
        let closed = || Circuit { rule, failures: 0, open_until: None, trying: false };
        let circuit = self.0.entry(target.to_owned()).or_insert_with(closed);
        circuit.failures = circuit.failures.saturating_add(1);
        circuit.trying = false;
        if circuit.failures >= rule.failures {
            circuit.open_until = Some(now.plus(rule.cooldown));
        }
    }
}

/// Whether the target itself failed. Arguments that it refused, and what never reached it, say nothing about it.
fn is_failure(end: &AttemptEnd) -> bool {
    match end {
        AttemptEnd::Succeeded { .. } => false,
        AttemptEnd::TimedOut { .. } | AttemptEnd::Lost { .. } => true,
        AttemptEnd::Failed { failure, .. } => failure.class == FailureClass::AfterEffect,
    }
}

#[cfg(test)]
mod tests {
    use proto_events::json::JsonText;

    use super::*;

    const RULE: Breaker = Breaker { failures: 2, cooldown: Duration::from_secs(10) };

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    fn failed() -> AttemptEnd {
        AttemptEnd::TimedOut { after_ms: 1 }
    }

    fn worked() -> AttemptEnd {
        AttemptEnd::Succeeded { result: JsonText::null(), usage: None, writes: Vec::new() }
    }

    #[test]
    fn a_circuit_opens_after_failures_in_a_row_and_lets_one_call_through_after_a_while() {
        let mut breakers = Breakers::default();
        breakers.note("t", Some(RULE), &failed(), at(0));
        assert!(breakers.refuses("t", at(0)).is_none(), "one failure is none in a row");
        breakers.note("t", Some(RULE), &failed(), at(1));
        let (text, left) = breakers.refuses("t", at(5)).unwrap();
        assert_eq!(left, Duration::from_secs(6));
        assert!(text.contains("2 failures in a row"), "{text}");
        assert!(breakers.refuses("other", at(5)).is_none());
        assert!(breakers.refuses("t", at(11)).is_none(), "one is let through");
        assert!(breakers.refuses("t", at(11)).is_some(), "and only one");
        breakers.note("t", Some(RULE), &failed(), at(12));
        assert!(breakers.refuses("t", at(13)).is_some(), "it failed again");
        assert!(breakers.refuses("t", at(22)).is_none());
        breakers.note("t", Some(RULE), &worked(), at(23));
        assert!(breakers.refuses("t", at(23)).is_none(), "it is closed");
        breakers.note("t", Some(RULE), &failed(), at(24));
        assert!(breakers.refuses("t", at(24)).is_none(), "and counts from the beginning");
    }

    #[test]
    fn a_target_without_a_rule_is_never_refused() {
        let mut breakers = Breakers::default();
        for second in 0..9 {
            breakers.note("t", None, &failed(), at(second));
        }
        assert!(breakers.refuses("t", at(9)).is_none());
    }
}
