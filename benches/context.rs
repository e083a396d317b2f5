//! The cost of a context strategy before an inference over 10,000 messages of 400 characters: the first one, which counts
//! all messages, and the next ones, which count none again. Beside them, in the same run and on a history of the same texts,
//! `FitContextWindow` of agentix 0.5.0 (`context_peer.py`). And the compaction of half as many messages, beside one count of them.
#![allow(clippy::print_stdout, reason = "rows go to stdout")]

mod support;

use std::alloc::System;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use proto_events::json::JsonText;
use proto_events::model::{CompactionStrategy, HistoryCompactionRequest, LlmMessage, LlmRole};
use serde::Deserialize;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use taskreel_log::context::{
    Chain, ContextStrategy, ConversationFacts, FitContextWindow, HistoryCompactor, MessagesEstimate, Rules,
    TrimRounds, TruncateToolOutputs, select,
};
use taskreel_log::ports::Ports;

use crate::support::{Asked, Failure, Report, Row, Target, median, setting, wanted};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const HELP: &str = "\
cargo bench --bench context: a context strategy over a history of 10,000 messages

  ours     each strategy: the first inference of a process, and the next ones
  peer     agentix 0.5.0, installed from the package index on its first run; left out of a quick one

  TASKREEL_BENCH_MESSAGES (10000)   messages of the history
  TASKREEL_BENCH_RUNS (50)          runs of each; figures are medians
  TASKREEL_BENCH_ENGINES            name some only: ours,peer";

const CHARACTERS: usize = 400;
const MAX_TOKENS: i64 = 128_000;

/// Returns a history of questions, calls, answers and last words, each of as many characters. Each answer names its call.
fn history(messages: usize) -> Result<Vec<LlmMessage>, Failure> {
    let roles = [LlmRole::User, LlmRole::Assistant, LlmRole::Tool, LlmRole::Assistant];
    let mut ports = Ports::default();
    let text = "x".repeat(CHARACTERS);
    let mut history = Vec::with_capacity(messages);
    for (at, role) in roles.into_iter().cycle().take(messages).enumerate() {
        let mut message = LlmMessage::new(role, text.clone(), &mut ports);
        let call = format!("call_{}", at / roles.len());
        match at % roles.len() {
            1 => {
                let asks = format!(r#"[{{"id":"{call}","function":{{"name":"t","arguments":"{{}}"}}}}]"#);
                message.tool_calls = JsonText::parse(&asks)?;
            }
            2 => message.metadata.set("tool_call_id", JsonText::string(&call)),
            _ => {}
        }
        history.push(message);
    }
    Ok(history)
}

/// The figures of one strategy.
struct Measured {
    first_ms: f64,
    next_ms: f64,
    kept: usize,
    next_bytes: usize,
}

fn measure(strategy: &dyn ContextStrategy, history: &[LlmMessage], runs: usize) -> Result<Measured, Failure> {
    let (mut first, mut next, mut kept, mut next_bytes) = (Vec::new(), Vec::new(), history.len(), 0);
    for _ in 0..runs {
        let mut facts = ConversationFacts::new();
        let begin = Instant::now();
        select(strategy, &history, &mut facts)?;
        first.push(begin.elapsed().as_secs_f64() * 1_000.0);
        facts.settle(history.len());
        let region = Region::new(ALLOCATOR);
        let begin = Instant::now();
        let selection = select(strategy, &history, &mut facts)?;
        next.push(begin.elapsed().as_secs_f64() * 1_000.0);
        next_bytes = region.change().bytes_allocated;
        if let Some(selection) = &selection {
            kept = usize::try_from(selection.count_of(u32::try_from(history.len())?)?)?;
        }
    }
    Ok(Measured { first_ms: median(first), next_ms: median(next), kept, next_bytes })
}

fn main() -> Result<(), Failure> {
    let Some(asked) = Asked::read("context", HELP) else { return Ok(()) };
    let messages = setting("TASKREEL_BENCH_MESSAGES", asked.size(10_000, 200))?;
    let runs = setting("TASKREEL_BENCH_RUNS", asked.size(50, 3))?.max(1);
    let mut report = Report::begin("context", asked)?;
    let history = history(messages)?;
    let fit = FitContextWindow::new(MAX_TOKENS)?;
    let fit_as_agentix = fit.clone().rules(Rules::Agentix);
    let chain = Chain::new(TruncateToolOutputs::new(200)?).then(fit.clone());
    let strategies: [&dyn ContextStrategy; 5] =
        [&fit, &fit_as_agentix, &TrimRounds::new(500)?, &TruncateToolOutputs::new(200)?, &chain];
    let mut beside = Vec::new();
    for strategy in strategies.into_iter().filter(|_| wanted("TASKREEL_BENCH_ENGINES", "ours")) {
        let Measured { first_ms, next_ms, kept, next_bytes } = measure(strategy, &history, runs)?;
        let name = strategy.name();
        report.row(
            &Row::new(format!("{name}: the first of {messages}"), first_ms, "ms")
                .target(Target::AtMost(15.0)),
        )?;
        let row = Row::new(format!("{name}: the next, {kept} kept"), next_ms, "ms");
        report.row(&row.target(Target::AtMost(2.0)))?;
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let bytes = next_bytes as f64 / kept.max(1) as f64;
        report.row(&Row::new(format!("{name}: allocated for each kept"), bytes, "B"))?;
        beside.push((name, first_ms, next_ms));
    }
    if wanted("TASKREEL_BENCH_ENGINES", "ours") {
        compaction(messages / 2, runs, &mut report)?;
    }
    if asked.quick {
        println!("agentix is left out of a quick run");
    } else if wanted("TASKREEL_BENCH_ENGINES", "peer") {
        peer(messages, runs, &beside, &mut report)?;
    }
    report.end();
    Ok(())
}

/// Measures the cut of a history to 4,000 tokens, beside one count of the same messages, which no compaction can do without.
fn compaction(messages: usize, runs: usize, report: &mut Report) -> Result<(), Failure> {
    let history = history(messages)?;
    let request = HistoryCompactionRequest {
        strategy: CompactionStrategy::Tokens,
        ..HistoryCompactionRequest::default()
    };
    let (mut cuts, mut counts, mut kept) = (Vec::new(), Vec::new(), 0);
    for _ in 0..runs {
        let begin = Instant::now();
        let cut = HistoryCompactor::new().cut(&history, &request, true)?;
        cuts.push(begin.elapsed().as_secs_f64() * 1_000.0);
        kept = history.len() - cut.removed();
        let begin = Instant::now();
        let mut estimate = MessagesEstimate::default();
        for message in &history {
            estimate.add(message.role.as_str(), &message.content, message.name.as_deref());
        }
        counts.push(begin.elapsed().as_secs_f64() * 1_000.0);
        if estimate.tokens() != cut.before_tokens() {
            return Err("the cut and the count disagree".into());
        }
    }
    let (cut, count) = (median(cuts), median(counts));
    let name = format!("compaction of {messages} messages to 4,000 tokens, {kept} kept");
    report.row(&Row::new(name, cut, "ms").target(Target::AtMost(5.0)))?;
    let row = Row::new("compaction beside one count of the messages".to_owned(), 1_000.0 / cut, "/s");
    report.row(&row.beside(1_000.0 / count))
}

/// The line that the script prints.
#[derive(Deserialize)]
struct Said {
    unavailable: Option<String>,
    #[serde(default)]
    ms: Vec<f64>,
    #[serde(default)]
    kept: usize,
}

/// Measures a history of the same texts in agentix and compares ours with it.
fn peer(
    messages: usize,
    runs: usize,
    ours: &[(String, f64, f64)],
    report: &mut Report,
) -> Result<(), Failure> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/context_peer.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(support::scratch().join("context-peer"));
    let figures = [messages.to_string(), CHARACTERS.to_string(), MAX_TOKENS.to_string(), runs.to_string()];
    let output = match command.args(figures).output() {
        Ok(output) => output,
        Err(error) => {
            println!("agentix 0.5.0 was not measured: python3 cannot be started: {error}");
            return Ok(());
        }
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let Some(line) = said.lines().last() else {
        return Err(
            format!("the script of agentix failed: {}", String::from_utf8_lossy(&output.stderr)).into()
        );
    };
    let Said { unavailable, ms, kept } = serde_json::from_str(line)?;
    if let Some(why) = unavailable {
        println!("agentix 0.5.0 was not measured: {why}");
        return Ok(());
    }
    let theirs = median(ms);
    report.row(&Row::new(format!("agentix 0.5.0: FitContextWindow, {kept} kept"), theirs, "ms"))?;
    for (name, first, next) in ours.iter().filter(|(name, ..)| name.contains("fit-context-window")) {
        for (which, own) in [("first", first), ("next", next)] {
            let row = Row::new(format!("{name} beside agentix, the {which}"), 1_000.0 / own, "/s");
            report.row(&row.beside(1_000.0 / theirs).target(Target::RatioAtLeast(30.0)))?;
        }
    }
    Ok(())
}
