//! The features that runs can have, and how many runs have each.

use std::collections::BTreeMap;

use crate::fuse::PLACES;
use crate::run::{Run, SECRET};
use crate::setting::{Change, Hand};

/// Returns the features of a run, each with whether it has it.
pub(crate) fn of(run: &Run) -> BTreeMap<String, bool> {
    let has = around(run).into_iter().chain(in_tasks(run));
    let mut has: BTreeMap<String, bool> = has.map(|(name, has)| (name.to_owned(), has)).collect();
    for place in PLACES {
        let panics = run.setting.panics.is_some_and(|(lit, _)| lit == place);
        has.insert(format!("panic in {place}"), panics);
    }
    has
}

/// Returns the number of runs with each feature, for these seeds.
pub(crate) fn drawn(seeds: std::ops::Range<u64>) -> BTreeMap<String, usize> {
    let mut drawn = BTreeMap::new();
    for seed in seeds {
        for (name, has) in of(&Run::of(seed)) {
            *drawn.entry(name).or_default() += usize::from(has);
        }
    }
    drawn
}

/// Returns the features of the agent, the clock and the people.
fn around(run: &Run) -> Vec<(&'static str, bool)> {
    let setting = &run.setting;
    let change = |is: fn(&Change) -> bool| setting.changes.iter().any(is);
    let hand = |is: fn(&Hand) -> bool| setting.hands.iter().any(is);
    let acts = |is: fn(usize) -> bool| {
        !setting.hands.is_empty() && setting.acts_after.iter().any(|after| is(*after))
    };
    vec![
        ("agent: stateless", !run.conversation),
        ("agent: few places", run.places.is_some()),
        ("agent: approval handler", run.handler),
        ("agent: handler, manual", run.handled == Some("manual")),
        ("agent: handler, idempotent", run.handled == Some("idempotent")),
        ("agent: handler, read-only", run.handled == Some("read_only")),
        ("changed: prompt", change(|change| *change == Change::Prompt)),
        ("changed: model", change(|change| *change == Change::Model)),
        ("changed: tool removed", change(|change| matches!(change, Change::Removed(_)))),
        ("changed: schema narrowed", change(|change| matches!(change, Change::Narrowed(_)))),
        ("changed: recovery mode", change(|change| matches!(change, Change::Mode(_)))),
        ("clock: back in the run", setting.clock_steps.iter().any(|(_, by)| *by < 0)),
        ("clock: forth in the run", setting.clock_steps.iter().any(|(_, by)| *by > 0)),
        ("clock: back at the cut", setting.step_at_cut < 0),
        ("clock: forth at the cut", setting.step_at_cut > 0),
        ("clock: down for less than a second", setting.down_for == 700),
        ("clock: down for an hour", setting.down_for == 3_600_000),
        ("people: at once", acts(|after| after == 0)),
        ("people: while it recovers", acts(|after| (1..usize::MAX).contains(&after))),
        ("people: at rest", acts(|after| after == usize::MAX)),
        ("people: decide and settle", hand(|hand| hand.decides())),
        ("people: follow the log", setting.hands.first().is_some_and(|hand| hand.follows && hand.decides())),
        ("people: say more", hand(|hand| hand.tells)),
        ("people: post again", hand(|hand| hand.posts)),
        ("people: cancel", hand(|hand| hand.cancels)),
    ]
}

/// Returns the features of the tasks.
fn in_tasks(run: &Run) -> Vec<(&'static str, bool)> {
    let task = |is: fn(&crate::run::TaskPlan) -> bool| run.tasks.iter().any(is);
    let text = format!("{:?}", run.tasks);
    let does = |what: &str| text.contains(what);
    vec![
        ("task: cancel", task(|task| task.canceled_at.is_some())),
        ("task: more is said", task(|task| task.said_at.is_some())),
        ("task: posted twice", task(|task| task.is_repeated)),
        ("task: time limit", task(|task| task.run_limit.is_some())),
        ("task: structured answer", does("is_structured: true")),
        ("task: several calls in a reply", does("{\\\"calls\\\"")),
        ("task: delegation", does("agent_call")),
        ("call: asks agents", does("\"lead_")),
        ("call: question", does("\"asks ") || does("\"asks ")),
        ("call: two questions", does("asks_twice ")),
        ("call: secret by name", does("secret:pin")),
        ("call: secret in clear", does(SECRET)),
        ("call: circuit", does("\"frail")),
        ("call: blocking function", does("\"block\"") || does("\\\"block\\\"")),
        ("call: blocking async function", does("\"block_async")),
        ("call: tool state", does("\"keep")),
        ("call: approval", does("pay_asked") || does("put_asked")),
        ("call: panic", does("panic ")),
        ("call: hangs", does("hang 0")),
        ("call: heeds its cancel", does("heed 0")),
    ]
}
