//! Usage of a budget, and the check of the next step against it.
//!
//! A budget belongs to the task: all its runs, parts and calls draw from it, and what a child of it used counts when the
//! child answers. Under [`BudgetScope::Part`] usage begins anew with each infer part, as in Protolink.

use proto_events::call::{Call, CallKind, CallStatus, Selection, SumOf, TokenUsage};
use proto_events::json::{JsonObject, JsonText, JsonValue as Value};
use proto_events::model::{BudgetScope, BudgetUsage, Part, RunBudget};
use proto_events::task::Task;
use taskreel_log::context::estimate_tokens;

use crate::agent::peer::PeerAnswer;
use crate::models::backend::InferReply;
use crate::run::model_input::{output_schema, shown};
use crate::run::question::{At, Progress, Question};

/// The step about to be taken.
#[derive(Debug, Clone, Copy)]
pub(crate) enum About {
    /// An inference to which as many tokens are shown, as far as the budget limits them.
    Inference(u64),
    /// As many tool calls.
    ToolCalls(u64),
    /// The handling of a reply.
    Reply,
}

/// Returns the end of the run if the step about to be taken would exceed its budget or the budget cannot be
/// read.
pub(crate) fn over_budget(question: &Question<'_>, at: At, about: About) -> Option<Progress> {
    let budget = match question.task.run_budget()? {
        Ok(budget) => budget,
        Err(error) => return Some(Progress::Fatal(format!("budget: {error}"))),
    };
    if !limits(budget) && budget.max_runtime_seconds.is_none() {
        return None;
    }
    let mut used = usage(question.agent.budget_scope, question.task, at);
    match about {
        About::Inference(tokens) => {
            used.steps = used.steps.saturating_add(1);
            used.llm_calls = used.llm_calls.saturating_add(1);
            used.input_tokens = used.input_tokens.saturating_add(tokens);
        }
        About::ToolCalls(asked) => used.tool_calls = used.tool_calls.saturating_add(asked),
        About::Reply => {}
    }
    budget.check(&used).err().map(Progress::OverBudget)
}

/// Returns the budget that the task has left, for a child of it; all of it where each part has a budget of its own. What an
/// open child was given counts as taken until it answers: children that are asked at once never have more together than the
/// task has left. Time is different: it passes for all of them alike.
pub(crate) fn remaining_budget(question: &Question<'_>, at: At, budget: &RunBudget) -> RunBudget {
    match question.agent.budget_scope {
        BudgetScope::Part => budget.clone(),
        BudgetScope::Task => {
            let mut used = BudgetUsage::default();
            if limits(budget) {
                used = usage(BudgetScope::Task, question.task, at);
                question.task.calls().open().for_each(|call| reserve(&mut used, call));
            }
            let this_run =
                question.task.run().map_or_else(Default::default, |run| question.steady.since(run.began));
            used.runtime_seconds = (question.task.worked() + this_run).as_secs_f64();
            budget.remaining(&used)
        }
    }
}

/// Whether the budget limits anything but time.
fn limits(budget: &RunBudget) -> bool {
    let counts = [
        budget.max_steps,
        budget.max_llm_calls,
        budget.max_tool_calls,
        budget.max_input_tokens,
        budget.max_output_tokens,
    ];
    counts.iter().any(Option::is_some)
}

/// Adds what an open child may still use.
fn reserve(used: &mut BudgetUsage, call: &Call) {
    let Some(given) = delegated_budget(call) else { return };
    let most = |limit: Option<i64>| limit.and_then(|most| u64::try_from(most).ok()).unwrap_or_default();
    used.add(&BudgetUsage {
        steps: most(given.max_steps),
        llm_calls: most(given.max_llm_calls),
        tool_calls: most(given.max_tool_calls),
        input_tokens: most(given.max_input_tokens),
        output_tokens: most(given.max_output_tokens),
        ..BudgetUsage::default()
    });
}

/// Returns the budget that the intent of a request to another agent gives it.
fn delegated_budget(call: &Call) -> Option<RunBudget> {
    let request = &call.request;
    if request.kind != CallKind::Delegate {
        return None;
    }
    let field = |of: &JsonText, name: &str| of.read::<JsonObject>().ok()?.get(name).cloned();
    let context = ["task", "metadata", "run_context", "budget"];
    let budget = context.iter().try_fold(request.args.clone(), |of, name| field(&of, name))?;
    RunBudget::from_json(&budget).ok()
}

/// Returns what the task, or this part of its current run, has used. Time is zero: the caller measures it.
pub(crate) fn usage(scope: BudgetScope, task: &Task, part: At) -> BudgetUsage {
    let of = match scope {
        BudgetScope::Task => SumOf::Stream,
        BudgetScope::Part => SumOf::Part { run: task.runs(), part },
    };
    task.calls().sum(of, |used, call| {
        // A call of step 0 is the part itself, which Protolink does not count.
        if scope == BudgetScope::Task || call.request.origin.step > 0 {
            add(used, call, scope);
        }
    })
}

fn add(used: &mut BudgetUsage, call: &Call, scope: BudgetScope) {
    match call.request.kind {
        CallKind::Infer => {
            // What another agent says it has used may be any number.
            used.steps = used.steps.saturating_add(1);
            used.llm_calls = used.llm_calls.saturating_add(1);
            used.input_tokens = used.input_tokens.saturating_add(input_tokens(call, scope));
            used.output_tokens = used.output_tokens.saturating_add(output_tokens(call));
        }
        CallKind::Tool => used.tool_calls = used.tool_calls.saturating_add(1),
        CallKind::Delegate if scope == BudgetScope::Task => used.add(&child_usage(call)),
        // A handler is the run itself, whose time counts. Protolink counts nothing of other agents.
        CallKind::Handler | CallKind::Delegate => {}
    }
}

/// Returns what another agent's task used, as far as it is known: all of it from its answer, the tokens of one that failed or
/// answered too late. Time passes for all children alike; the deadline of the run holds for it.
fn child_usage(call: &Call) -> BudgetUsage {
    match (&call.status, call.usage) {
        (CallStatus::Succeeded(answer), _) => {
            BudgetUsage { runtime_seconds: 0.0, ..call.child_usage(|| PeerAnswer::used_in(answer)) }
        }
        (_, Some(TokenUsage { input_tokens, output_tokens })) => {
            BudgetUsage { input_tokens, output_tokens, ..BudgetUsage::default() }
        }
        (_, None) => BudgetUsage::default(),
    }
}

/// Returns the tokens that were sent: those that the provider counted, else the estimate in the intent. Protolink
/// always estimates.
fn input_tokens(call: &Call, scope: BudgetScope) -> u64 {
    let counted = call.usage.filter(|_| scope == BudgetScope::Task).map(|usage| usage.input_tokens);
    let estimated = call.request.prompt.as_ref().and_then(|prompt| prompt.tokens);
    counted.filter(|counted| *counted > 0).or(estimated).unwrap_or_default()
}

/// Returns the tokens that came back: those that the provider counted, else an estimate of the reply.
fn output_tokens(call: &Call) -> u64 {
    match (call.usage, &call.status) {
        (Some(usage), _) => usage.output_tokens,
        (None, CallStatus::Succeeded(reply)) => call.reply_tokens(|| estimated_reply(reply)),
        (None, _) => 0,
    }
}

fn estimated_reply(reply: &JsonText) -> u64 {
    let Ok(reply) = InferReply::from_json(reply) else { return 0 };
    let calls = reply.calls.iter().map(|ask| estimate_tokens(&Value::String(ask.args.as_str().to_owned())));
    estimate_tokens(&Value::String(reply.content)).saturating_add(calls.sum())
}

/// Estimates the tokens of the messages that the next inference shows, if the budget limits them: the estimate reads the
/// whole history.
pub(crate) fn shown_tokens(
    question: &Question<'_>,
    at: At,
    part: &Part,
    selection: Option<&Selection>,
) -> Option<u64> {
    question.task.run_budget()?.ok()?.max_input_tokens?;
    let schema = output_schema(part);
    let revision = question.agent.tools.revision();
    Some(shown(revision, question.task, question.turn_view, at, schema.as_ref()).tokens(selection))
}
