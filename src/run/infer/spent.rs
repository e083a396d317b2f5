//! Usage of the run's budget by an infer part, and the check of the next step against it.

use proto_events::call::Call;
use proto_events::model::{BudgetUsage, Part};

use crate::run::model_input::{output_schema, shown};
use crate::run::question::{At, Progress, Question};

/// The step about to be taken.
#[derive(Debug, Clone, Copy)]
pub(crate) enum About<'a> {
    /// An inference for this part.
    Inference(&'a Part),
    /// As many tool calls that the model asked for.
    ToolCalls(u64),
    /// The handling of a reply.
    Reply,
}

/// Returns the end of the run if the step about to be taken would exceed its budget or the budget cannot be
/// read.
pub(crate) fn over_budget(question: &Question<'_>, at: At, about: About<'_>) -> Option<Progress> {
    let budget = match question.task.run_budget()? {
        Ok(budget) => budget,
        Err(error) => return Some(Progress::Fatal(format!("budget: {error}"))),
    };
    let mut used = used(question, at, about);
    if let (Some(_), About::Inference(part)) = (budget.max_input_tokens, about) {
        used.input_tokens = input_tokens(question, at, part);
    }
    budget.check(&used).err().map(Progress::OverBudget)
}

/// Returns the usage of the part including the step about to be taken. Input tokens are not computed here,
/// since that reads the whole history and only inferences change them.
fn used(question: &Question<'_>, at: At, about: About<'_>) -> BudgetUsage {
    let mut used = question.task.usage_of_part(at);
    match about {
        About::Inference(_) => {
            used.steps += 1;
            used.llm_calls += 1;
        }
        About::ToolCalls(asked) => used.tool_calls += asked,
        About::Reply => {}
    }
    used
}

/// Estimates the tokens of all messages shown to the part's earlier inferences and to the next one. While a
/// part is carried out messages are only added, so the messages of an earlier inference are a prefix of those
/// of the next.
fn input_tokens(question: &Question<'_>, at: At, part: &Part) -> u64 {
    let schema = output_schema(part);
    let shown = shown(question.agent, question.task, question.turn_view, at, schema.as_ref());
    let prefixes = shown.tokens_of_prefixes();
    let whole = prefixes.last().copied().unwrap_or_default();
    let shown_to = |call: &Call| {
        let messages = call.request.prompt.as_ref().and_then(|prompt| usize::try_from(prompt.messages).ok());
        messages.map_or(0, |messages| prefixes.get(messages).copied().unwrap_or(whole))
    };
    question.task.calls_of_part(at).map(shown_to).sum::<u64>().saturating_add(whole)
}
