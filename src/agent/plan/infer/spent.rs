//! What an infer part has used of the run's budget, and whether the next step is within it.

use proto_events::call::{Call, CallKind, CallStatus};
use proto_events::json::JsonText;
use proto_events::model::{LlmRole, Part};

use super::super::{At, Question};
use super::ask::{body, output_schema, shown, system_message};
use crate::agent::budget::{Budget, BudgetUsage};
use crate::context::tokens::MessagesEstimate;

/// What is about to be done.
#[derive(Debug, Clone, Copy)]
pub(super) enum About<'a> {
    /// The model is asked, for this part.
    Inference(&'a Part),
    /// A tool is called that the model asked for.
    ToolCall,
    /// A reply is dealt with.
    Reply,
}

/// Whether the step about to be taken is within the run's budget; the error is Protolink's text.
pub(super) fn within_budget(question: &Question<'_>, at: At, about: About<'_>) -> Result<(), String> {
    let context = question.task.metadata().get("run_context").map(JsonText::to_value);
    let Some(budget) = context.as_ref().and_then(|context| context.get("budget")) else {
        return Ok(());
    };
    let budget = Budget::from_json(budget).map_err(|error| error.to_string())?;
    let mut used = used(question, at, about);
    if let (Some(_), About::Inference(part)) = (budget.max_input_tokens, about) {
        used.input_tokens = input_tokens(question, at, part);
    }
    budget.check(&used).map_err(|exceeded| exceeded.to_string())
}

/// Counts what the part has used, what is about to be done included. Input tokens are left to whoever needs them, since
/// they cost a look at the whole history; they grow with inferences only.
fn used(question: &Question<'_>, at: At, about: About<'_>) -> BudgetUsage {
    let mut used = BudgetUsage::default();
    for call in in_part(question, at) {
        match call.request.kind {
            CallKind::Infer => {
                used.steps += 1;
                used.llm_calls += 1;
            }
            CallKind::Tool => used.tool_calls += 1,
            // What the other agent uses counts there, against the same budget.
            CallKind::Delegate => {}
        }
        if let Some(tokens) = call.usage.filter(|_| matches!(call.status, CallStatus::Succeeded(_))) {
            used.output_tokens = used.output_tokens.saturating_add(tokens.output_tokens);
        }
    }
    match about {
        About::Inference(_) => {
            used.steps += 1;
            used.llm_calls += 1;
        }
        About::ToolCall => used.tool_calls += 1,
        About::Reply => {}
    }
    used
}

/// The calls of the loop of this part.
fn in_part<'a>(question: &Question<'a>, at: At) -> impl Iterator<Item = &'a Call> {
    let runs = question.task.runs();
    question.task.calls().iter().filter(move |call| {
        let origin = &call.request.origin;
        origin.run == runs && origin.part == at && origin.step > 0
    })
}

/// The estimate of all that the part's inferences were shown, and of what the next one will be. Messages are only
/// added while a part runs, so what an earlier one was shown is the beginning of what the next one is.
fn input_tokens(question: &Question<'_>, at: At, part: &Part) -> u64 {
    let system = system_message(question.agent, question.task, question.seat, output_schema(part).as_ref());
    let mut estimate = MessagesEstimate::default();
    let mut prefixes = vec![0];
    let mut add = |role: LlmRole, content: &str, name: Option<&str>| {
        estimate.add(role.as_str(), content, name);
        prefixes.push(estimate.tokens());
    };
    add(LlmRole::System, &system, None);
    for message in question.seat.map_or(&[][..], body) {
        add(message.role, &message.content, message.name.as_deref());
    }
    for said in shown(question.task, question.seat, at) {
        add(said.message.role, &said.message.content, said.message.name.as_deref());
    }
    let whole = estimate.tokens();
    let shown_to = |call: &Call| {
        let messages = call.request.prompt.as_ref().and_then(|prompt| usize::try_from(prompt.messages).ok());
        messages.map_or(0, |messages| prefixes.get(messages).copied().unwrap_or(whole))
    };
    in_part(question, at).map(shown_to).sum::<u64>().saturating_add(whole)
}
