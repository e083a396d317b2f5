//! Tools and models: sums over calls, as charts and as the tables of the same figures.

use askama::Template;
use taskreel_log::api::EventReader;
use taskreel_log::views::{Field, Filter, KindsOf, StatsGroup, StatsRow, stats_of};

use crate::api::bounded_reads::unread;
use crate::error::Problem;
use crate::inspect::answer::{self, PageAnswer};
use crate::inspect::draw::bars::{Bars, bars};
use crate::inspect::escape::Value;
use crate::inspect::frame::{Cx, PageFrame};
use crate::inspect::page_request::Query;
use crate::inspect::words;

/// The most bars of a chart; the table has all rows.
const BARS_MAX: usize = 20;

#[derive(Template)]
#[template(path = "inspect/tools.html")]
struct ToolsPage {
    frame: PageFrame,
    groups: Vec<GroupView>,
    agent: Value,
    session: Value,
    since: Value,
    until: Value,
    unreadable: Vec<String>,
}

struct GroupView {
    title: &'static str,
    name: &'static str,
    calls: Bars,
    times: Bars,
    tokens: Option<Bars>,
    rows: Vec<RowView>,
}

struct RowView {
    name: String,
    runs_url: Option<String>,
    calls: String,
    succeeded: String,
    failed: String,
    unknown: String,
    canceled: String,
    open: String,
    attempts: String,
    timed_out: String,
    p50: String,
    p95: String,
    p99: String,
    tokens: String,
    costs: String,
}

/// Makes the page.
///
/// # Errors
/// [`Problem`] if a value of the filter is not valid, or the log cannot be read.
pub(crate) fn page(cx: &Cx, log: &dyn EventReader, query: &Query) -> Result<PageAnswer, Problem> {
    let filter = query.filter()?;
    filter.check_kinds(KindsOf::Calls)?;
    let found = if filter == Filter::default() { cx.log.stats(log) } else { stats_of(log, filter, None) };
    let found = found.map_err(unread)?;
    let groups = [
        (StatsGroup::All, "All calls", "calls"),
        (StatsGroup::Tool, "Tools", "tool"),
        (StatsGroup::Model, "Models", "model"),
        (StatsGroup::Agent, "Other agents", "agent"),
        (StatsGroup::Handler, "Handlers", "handler"),
    ];
    let of = |(group, title, name): (StatsGroup, &'static str, &'static str)| {
        let mut rows: Vec<&StatsRow> = found.rows.iter().filter(|row| row.group == group).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.calls));
        (!rows.is_empty()).then(|| GroupView::new(cx, title, name, &rows))
    };
    let value = |name: &str| Value(query.text(name).unwrap_or_default().to_owned());
    let page = ToolsPage {
        frame: cx.frame("Tools and models", "Tools and models"),
        groups: groups.into_iter().filter_map(of).collect(),
        agent: value("agent"),
        session: value("session"),
        since: value("since"),
        until: value("until"),
        unreadable: found.newer.iter().map(ToString::to_string).collect(),
    };
    answer::page(&page)
}

fn name_of(row: &StatsRow) -> String {
    row.name.clone().unwrap_or_else(|| "all".to_owned())
}

fn duration_text(micros: Option<u64>) -> String {
    micros.map_or_else(|| "–".to_owned(), |micros| words::micros(i64::try_from(micros).unwrap_or(i64::MAX)))
}

impl GroupView {
    fn new(cx: &Cx, title: &'static str, name: &'static str, rows: &[&StatsRow]) -> Self {
        let drawn = || rows.iter().take(BARS_MAX);
        let calls = drawn().map(|row| {
            let segments = vec![
                (row.succeeded + row.settled, "good"),
                (row.errors(), "bad"),
                (row.canceled, "quiet"),
                (row.open, "busy"),
            ];
            (name_of(row), segments, words::of(row.calls, "call", "calls"))
        });
        let times = drawn().map(|row| {
            let at = |percent: usize| row.durations.percentile(percent).unwrap_or(0);
            let (p50, p95, p99) = (at(50), at(95), at(99));
            let segments =
                vec![(p50, "p50"), (p95.saturating_sub(p50), "p95"), (p99.saturating_sub(p95), "p99")];
            (name_of(row), segments, duration_text(row.durations.percentile(99)))
        });
        let tokens = drawn().map(|row| {
            let segments = vec![(row.usage.input_tokens, "p50"), (row.usage.output_tokens, "p99")];
            (name_of(row), segments, words::tokens(row.usage))
        });
        let has_tokens = rows.iter().any(|row| row.with_usage > 0);
        Self {
            title,
            name,
            calls: bars(calls.collect()),
            times: bars(times.collect()),
            tokens: has_tokens.then(|| bars(tokens.collect())),
            rows: rows.iter().map(|row| RowView::new(cx, row)).collect(),
        }
    }
}

impl RowView {
    fn new(cx: &Cx, row: &StatsRow) -> Self {
        let field = match row.group {
            StatsGroup::Tool => Some(Field::Tool.as_str()),
            StatsGroup::Model => Some("model"),
            _ => None,
        };
        let runs_url = field.zip(row.name.as_deref()).map(|pair| cx.links.asked("", &[pair]));
        Self {
            name: name_of(row),
            runs_url,
            calls: words::count(row.calls),
            succeeded: words::count(row.succeeded),
            failed: words::count(row.failed),
            unknown: format!("{} + {} settled", row.unknown, row.settled),
            canceled: words::count(row.canceled),
            open: words::count(row.open),
            attempts: words::count(row.attempts),
            timed_out: words::count(row.timed_out),
            p50: duration_text(row.durations.percentile(50)),
            p95: duration_text(row.durations.percentile(95)),
            p99: duration_text(row.durations.percentile(99)),
            tokens: words::tokens(row.usage),
            costs: words::costs(&row.costs),
        }
    }
}
