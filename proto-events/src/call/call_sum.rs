//! A sum over the calls of a stream, of which those that are over are counted once.

use crate::call::book::CallBook;
use crate::call::fold::Call;
use crate::call::sum::{PrefixSum, SumOf};
use crate::model::run_budget::BudgetUsage;

impl CallBook {
    /// Returns the sum of what `add` adds for each of these calls. Of a long list, calls that are over are asked about once,
    /// so that a sum at each step costs the same at any length: `add` must follow from the call and from `of` alone.
    pub fn sum(&self, of: SumOf, mut add: impl FnMut(&mut BudgetUsage, &Call)) -> BudgetUsage {
        let Some(index) = self.index.as_deref() else {
            let mut used = BudgetUsage::default();
            let is_of = |call: &&Call| match of {
                SumOf::Stream => true,
                SumOf::Part { run, part } => call.is_of_part(run, part),
            };
            self.calls.iter().filter(is_of).for_each(|call| add(&mut used, call));
            return used;
        };
        let places = match of {
            SumOf::Stream => None,
            SumOf::Part { run, part } => Some(index.of_part(run, part)),
        };
        let call_at = |number: usize| match places {
            None => self.calls.get(number),
            Some(places) => self.calls.get(*places.get(number)?),
        };
        let mut kept = index.sum().lock(of);
        let PrefixSum { calls, open, used: sum, .. } = &mut *kept;
        let is_over = |number: usize| call_at(number).filter(|call| !call.status.is_open());
        // Those that were open may be over by now.
        open.retain(|number| is_over(*number).map(|call| add(sum, call)).is_none());
        while let Some(call) = call_at(*calls) {
            if call.status.is_open() {
                open.push(*calls);
            } else {
                add(sum, call);
            }
            *calls += 1;
        }
        let mut used = *sum;
        open.iter().copied().filter_map(call_at).for_each(|call| add(&mut used, call));
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{
        CallCommand, CallEvent, CallFailure, CallKind, CallRequested, CancelStage, FailureClass, NewCall,
        Recovery, TokenUsage,
    };
    use crate::envelope::Timestamp;
    use crate::json::JsonText;

    fn intent(number: usize, kind: CallKind, part: u32) -> CallEvent {
        let mut request = CallRequested::new(NewCall {
            call_id: format!("call_{number}"),
            kind,
            target: "t".to_owned(),
            args: JsonText::null(),
            idempotency_key: "key".to_owned(),
            recovery: Recovery::Manual,
            recovery_source: "tool".to_owned(),
            timeout_ms: 1,
            max_attempts: 1,
        });
        (request.origin.run, request.origin.part) = (1, part);
        CallEvent::Requested(Box::new(request))
    }

    fn succeeded(number: usize, tokens: u64) -> CallEvent {
        let usage = Some(TokenUsage { input_tokens: tokens, output_tokens: 1 });
        CallEvent::Succeeded {
            call_id: format!("call_{number}"),
            attempt: 1,
            result: JsonText::null(),
            usage,
        }
    }

    fn sent(number: usize) -> CallEvent {
        CallEvent::Dispatched {
            call_id: format!("call_{number}"),
            attempt: 1,
            epoch: 1,
            cause: String::new(),
        }
    }

    fn take(book: &mut CallBook, events: impl IntoIterator<Item = CallEvent>) {
        events.into_iter().for_each(|event| book.evolve(&event, Timestamp(1)));
    }

    fn add(used: &mut BudgetUsage, call: &Call) {
        used.tool_calls += 1;
        used.input_tokens += call.usage.map_or(0, |usage| usage.input_tokens);
    }

    /// The sum as it is counted from all calls.
    fn whole(book: &CallBook, of: SumOf) -> BudgetUsage {
        let mut used = BudgetUsage::default();
        let is_of = |call: &&Call| {
            of == SumOf::Stream || of == (SumOf::Part { run: 1, part: call.request.origin.part })
        };
        book.iter().filter(is_of).for_each(|call| add(&mut used, call));
        used
    }

    #[test]
    fn a_kept_sum_is_the_sum_over_all_calls_after_each_event() {
        let (mut book, mut open) = (CallBook::default(), Vec::new());
        for number in 0..400 {
            take(
                &mut book,
                [intent(number, CallKind::Tool, u32::try_from(number % 3).unwrap()), sent(number)],
            );
            open.push(number);
            // Some calls end at once, some long after, some in another order.
            if number % 5 > 0 {
                let ends = open.swap_remove((number * 7) % open.len());
                let end = match number % 7 {
                    0 => {
                        CallEvent::Canceled { call_id: format!("call_{ends}"), stage: CancelStage::InFlight }
                    }
                    _ => succeeded(ends, number as u64),
                };
                take(&mut book, [end]);
            }
            let copy = book.clone();
            for of in [SumOf::Stream, SumOf::Part { run: 1, part: 1 }, SumOf::Part { run: 2, part: 1 }] {
                // The same part more than once, as at each step of a run.
                for book in [&book, &copy, &book] {
                    assert_eq!(book.sum(of, add), whole(book, of), "{number} {of:?}");
                }
            }
            assert_eq!(copy, book);
        }
    }

    #[test]
    fn a_kept_sum_has_the_tokens_of_an_answer_that_came_after_its_call_was_over() {
        let mut book = CallBook::default();
        for number in 0..100 {
            let kind = if number == 3 { CallKind::Delegate } else { CallKind::Tool };
            take(&mut book, [intent(number, kind, 1), sent(number)]);
            let canceled =
                CallEvent::Canceled { call_id: format!("call_{number}"), stage: CancelStage::InFlight };
            take(&mut book, [if number == 3 { canceled } else { succeeded(number, 1) }]);
        }
        for of in [SumOf::Stream, SumOf::Part { run: 1, part: 1 }] {
            assert_eq!(book.sum(of, add).input_tokens, 99);
        }
        let said = r#"{"state":"canceled","result":null,"used":{"input_tokens":70,"output_tokens":9}}"#;
        let late = CallEvent::LateResultIgnored {
            call_id: "call_3".to_owned(),
            attempt: 1,
            succeeded: true,
            said: said.to_owned(),
        };
        take(&mut book, [late]);
        for of in [SumOf::Part { run: 1, part: 1 }, SumOf::Stream] {
            assert_eq!(book.sum(of, add).input_tokens, 99 + 70, "{of:?}");
        }
    }

    #[test]
    fn a_step_counts_as_few_calls_at_5_000_as_at_50() {
        let counted = |calls: usize, of: SumOf| {
            let mut book = CallBook::default();
            let mut most = 0;
            for number in 0..calls {
                take(&mut book, [intent(number, CallKind::Tool, 1), sent(number)]);
                let mut count = 0;
                book.sum(of, |used, call| {
                    count += 1;
                    add(used, call);
                });
                take(&mut book, [succeeded(number, 1)]);
                if number > 40 {
                    most = most.max(count);
                }
            }
            most
        };
        for of in [SumOf::Stream, SumOf::Part { run: 1, part: 1 }] {
            assert_eq!(
                (counted(50, of), counted(5_000, of)),
                (2, 2),
                "{of:?}: the last one and the open one"
            );
        }
    }

    #[test]
    fn a_call_that_stays_open_does_not_have_those_behind_it_counted_at_each_step() {
        let (mut book, mut count) = (CallBook::default(), 0);
        for number in 0..2_000 {
            take(&mut book, [intent(number, CallKind::Tool, 1), sent(number)]);
            let mut at_once = 0;
            let used = book.sum(SumOf::Stream, |used, call| {
                at_once += 1;
                add(used, call);
            });
            assert_eq!(used.tool_calls, number as u64 + 1);
            count = at_once;
            if number > 0 {
                take(&mut book, [succeeded(number, 1)]);
            }
        }
        assert_eq!(count, 3, "the one that is open from the start, the last one, and the new one");
    }

    #[test]
    fn the_tokens_of_an_answer_that_came_too_late_are_those_of_the_request_once() {
        let late = |call: usize, said: &str| CallEvent::LateResultIgnored {
            call_id: format!("call_{call}"),
            attempt: 1,
            succeeded: true,
            said: said.to_owned(),
        };
        let mut book = CallBook::default();
        let used = r#"{"state":"canceled","result":null,"used":{"input_tokens":70,"output_tokens":9}}"#;
        for (number, kind) in [CallKind::Delegate, CallKind::Tool, CallKind::Delegate].into_iter().enumerate()
        {
            take(&mut book, [intent(number, kind, 1), sent(number)]);
            let said = if number < 2 { used } else { "{\"used\":" };
            take(&mut book, [late(number, said), late(number, said)]);
        }
        let usage: Vec<_> = book.iter().map(|call| call.usage.map(|usage| usage.input_tokens)).collect();
        assert_eq!(usage, [Some(70), None, None], "a tool's text is no answer, and a cut one says nothing");
    }

    #[test]
    fn the_tokens_of_one_task_of_another_agent_count_once_whichever_attempts_name_them() {
        let failure = |tokens| CallFailure {
            class: FailureClass::AfterEffect,
            error_type: "PeerError".to_owned(),
            message: "failed".to_owned(),
            usage: Some(TokenUsage { input_tokens: tokens, output_tokens: 1 }),
        };
        let late = |tokens: u64| CallEvent::LateResultIgnored {
            call_id: "call_0".to_owned(),
            attempt: 1,
            succeeded: true,
            said: format!(
                r#"{{"state":"failed","result":null,"used":{{"input_tokens":{tokens},"output_tokens":1}}}}"#
            ),
        };
        let call_id = || "call_0".to_owned();
        let retried = |tokens| CallEvent::RetryScheduled {
            call_id: call_id(),
            attempt: 1,
            failure: failure(tokens),
            due: Timestamp(2),
        };
        let failed = |tokens| CallEvent::Failed { call_id: call_id(), attempt: 2, failure: failure(tokens) };
        for events in [
            vec![retried(30), sent(0), failed(70)],
            vec![retried(70), sent(0), failed(70)],
            vec![retried(30), sent(0), failed(40), late(70)],
            vec![late(70), late(30)],
        ] {
            let mut book = CallBook::default();
            take(&mut book, [intent(0, CallKind::Delegate, 1), sent(0)]);
            take(&mut book, events);
            let usage = book.iter().next().and_then(|call| call.usage);
            assert_eq!(usage, Some(TokenUsage { input_tokens: 70, output_tokens: 1 }));
        }
    }

    #[test]
    fn an_answer_that_came_too_late_names_its_tokens_however_long_its_result_is() {
        let mut book = CallBook::default();
        take(&mut book, [intent(0, CallKind::Delegate, 1), sent(0)]);
        let canceled = CallEvent::Canceled { call_id: "call_0".to_owned(), stage: CancelStage::InFlight };
        take(&mut book, [canceled]);
        let used = r#"{"input_tokens":70,"output_tokens":9}"#;
        let text = format!(r#"{{"state":"completed","result":"{}","used":{used}}}"#, "x".repeat(1 << 20));
        let result = JsonText::parse(&text).unwrap();
        let command = CallCommand::Succeed { call_id: "call_0".to_owned(), attempt: 1, result, usage: None };
        let events = book.decide(command, true).unwrap();
        assert!(
            matches!(&events[..], [CallEvent::LateResultIgnored { said, .. }] if said.len() < 200),
            "{events:?}"
        );
        take(&mut book, events);
        let usage = book.iter().next().and_then(|call| call.usage);
        assert_eq!(usage, Some(TokenUsage { input_tokens: 70, output_tokens: 9 }));
    }
}
