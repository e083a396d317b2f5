//! `stats`: what calls came to.

use comfy_table::{Cell, CellAlignment};

use super::screen::note;
use super::{Problem, Screen, Verdict};
use crate::inspect::stats::{Group, stats as sums};
use crate::store::EventReader;

/// Prints sums over all calls of a log, by tool, model and session.
///
/// # Errors
/// [`Problem`] if the log cannot be read or the reader of the output has gone.
pub fn stats(reader: &dyn EventReader, screen: &mut Screen) -> Result<Verdict, Problem> {
    let rows = sums(reader)?;
    if screen.json {
        for row in &rows {
            screen.json_line(&row.to_json())?;
        }
        screen.flush()?;
        return Ok(Verdict::Yes);
    }
    if rows.is_empty() {
        note("no calls");
        return Ok(Verdict::Yes);
    }
    let heads =
        ["of", "name", "calls", "errors", "open", "attempts", "p50", "p95", "p99", "tokens in", "tokens out"];
    let mut table = screen.table(&heads);
    for row in &rows {
        let name = match (row.group, &row.name) {
            (Group::All, _) => String::new(),
            (_, Some(name)) => screen.plain(name),
            (_, None) => "-".to_owned(),
        };
        let tokens = |count: u64| if row.with_usage == 0 { "-".to_owned() } else { count.to_string() };
        let took = |percent| row.durations.percentile(percent).map_or_else(|| "-".to_owned(), millis);
        let mut cells = vec![Cell::new(row.group.as_str()), screen.bold_cell(&name)];
        let figures = [
            row.calls.to_string(),
            row.errors().to_string(),
            row.open.to_string(),
            row.attempts.to_string(),
            took(50),
            took(95),
            took(99),
            tokens(row.usage.input_tokens),
            tokens(row.usage.output_tokens),
        ];
        cells.extend(figures.into_iter().map(|figure| Cell::new(figure).set_alignment(CellAlignment::Right)));
        table.add_row(cells);
    }
    screen.print(&table)?;
    screen.flush()?;
    note("times: from the last attempt's dispatch to its outcome, as the log's records say, in milliseconds");
    Ok(Verdict::Yes)
}

/// Milliseconds with three digits behind the point: the microseconds, whole.
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
