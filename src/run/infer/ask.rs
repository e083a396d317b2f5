//! Calls of the model: the intent, which names what the model is shown, and the request itself.

use proto_events::call::{Call, CallKind, CallOrigin, CallRequested, NewCall, Recovery};
use proto_events::json::{JsonObject, JsonText};
use proto_events::model::Part;

use crate::models::backend::KnownBackend;
use crate::run::deadline::TimeOver;
use crate::run::model_input::{output_schema, prompt_ref, select};
use crate::run::question::{At, Progress, Question, Step};
use crate::run::spent::{About, over_budget, shown_tokens};
use crate::run::steps::{idempotency_key, millis, start};
use crate::run::{deadline, notes};

/// Returns the next inference: the budget check first, then intent and dispatch in one append. None that would
/// wait for a permit is intended once the run has come to its deadline: it would be given up in the append of its
/// intent, behind the end of the turn that it was shown.
pub(crate) fn model(question: &mut Question<'_>, at: At, part: &Part, before: &[&Call]) -> Progress {
    let selection = match select(question, at, part) {
        Ok(selection) => selection,
        Err(error) => return Progress::Fatal(notes::fatal_context(&error)),
    };
    let tokens = shown_tokens(question, at, part, selection.as_ref());
    if let Some(end) = over_budget(question, at, About::Inference(tokens.unwrap_or_default())) {
        return end;
    }
    let step = u32::try_from(before.len()).unwrap_or(u32::MAX).saturating_add(1);
    let Some(backend) = &question.agent.backend else {
        return Progress::Next(Step::Wait);
    };
    let args = parameters(backend, part);
    let call_id = question.mint.id("call_");
    let request = CallRequested {
        prompt: Some(prompt_ref(question, at, &args, tokens, selection)),
        price: question.agent.price_of(backend).cloned(),
        deadline: question.run_until,
        origin: CallOrigin {
            run: question.task.runs(),
            part: at,
            step,
            infer_call: None,
            part_call_id: None,
            parent: None,
        },
        ..CallRequested::new(NewCall {
            idempotency_key: idempotency_key(question.stream, &call_id),
            call_id: call_id.clone(),
            kind: CallKind::Infer,
            target: backend.target(),
            args,
            recovery: Recovery::Reissue,
            recovery_source: "inference".to_owned(),
            timeout_ms: millis(question.agent.infer_policy.get_timeout()),
            max_attempts: question.agent.infer_policy.attempts_max(),
        })
    };
    let over = deadline::reached(question).filter(|_| question.agent.is_limited(&request));
    over.map_or_else(|| Progress::Next(Step::Do(start(question, request))), TimeOver::progress)
}

/// Returns what an intent records of the question besides its messages: backend, model, parameters and
/// schema.
pub(crate) fn parameters(backend: &KnownBackend, part: &Part) -> JsonText {
    let mut said = JsonObject::new();
    said.set("backend", JsonText::string(&backend.name));
    said.set("model", JsonText::string(&backend.model));
    for (name, value) in backend.parameters.iter().filter(|(name, _)| !OWN_PARAMETERS.contains(name)) {
        said.set(name, value.clone());
    }
    if let Some(schema) = output_schema(part) {
        said.set("output_schema", schema);
    }
    said.to_text()
}

/// Parameter names that the intent sets itself.
const OWN_PARAMETERS: [&str; 3] = ["backend", "model", "output_schema"];
