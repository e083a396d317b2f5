//! The last two rows: the time bar with the rate of events, and the line of messages, keys and typed text.

use ratatui::buffer::Buffer;
use ratatui::style::Style;
use taskreel_log::views::columns;

use crate::tui::data::EventLine;
use crate::tui::line::{ScreenLine, ScreenRow, draw_line};
use crate::tui::marks::Tone;
use crate::tui::model::Model;
use crate::tui::model::input_line::Input;
use crate::tui::model::layer::OverKind;
use crate::tui::model::parts::{Page, Pane};
use crate::tui::model::run::RunPane;
use crate::tui::rows::{day_and_time, of_day};

/// The bars of the rate, from none to all.
const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The bars in ASCII.
const BARS_ASCII: [&str; 8] = ["_", ".", ",", "-", "~", "=", "+", "#"];

/// Draws the rows.
pub(crate) fn draw(model: &Model, buffer: &mut Buffer) {
    let (width, height) = model.size;
    let row = |y: u16| ScreenRow { x: 0, y, width };
    draw_line(buffer, row(height - 2), &time_line(model), model.marks, Style::new());
    let last = row(height - 1);
    if let Some(input) = &model.input {
        return typed(model, input, last, buffer);
    }
    let line = match (&model.said, &model.source.note) {
        (Some((text, tone)), _) => ScreenLine::new(text.clone(), *tone),
        (None, Some(note)) if model.run.is_none() => ScreenLine::new(note.clone(), Tone::Bad),
        _ => ScreenLine::new(hints(model), Tone::Dim),
    };
    let row = ScreenRow { x: 1, width: width.saturating_sub(1), ..last };
    draw_line(buffer, row, &line, model.marks, Style::new());
}

/// Draws the line that is being typed, whose end stays on the screen.
fn typed(model: &Model, input: &Input, row: ScreenRow, buffer: &mut Buffer) {
    let room = usize::from(row.width).saturating_sub(columns(input.label()) + 2);
    let tail: Vec<char> = input.text.chars().rev().take(room).collect();
    let tail: String = tail.into_iter().rev().collect();
    let line = ScreenLine::new(input.label(), Tone::Bold).and(tail, Tone::Plain);
    let used = draw_line(buffer, row, &line, model.marks, Style::new());
    if used < row.width {
        let cursor = ScreenRow { x: used, width: 1, ..row };
        draw_line(buffer, cursor, &ScreenLine::new(" ", Tone::Reverse), model.marks, Style::new());
    }
}

/// Returns the most useful keys of what is shown.
fn hints(model: &Model) -> &'static str {
    if let Some(over) = &model.over {
        return match over.kind {
            OverKind::Help(_) => "type to search   Esc close",
            OverKind::Text => "j k move   Enter go there   / n search   Esc close",
            OverKind::Confirm(_) => "y decide   Esc do not",
        };
    }
    match (model.page, model.pane) {
        (Page::Inbox, _) => "j k move   PgDn read on   Enter run   Esc back   ? keys   q quit",
        (Page::Compare, _) => {
            "j k move   e next difference   Enter step whole   h l open left or right   ? keys"
        }
        (_, Pane::Streams) => {
            "Enter open   / search   f filter   F not   e failed   i inbox   ? keys   q quit"
        }
        (_, Pane::Events) => {
            "[ ] travel   { } state   e failure   Enter detail   z open   s t c   m d   ? keys"
        }
        (_, Pane::Detail) => "< > tab   Enter fold   y copy   / search   Esc back   ? keys",
        (_, Pane::Time) => "Left Right travel   PgUp PgDn state   Enter events   ? keys",
    }
}

fn time_line(model: &Model) -> ScreenLine {
    let rates = sparkline(model);
    let line = if rates.is_empty() {
        ScreenLine::plain(" ")
    } else {
        ScreenLine::new(format!(" {rates} "), Tone::Busy)
    };
    if model.page != Page::Run || model.over.is_some() {
        return line;
    }
    let Some((run, event)) = model.run.as_ref().and_then(|run| Some((run, run.current()?))) else {
        return line;
    };
    let (at, end) = (run.at, run.data.end);
    let first = run.data.events.first().map_or(event.at, |first| first.at);
    let is_wide = model.size.0 >= 70;
    let time = if is_wide { day_and_time(event.at, &model.zone) } else { of_day(event.at, &model.zone) };
    let since = crate::print::time::since(first, event.at);
    let told = format!(" v{at} of {end}  {time} {since}");
    let told = match &model.mark {
        Some(mark) if mark.stream == run.stream => format!("{told}  mark v{}", mark.at),
        Some(mark) if is_wide => format!("{told}  mark {} v{}", mark.stream.id(), mark.at),
        _ => told,
    };
    let room = usize::from(model.size.0).saturating_sub(columns(&line.text()) + columns(&told) + 3);
    let has_keys = model.pane == Pane::Time;
    let bar = bar(model, run, event, room.min(60));
    line.and(bar, if has_keys { Tone::Reverse } else { Tone::Plain }).and(told, Tone::Dim)
}

/// Returns the bar with the place of the event; failures and changes of state are marked where they stand.
fn bar(model: &Model, run: &RunPane, event: &EventLine, width: usize) -> String {
    if width < 6 {
        return String::new();
    }
    let marks = model.marks;
    let cells = width - 2;
    let end = run.data.end.max(1);
    let cell = |version: u64| {
        let scaled =
            (version.saturating_sub(1)).saturating_mul(cells as u64 - 1) / end.saturating_sub(1).max(1);
        usize::try_from(scaled).unwrap_or_default().min(cells - 1)
    };
    let mut drawn = vec![marks.pick("━", "-"); cells];
    let mut set = |version: u64, mark: &'static str| {
        if let Some(place) = drawn.get_mut(cell(version)) {
            *place = mark;
        }
    };
    // Of a long stream, as many as there are cells are looked at.
    let step = (run.data.events.len() / 4_096).max(1);
    for event in run.data.events.iter().step_by(step) {
        match event.sign {
            crate::tui::marks::Sign::Failed => set(event.version, marks.pick("✗", "x")),
            _ if event.is_state => set(event.version, marks.pick("┿", "+")),
            _ => {}
        }
    }
    if let Some(marked) = model.marked_version(&run.stream) {
        set(marked.0, "m");
    }
    set(event.version, marks.pick("●", "O"));
    format!("{}{}{}", marks.pick("◀", "<"), drawn.concat(), marks.pick("▶", ">"))
}

/// Returns the rate of events over the last minute; empty where nothing was written.
fn sparkline(model: &Model) -> String {
    let rates = &model.live.rates;
    let most = rates.iter().copied().max().unwrap_or_default();
    if most == 0 {
        return String::new();
    }
    let bars = if model.marks.is_unicode { BARS } else { BARS_ASCII };
    let shown = (usize::from(model.size.0) / 6).min(20).min(rates.len());
    let bar = |rate: &u64| {
        let at = usize::try_from(rate.saturating_mul(7) / most).unwrap_or_default();
        bars.get(at).copied().unwrap_or(" ")
    };
    rates.iter().skip(rates.len() - shown).map(bar).collect()
}
