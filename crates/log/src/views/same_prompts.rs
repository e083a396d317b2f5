//! The prompts of two aligned inferences beside each other: they say whether a model was shown the same in two runs. The digests in the intents
//! say nothing of that, since they are over the records of each run; what is compared here is what was sent, without ids of the runs.

use proto_events::id::{Digest, StreamId};
use proto_events::model::LlmMessage;
use proto_events::task::Task;

use crate::api::reader::EventReader;
use crate::read::fold::fold_stream;
use crate::shown::{Prompt, prompt_of};
use crate::views::align::AlignedStep;
use crate::views::own_ids::OwnIds;
use crate::views::steps::RunStep;

/// The most events that are read for the prompts of two runs: each prompt is made from the whole of its run.
const EVENTS_MAX: u64 = 50_000;

/// The most inferences that are compared.
const PAIRS_MAX: u64 = 8;

/// The prompts of two inferences beside each other.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptPair {
    /// The place of the inferences among the aligned steps.
    pub step: usize,
    /// The result of the comparison, or the reason why the prompts cannot be compared.
    pub compared: Result<ComparedPrompts, String>,
}

/// The result of a comparison of two prompts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComparedPrompts {
    /// The digests of what was sent, without ids of the runs.
    pub digests: (Digest, Digest),
    /// The numbers of messages, the leading system message included.
    pub messages: (usize, usize),
    /// The number of the first message that differs, from 1; none if only the offered tools do, or nothing.
    pub first_other: Option<usize>,
}

impl ComparedPrompts {
    /// Whether the model was shown the same.
    pub fn is_equal(&self) -> bool {
        self.digests.0 == self.digests.1
    }
}

impl PromptPair {
    /// Returns the result in words.
    pub fn words(&self) -> String {
        let compared = match &self.compared {
            Ok(compared) => compared,
            Err(why) => return format!("prompts not compared: {why}"),
        };
        let short = |digest: &Digest| digest.to_string().chars().take(8).collect::<String>();
        let (one, other) = (short(&compared.digests.0), short(&compared.digests.1));
        if compared.is_equal() {
            return format!("prompts equal: {} messages, digest {one} = {other}", compared.messages.0);
        }
        let first = compared.first_other.map_or_else(
            || "in the tools that were offered".to_owned(),
            |first| format!("from message {first} on"),
        );
        let (left, right) = compared.messages;
        format!("prompts differ {first}: {left} and {right} messages, digests {one} and {other}")
    }
}

/// Compares the prompts of inferences that stand beside each other, from the first difference of two runs on; without a difference,
/// the prompts of the last inference. How many, depends on the length of the runs.
pub fn compare_prompts(
    first: (&dyn EventReader, &StreamId),
    second: (&dyn EventReader, &StreamId),
    aligned: &[AlignedStep],
) -> Vec<PromptPair> {
    let is_pair = |step: &AlignedStep| matches!(step.sides(), (Some(one), Some(_)) if one.kind == "infer");
    let differs = aligned.iter().position(|step| !matches!(step, AlignedStep::Same(..)));
    let last = aligned.iter().rposition(is_pair);
    // The answer from which two runs part may have been given a step before they do.
    let from = match differs {
        Some(at) => aligned.iter().take(at + 1).rposition(is_pair).unwrap_or(at),
        None => last.unwrap_or(aligned.len()),
    };
    let end = |(reader, stream): (&dyn EventReader, &StreamId)| {
        reader.stream_version(stream).map_or(EVENTS_MAX, |version| version.0)
    };
    let events = end(first).saturating_add(end(second)).max(1);
    let pairs = usize::try_from((EVENTS_MAX / events).clamp(1, PAIRS_MAX)).unwrap_or(1);
    let pairs = aligned.iter().enumerate().skip(from).filter(|(_, step)| is_pair(step)).take(pairs);
    let own = (own_of(first), own_of(second));
    let pair = |(step, aligned): (usize, &AlignedStep)| {
        let call = |side: Option<&RunStep>| side.and_then(|step| step.call_id.clone());
        let (one, other) = aligned.sides();
        let one = sent(first, &own.0, call(one).as_deref());
        let compared = one.and_then(|one| Ok((one, sent(second, &own.1, call(other).as_deref())?)));
        PromptPair { step, compared: compared.map(|(one, other)| compare(&one, &other)) }
    };
    pairs.map(pair).collect()
}

/// The content that was sent: the messages as texts, the system message first, and the offered tools.
struct SentPrompt {
    messages: Vec<String>,
    tools: String,
}

fn own_of((reader, stream): (&dyn EventReader, &StreamId)) -> OwnIds {
    fold_stream::<Task>(reader, stream, None)
        .map(|task| OwnIds::from_task(&task.state, stream))
        .unwrap_or_default()
}

fn sent(
    (reader, stream): (&dyn EventReader, &StreamId),
    own: &OwnIds,
    call: Option<&str>,
) -> Result<SentPrompt, String> {
    let call = call.ok_or("the step is no inference")?;
    let Prompt { system, messages, offer, .. } =
        prompt_of(reader, stream, call).map_err(|error| error.to_string())?;
    let text = |said: &LlmMessage| {
        let name = said.name.as_deref().or(said.tool_name.as_deref()).unwrap_or_default();
        own.without(format!("{}\0{name}\0{}\0{}", said.role, said.tool_calls.as_str(), said.content))
    };
    let tools = offer.tools.iter().map(|tool| format!("{tool:?}")).collect::<Vec<_>>().join("\n");
    let messages = std::iter::once(own.without(system)).chain(messages.iter().map(text)).collect();
    Ok(SentPrompt { messages, tools })
}

fn compare(one: &SentPrompt, other: &SentPrompt) -> ComparedPrompts {
    let digest = |sent: &SentPrompt| {
        let parts = sent.messages.iter().chain([&sent.tools]).map(|part| Digest::compute(part.as_bytes()));
        let parts: Vec<Digest> = parts.collect();
        Digest::of_all(parts.iter().map(|part| &part.0[..]))
    };
    let both = one.messages.iter().zip(&other.messages);
    let lengths = (one.messages.len(), other.messages.len());
    let shorter = (lengths.0 != lengths.1).then(|| lengths.0.min(lengths.1) + 1);
    let first_other = both.clone().position(|(one, other)| one != other).map(|at| at + 1).or(shorter);
    ComparedPrompts { digests: (digest(one), digest(other)), messages: lengths, first_other }
}
