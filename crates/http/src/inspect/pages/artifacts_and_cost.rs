//! The artifacts and the cost of two runs beside each other.

use std::collections::{BTreeMap, HashMap, HashSet};

use proto_events::call::{CallKind, Costs, TokenUsage};
use proto_events::model::Artifact;
use proto_events::task::Task;
use sha2::{Digest as _, Sha256};
use taskreel_log::jsonl::hex;

use crate::inspect::words;

/// The most rows of artifacts.
const ARTIFACTS_MAX: usize = 200;

/// An artifact or a cost of both runs.
#[derive(Debug)]
pub(crate) struct MadeView {
    pub(crate) what: String,
    pub(crate) left: String,
    pub(crate) right: String,
    pub(crate) is_same: bool,
}

/// Returns the artifacts of two runs by their names and places, then what their models have used and cost.
pub(crate) fn made(left: &Task, right: &Task) -> Vec<MadeView> {
    let (one, other) = (artifacts(left), artifacts(right));
    let mut names: Vec<&(String, usize)> = one.iter().chain(&other).map(|(name, _)| name).collect();
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(*name));
    let of = |all: &[((String, usize), String)], name: &(String, usize)| {
        all.iter().find(|(known, _)| known == name).map_or_else(|| "–".to_owned(), |(_, told)| told.clone())
    };
    let left_out = names.len().saturating_sub(ARTIFACTS_MAX);
    let mut rows: Vec<MadeView> = names
        .into_iter()
        .take(ARTIFACTS_MAX)
        .map(|name| {
            MadeView::new(format!("artifact {} {}", name.0, name.1), of(&one, name), of(&other, name))
        })
        .collect();
    if left_out > 0 {
        let what = format!("{} not shown", words::of(left_out as u64, "artifact", "artifacts"));
        rows.push(MadeView::new(what, String::new(), String::new()));
    }
    let (one, other) = (used(left), used(right));
    let names: Vec<&String> =
        one.keys().chain(other.keys().filter(|name| !one.contains_key(*name))).collect();
    for name in names {
        let told = |all: &BTreeMap<String, (TokenUsage, u64, Costs)>| {
            all.get(name).map_or_else(
                || "–".to_owned(),
                |(usage, calls, costs)| {
                    let (tokens, costs) = (words::tokens(*usage), words::costs(costs));
                    let calls = words::of(*calls, "call", "calls");
                    [calls, tokens, costs]
                        .into_iter()
                        .filter(|text| !text.is_empty())
                        .collect::<Vec<_>>()
                        .join(" · ")
                },
            )
        };
        rows.push(MadeView::new(
            format!("model {name}: calls, tokens in + out, cost"),
            told(&one),
            told(&other),
        ));
    }
    rows
}

impl MadeView {
    fn new(what: String, left: String, right: String) -> Self {
        Self { is_same: left == right, what, left, right }
    }
}

/// Returns the artifacts of a run by name and number, each with its size and the digest of its content.
fn artifacts(task: &Task) -> Vec<((String, usize), String)> {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let told = |artifact: &Artifact| {
        let name = artifact.name.clone().unwrap_or_else(|| artifact.kind.clone());
        let number = numbers.entry(name.clone()).or_default();
        *number += 1;
        let mut hash = Sha256::new();
        let mut bytes = 0_usize;
        for part in &artifact.parts {
            for text in [part.kind(), part.content().as_str()] {
                hash.update((text.len() as u64).to_le_bytes());
                hash.update(text);
            }
            bytes = bytes.saturating_add(part.content().as_str().len());
        }
        let digest = hex(hash.finalize().get(..8).unwrap_or_default());
        let parts = words::of(artifact.parts.len() as u64, "part", "parts");
        ((name, *number), format!("{parts}, {}, digest {digest}", words::bytes(bytes)))
    };
    task.artifacts().iter().map(told).collect()
}

/// Returns what each model of a run has used and cost.
fn used(task: &Task) -> BTreeMap<String, (TokenUsage, u64, Costs)> {
    let mut used: BTreeMap<String, (TokenUsage, u64, Costs)> = BTreeMap::new();
    for call in task.calls().iter().filter(|call| call.request.kind == CallKind::Infer) {
        let none = (TokenUsage { input_tokens: 0, output_tokens: 0 }, 0, Costs::default());
        let (usage, calls, costs) = used.entry(call.request.target.clone()).or_insert(none);
        *calls += 1;
        costs.add(call.request.price.as_ref(), call.usage);
        if let Some(more) = call.usage {
            usage.input_tokens = usage.input_tokens.saturating_add(more.input_tokens);
            usage.output_tokens = usage.output_tokens.saturating_add(more.output_tokens);
        }
    }
    used
}
