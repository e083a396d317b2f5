//! The output of benches: their settings, the printing and writing of rows, medians.
//!
//! Each bench prints a table and writes the same rows to `target/bench/<name>.jsonl`, one JSON object per
//! line.
#![allow(dead_code, reason = "no bench uses all of it")]
#![allow(clippy::print_stdout, reason = "rows go to stdout")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Serialize;

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The options of a bench.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// A small run that only shows that everything works: its figures mean nothing.
    pub(crate) quick: bool,
}

impl Asked {
    /// Reads the command line and the environment. `None` if there is nothing to measure.
    pub(crate) fn read(name: &str, help: &str) -> Option<Self> {
        let has = |word: &str| std::env::args().any(|argument| argument == word);
        if has("--help") || has("-h") {
            println!("{}\n\n{COMMON_HELP}", help.trim_end());
            return None;
        }
        // `cargo test --all-targets` starts benches too, without this argument.
        if !has("--bench") {
            println!("measures only under `cargo bench --bench {name}`");
            return None;
        }
        Some(Self { quick: has("--quick") || std::env::var_os("TASKREEL_BENCH_QUICK").is_some() })
    }

    /// Returns the size that fits these options.
    pub(crate) fn size<N>(self, whole: N, quick: N) -> N {
        if self.quick { quick } else { whole }
    }
}

const COMMON_HELP: &str = "\
  --quick, TASKREEL_BENCH_QUICK   a small run that only shows that everything works
  --help                          this text

Rows are printed and written to target/bench/<name>.jsonl, one JSON object a line: value and, where there is one, the
baseline of the same run, their ratio, and the target of the design. Disks and neighbours differ from minute to minute:
read ratios, and run it three times.";

/// Returns a number from the environment.
pub(crate) fn setting<N>(name: &str, otherwise: N) -> Result<N, Failure>
where
    N: FromStr<Err: std::fmt::Display>,
{
    match std::env::var(name) {
        Ok(text) => text.parse().map_err(|error| format!("{name}={text}: {error}").into()),
        Err(_) => Ok(otherwise),
    }
}

/// Whether `what` is to be measured: the variable lists the wanted items, and all are wanted without it.
pub(crate) fn wanted(name: &str, what: &str) -> bool {
    std::env::var(name).map_or(true, |list| list.split(',').any(|item| item == what))
}

/// The target of a figure, with its direction.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// A lower bound of the value.
    AtLeast(f64),
    /// An upper bound of the value.
    AtMost(f64),
    /// A lower bound of value over baseline.
    RatioAtLeast(f64),
    /// An upper bound of value over baseline.
    RatioAtMost(f64),
}

/// A measured figure.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// The yardstick's value in the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) baseline: Option<f64>,
    /// The value divided by the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
    /// The value by the thread's processor time: what a quiet machine would show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by_cpu: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<Target>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) met: Option<bool>,
    /// Other figures measured at the same time.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    pub(crate) more: serde_json::Map<String, serde_json::Value>,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        let more = serde_json::Map::new();
        let what = what.into();
        Self { what, value, unit, baseline: None, ratio: None, by_cpu: None, target: None, met: None, more }
    }

    /// Adds the same figure by processor time.
    pub(crate) fn by_cpu(mut self, value: f64) -> Self {
        self.by_cpu = Some(value);
        self
    }

    /// Adds the yardstick's value.
    pub(crate) fn beside(mut self, baseline: f64) -> Self {
        self.baseline = Some(baseline);
        self.ratio = Some(self.value / baseline);
        self
    }

    /// Adds a ratio that was taken pair by pair.
    pub(crate) fn ratio(mut self, ratio: f64) -> Self {
        self.ratio = Some(ratio);
        self
    }

    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self.met = match target {
            Target::AtLeast(bound) => Some(self.value >= bound),
            Target::AtMost(bound) => Some(self.value <= bound),
            Target::RatioAtLeast(bound) => self.ratio.map(|ratio| ratio >= bound),
            Target::RatioAtMost(bound) => self.ratio.map(|ratio| ratio <= bound),
        };
        self
    }

    pub(crate) fn more(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    fn print(&self) {
        let number = |number: f64| match number.abs() {
            large if large >= 1_000.0 => format!("{number:.0}"),
            small if small < 10.0 => format!("{number:.3}"),
            _ => format!("{number:.1}"),
        };
        let (baseline, ratio) = (self.baseline.map(number), self.ratio.map(|ratio| format!("{ratio:.2}")));
        let by_cpu = self.by_cpu.map(number);
        let target = self.target.map(|target| match target {
            Target::AtLeast(bound) => format!("≥ {bound}"),
            Target::AtMost(bound) => format!("≤ {bound}"),
            Target::RatioAtLeast(bound) => format!("ratio ≥ {bound}"),
            Target::RatioAtMost(bound) => format!("ratio ≤ {bound}"),
        });
        let met = self.met.map_or("", |met| if met { "met" } else { "MISSED" });
        println!(
            "{:<58} {:>12} {:<10} {:>12} {:>6} {:>12}  {:<13} {}",
            self.what,
            number(self.value),
            self.unit,
            baseline.as_deref().unwrap_or("-"),
            ratio.as_deref().unwrap_or("-"),
            by_cpu.as_deref().unwrap_or("-"),
            target.as_deref().unwrap_or(""),
            met
        );
    }
}

/// The rows of one run, printed and written to a file.
pub(crate) struct Report {
    path: PathBuf,
    file: std::fs::File,
}

impl Report {
    /// Creates an empty file.
    pub(crate) fn begin(name: &str, asked: Asked) -> Result<Self, Failure> {
        let folder = scratch().parent().unwrap_or(scratch()).join("bench");
        std::fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{name}.jsonl"));
        let file = std::fs::File::create(&path)?;
        if asked.quick {
            println!("a quick run: it shows that everything works; its figures mean nothing");
        }
        println!(
            "{:<58} {:>12} {:<10} {:>12} {:>6} {:>12}  {:<13}",
            "what", "value", "unit", "baseline", "ratio", "by cpu", "target"
        );
        Ok(Self { path, file })
    }

    pub(crate) fn row(&mut self, row: &Row) -> Result<(), Failure> {
        row.print();
        Ok(writeln!(self.file, "{}", serde_json::to_string(row)?)?)
    }

    pub(crate) fn end(self) {
        println!("written to {}", self.path.display());
    }
}

/// Returns the directory for a run's logs: on the disk of the build.
pub(crate) fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the figure below which `share` % of the figures lie.
pub(crate) fn percentile(sorted: &[f64], share: usize) -> f64 {
    let at = (sorted.len() * share / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// Returns the count per second.
pub(crate) fn rate(count: u64, spent: std::time::Duration) -> f64 {
    number(count) / spent.as_secs_f64()
}

/// Returns a count as a figure.
pub(crate) fn number(count: u64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "no count here comes near 2^52")]
    let figure = count as f64;
    figure
}
