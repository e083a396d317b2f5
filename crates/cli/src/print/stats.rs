//! `stats`: prints sums over calls.

use taskreel_log::api::EventReader;
use taskreel_log::views::{Expression, Filter, Readable, StatsGroup, StatsRow, stats_of};

use crate::print::answer::Answer;
use crate::print::grid::{Cell, Column, spare, uncut};
use crate::print::newer::name_left_out;
use crate::print::problem::Problem;
use crate::print::screen::{Screen, note};

/// Prints sums over the calls of a log that the filter takes, with a limit over the newest ones, by tool, model and
/// session; of these sums, those for which the condition holds.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output is gone.
pub(crate) fn stats(
    reader: &dyn EventReader,
    (filter, condition): (Filter, Option<&Expression>),
    limit: Option<usize>,
    screen: &mut Screen,
) -> Result<Answer, Problem> {
    let Readable { mut rows, newer, .. } = stats_of(reader, filter, limit)?;
    rows.retain(|row| condition.is_none_or(|condition| condition.holds(&row.to_json().tree())));
    let read = name_left_out(&newer, "not counted from this event on");
    if screen.json {
        for row in &rows {
            screen.json_line(&row.to_json())?;
        }
        screen.flush()?;
        return Ok(read);
    }
    if rows.is_empty() {
        note("no calls");
        return Ok(read);
    }
    table(&rows, screen)?;
    note(
        "times in milliseconds: from the dispatch of the last attempt to its outcome, by the times of the log's records",
    );
    Ok(read)
}

fn table(rows: &[StatsRow], screen: &mut Screen) -> Result<(), Problem> {
    let heads: [Column; 13] = [
        uncut("group"),
        uncut("name"),
        uncut("calls"),
        uncut("errors"),
        spare("settled"),
        spare("open"),
        spare("attempts"),
        uncut("p50"),
        uncut("p95"),
        spare("p99"),
        spare("tokens in"),
        spare("tokens out"),
        spare("cost"),
    ];
    let mut table = Screen::table(&heads);
    for row in rows {
        let name = match (row.group, &row.name) {
            (StatsGroup::All, _) => String::new(),
            (_, Some(name)) => screen.plain(name),
            (_, None) => "-".to_owned(),
        };
        let tokens = |count: u64| if row.with_usage == 0 { "-".to_owned() } else { count.to_string() };
        let took = |percent| row.durations.percentile(percent).map_or_else(|| "-".to_owned(), millis);
        let mut cells = vec![Cell::new(row.group.as_str()), screen.bold_cell(&name)];
        let figures = [
            row.calls.to_string(),
            row.errors().to_string(),
            row.settled.to_string(),
            row.open.to_string(),
            row.attempts.to_string(),
            took(50),
            took(95),
            took(99),
            tokens(row.usage.input_tokens),
            tokens(row.usage.output_tokens),
            if row.costs.is_empty() { "-".to_owned() } else { row.costs.to_string() },
        ];
        cells.extend(figures.into_iter().map(Cell::figure));
        table.row(cells);
    }
    screen.print(&table)?;
    screen.flush()
}

/// Formats microseconds as milliseconds with three decimal digits.
fn millis(micros: u64) -> String {
    format!("{}.{:03}", micros / 1_000, micros % 1_000)
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_microsecond_is_rounded_away() {
        assert_eq!(super::millis(1_002_003), "1002.003");
        assert_eq!(super::millis(7), "0.007");
    }
}
