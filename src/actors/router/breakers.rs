//! Circuit breakers: after a number of failures in a row, a target gets no calls for a cooldown, then one
//! trial call. A call refused by an open circuit failed before any effect, and the log says so; the circuit
//! itself is not kept over a restart.

use std::collections::HashMap;
use std::time::Duration;

use proto_events::call::FailureClass;
use proto_events::envelope::Timestamp;

use crate::actors::router::watch::Key;
use crate::actors::shared::messages::AttemptEnd;
use crate::tools::breaker::Breaker;

/// All circuits of an agent, by target. A closed circuit without failures has no entry.
#[derive(Debug, Default)]
pub(crate) struct Breakers(HashMap<String, Circuit>);

#[derive(Debug)]
struct Circuit {
    rule: Breaker,
    failures: u32,
    /// The end of the cooldown: nothing is sent before it.
    open_until: Option<Timestamp>,
    /// The attempt that is tried and has not answered yet.
    trial: Option<Attempt>,
}

/// An attempt of a call.
pub(crate) type Attempt = (Key, u32);

impl Breakers {
    /// Returns the reason why an attempt is refused now, and for how long; `None` if it may be sent.
    pub(crate) fn refuses(
        &mut self,
        target: &str,
        attempt: &Attempt,
        now: Timestamp,
    ) -> Option<(String, Duration)> {
        let circuit = self.0.get_mut(target)?;
        // A clock that was set back since does not keep it open for longer than its cooldown.
        let until = circuit.open_until?.min(now.plus(circuit.rule.cooldown));
        circuit.open_until = Some(until);
        let left = if circuit.trial.is_some() { circuit.rule.cooldown } else { until.since(now) };
        if left.is_zero() {
            circuit.trial = Some(attempt.clone());
            return None;
        }
        let text = format!(
            "the circuit of {target} is open after {} failures in a row; it is tried again in {} ms",
            circuit.failures,
            left.as_millis()
        );
        Some((text, left))
    }

    /// Abandons an attempt that ended without a verdict on its target: it was canceled, or its time was up
    /// before. If it was the trial, another one may be sent.
    pub(crate) fn abandon_trial(&mut self, target: &str, attempt: &Attempt) {
        if let Some(circuit) = self.0.get_mut(target) {
            circuit.trial.take_if(|trial| trial == attempt);
        }
    }

    /// Notes the end of an attempt of a target with this rule.
    pub(crate) fn record_end(
        &mut self,
        target: &str,
        rule: Option<Breaker>,
        end: &AttemptEnd,
        now: Timestamp,
    ) {
        let Some(rule) = rule else { return };
        if !is_failure(end) {
            if never_reached(end) {
                // It says nothing of the target: another trial may be sent.
                if let Some(circuit) = self.0.get_mut(target) {
                    circuit.trial = None;
                }
            } else {
                self.0.remove(target);
            }
            return;
        }
        let closed = || Circuit { rule, failures: 0, open_until: None, trial: None };
        let circuit = self.0.entry(target.to_owned()).or_insert_with(closed);
        circuit.failures = circuit.failures.saturating_add(1);
        circuit.trial = None;
        if circuit.failures >= rule.failures {
            circuit.open_until = Some(now.plus(rule.cooldown));
        }
    }
}

/// Whether the target itself failed. Arguments that it refused, and attempts that never reached it, do not
/// count.
fn is_failure(end: &AttemptEnd) -> bool {
    match end {
        AttemptEnd::Succeeded { .. } | AttemptEnd::Asked { .. } => false,
        AttemptEnd::TimedOut { .. } | AttemptEnd::Lost { .. } => true,
        AttemptEnd::Failed { failure, .. } => failure.class == FailureClass::AfterEffect,
    }
}

/// Whether an attempt never reached its target.
fn never_reached(end: &AttemptEnd) -> bool {
    matches!(end, AttemptEnd::Failed { failure, .. } if failure.class == FailureClass::BeforeEffect)
}

#[cfg(test)]
mod tests {
    use proto_events::call::TimeLimit;
    use proto_events::id::StreamId;
    use proto_events::json::JsonText;

    use super::*;
    use crate::actors::router::attempt_context::failed as unreached;

    const RULE: Breaker = Breaker { failures: 2, cooldown: Duration::from_secs(10) };

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    fn attempt(number: u32) -> Attempt {
        ((StreamId::task("agent", "t").unwrap(), "call".to_owned()), number)
    }

    fn failed() -> AttemptEnd {
        AttemptEnd::TimedOut { after_ms: 1, limit: TimeLimit::Attempt }
    }

    fn worked() -> AttemptEnd {
        AttemptEnd::succeeded(JsonText::null())
    }

    #[test]
    fn a_circuit_opens_after_failures_in_a_row_and_lets_one_call_through_after_a_while() {
        let mut breakers = Breakers::default();
        breakers.record_end("t", Some(RULE), &failed(), at(0));
        assert!(breakers.refuses("t", &attempt(1), at(0)).is_none(), "one failure is none in a row");
        breakers.record_end("t", Some(RULE), &failed(), at(1));
        let (text, left) = breakers.refuses("t", &attempt(1), at(5)).unwrap();
        assert_eq!(left, Duration::from_secs(6));
        assert!(text.contains("2 failures in a row"), "{text}");
        assert!(breakers.refuses("other", &attempt(1), at(5)).is_none());
        assert!(breakers.refuses("t", &attempt(1), at(11)).is_none(), "one is let through");
        assert!(breakers.refuses("t", &attempt(1), at(11)).is_some(), "and only one");
        breakers.record_end("t", Some(RULE), &failed(), at(12));
        assert!(breakers.refuses("t", &attempt(1), at(13)).is_some(), "it failed again");
        assert!(breakers.refuses("t", &attempt(1), at(22)).is_none());
        breakers.record_end("t", Some(RULE), &failed(), at(7_200));
        assert!(breakers.refuses("t", &attempt(1), at(3_600)).is_some(), "the clock was set back by an hour");
        assert!(breakers.refuses("t", &attempt(1), at(3_610)).is_none(), "and the cooldown is what it was");
        breakers.record_end("t", Some(RULE), &worked(), at(23));
        assert!(breakers.refuses("t", &attempt(1), at(23)).is_none(), "it is closed");
        breakers.record_end("t", Some(RULE), &failed(), at(24));
        assert!(breakers.refuses("t", &attempt(1), at(24)).is_none(), "and counts from the beginning");
    }

    #[test]
    fn a_trial_that_ends_without_a_verdict_lets_the_next_call_try() {
        let mut breakers = Breakers::default();
        breakers.record_end("t", Some(RULE), &failed(), at(0));
        breakers.record_end("t", Some(RULE), &failed(), at(0));
        assert!(breakers.refuses("t", &attempt(3), at(10)).is_none());
        breakers.abandon_trial("t", &attempt(2));
        assert!(breakers.refuses("t", &attempt(4), at(10)).is_some(), "the trial goes on");
        breakers.abandon_trial("t", &attempt(3));
        assert!(breakers.refuses("t", &attempt(4), at(10)).is_none(), "it was canceled");
    }

    #[test]
    fn an_attempt_that_never_reached_its_target_closes_no_circuit() {
        let mut breakers = Breakers::default();
        let unsent = unreached(FailureClass::BeforeEffect, "NotSent", "no connection");
        breakers.record_end("t", Some(RULE), &failed(), at(0));
        breakers.record_end("t", Some(RULE), &unsent, at(0));
        breakers.record_end("t", Some(RULE), &failed(), at(0));
        assert!(breakers.refuses("t", &attempt(1), at(1)).is_some(), "two failures in a row");
        assert!(breakers.refuses("t", &attempt(1), at(10)).is_none());
        breakers.record_end("t", Some(RULE), &unsent, at(11));
        assert!(breakers.refuses("t", &attempt(2), at(11)).is_none(), "another trial");
        assert!(breakers.refuses("t", &attempt(3), at(11)).is_some(), "and only one");
    }

    #[test]
    fn a_target_without_a_rule_is_never_refused() {
        let mut breakers = Breakers::default();
        for second in 0..9 {
            breakers.record_end("t", None, &failed(), at(second));
        }
        assert!(breakers.refuses("t", &attempt(1), at(9)).is_none());
    }
}
