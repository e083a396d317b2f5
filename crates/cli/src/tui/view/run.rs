//! The page of a run: streams, events, details.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use crate::tui::data::Tab;
use crate::tui::line::{ScreenLine, ScreenRow, draw_line};
use crate::tui::marks::Tone;
use crate::tui::model::Model;
use crate::tui::model::layout;
use crate::tui::model::list::List;
use crate::tui::model::parts::Pane;
use crate::tui::model::run::{EventRow, RunPane};
use crate::tui::rows::{call_line, event_line, short, stream_line};
use crate::tui::view::inbox::fill;

/// Draws the page.
pub(crate) fn draw(model: &Model, buffer: &mut Buffer) {
    let panes = layout::panes(model);
    if let Some(area) = panes.streams {
        streams(model, area, buffer);
    }
    if let Some(area) = panes.events {
        events(model, area, buffer);
    }
    if let Some(area) = panes.detail {
        detail(model, area, buffer);
    }
    for area in [panes.events, panes.detail].into_iter().flatten().filter(|area| area.x > 0) {
        for y in area.y..area.y + area.height {
            let row = ScreenRow { x: area.x - 1, y, width: 1 };
            draw_line(
                buffer,
                row,
                &ScreenLine::new(model.marks.between(), Tone::Dim),
                model.marks,
                Style::new(),
            );
        }
    }
}

/// Draws the title of a pane, underlined by its tone where it has the keys.
fn title(model: &Model, area: Rect, pane: Pane, line: &ScreenLine, buffer: &mut Buffer) {
    let has_keys = model.pane == pane;
    let over = if has_keys { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
    let mark = if has_keys { model.marks.chosen() } else { " " };
    draw_line(
        buffer,
        ScreenRow { x: area.x, y: area.y, width: 1 },
        &ScreenLine::plain(mark),
        model.marks,
        Style::new(),
    );
    let row = ScreenRow { x: area.x + 1, y: area.y, width: area.width.saturating_sub(1) };
    draw_line(buffer, row, line, model.marks, over);
}

/// Draws the rows of a list of which only those on the screen are made.
fn list(
    model: &Model,
    area: Rect,
    (list, len, has_keys): (List, usize, bool),
    line: impl Fn(usize, usize) -> ScreenLine,
    buffer: &mut Buffer,
) {
    let height = usize::from(area.height).saturating_sub(1);
    let width = area.width.saturating_sub(1);
    for (at, y) in (list.top..len).take(height).zip(area.y + 1..) {
        let is_chosen = at == list.at;
        let over = match (is_chosen, has_keys) {
            (true, true) => Style::new().add_modifier(Modifier::REVERSED),
            (true, false) => Style::new().add_modifier(Modifier::BOLD),
            _ => Style::new(),
        };
        let mark = if is_chosen { model.marks.chosen() } else { " " };
        draw_line(
            buffer,
            ScreenRow { x: area.x, y, width: 1 },
            &ScreenLine::plain(mark),
            model.marks,
            Style::new(),
        );
        let row = ScreenRow { x: area.x + 1, y, width };
        let used = draw_line(buffer, row, &line(at, usize::from(width)), model.marks, over);
        if is_chosen && has_keys {
            fill(buffer, row, used, over);
        }
    }
}

fn draw_note(model: &Model, area: Rect, at: u16, line: &ScreenLine, buffer: &mut Buffer) {
    if at < area.height {
        let row = ScreenRow { x: area.x + 1, y: area.y + at, width: area.width.saturating_sub(1) };
        draw_line(buffer, row, line, model.marks, Style::new());
    }
}

fn streams(model: &Model, area: Rect, buffer: &mut Buffer) {
    let pane = &model.streams;
    let (name, more) = match &pane.listed {
        crate::tui::ask::StreamList::Tasks(_) => ("tasks".to_owned(), ", newest first"),
        crate::tui::ask::StreamList::Named(prefix) => (format!("streams {prefix}*"), ""),
    };
    let count = pane.rows.len();
    let plus = if pane.next.is_some() { "+" } else { "" };
    let head = ScreenLine::new(format!("{name} {count}{plus}{more}"), Tone::Bold);
    let head = if pane.typed.is_empty() { head } else { head.and(format!("  [{}]", pane.typed), Tone::Asks) };
    title(model, area, Pane::Streams, &head, buffer);
    let is_asked = model.waiting.contains(&crate::tui::ask::AskKind::Streams);
    if count == 0 {
        let line = match (&pane.damage, is_asked, pane.typed.is_empty()) {
            (Some(why), ..) => ScreenLine::new(format!("the log cannot be read: {why}"), Tone::Bad),
            (None, true, _) => ScreenLine::new("reading…", Tone::Dim),
            (None, false, true) => ScreenLine::new("there is none; `taskreel demo` makes some", Tone::Dim),
            (None, false, false) => ScreenLine::new("none fits; x shows all", Tone::Dim),
        };
        return draw_note(model, area, 1, &line, buffer);
    }
    let row = |at: usize, _: usize| {
        let row = pane.rows.get(at);
        row.map_or_else(ScreenLine::default, |row| stream_line(row, model.marks, &model.zone))
    };
    list(model, area, (pane.list, count, model.pane == Pane::Streams), row, buffer);
    if let Some(why) = &pane.damage {
        let line = ScreenLine::new(format!("damaged: {why}"), Tone::Bad);
        draw_note(model, area, area.height.saturating_sub(1), &line, buffer);
    }
}

fn events(model: &Model, area: Rect, buffer: &mut Buffer) {
    let Some(run) = &model.run else {
        let line = ScreenLine::new("Enter opens a task; ? tells the keys", Tone::Dim);
        return draw_note(model, area, 1, &line, buffer);
    };
    title(model, area, Pane::Events, &run_title(model, run), buffer);
    if run.rows.is_empty() {
        let line = match (&run.data.damage, run.is_read) {
            (Some(why), _) => ScreenLine::new(format!("it cannot be read: {why}"), Tone::Bad),
            (None, true) => ScreenLine::new("no event fits; x shows all", Tone::Dim),
            (None, false) => ScreenLine::new("reading…", Tone::Dim),
        };
        return draw_note(model, area, 1, &line, buffer);
    }
    let before = |at: usize| at.checked_sub(1).and_then(|before| run.event(before)).map(|event| event.at);
    let row = |at: usize, width: usize| {
        let line = match run.rows.get(at) {
            Some(EventRow::Event(event)) => run
                .event(*event)
                .map(|it| event_line(it, before(*event), (width, false), model.marks, &model.zone)),
            Some(EventRow::OfCall(event)) => run
                .event(*event)
                .map(|it| event_line(it, before(*event), (width, true), model.marks, &model.zone)),
            Some(EventRow::Call(number)) => run.data.calls.get(*number).map(|call| {
                let first =
                    call.events.first().and_then(|at| run.event(*at)).map_or(0, |event| event.version);
                call_line(call, first, run.open.contains(number), model.marks)
            }),
            None => None,
        };
        line.unwrap_or_default()
    };
    let has_keys = matches!(model.pane, Pane::Events | Pane::Time);
    list(model, area, (run.list, run.rows.len(), has_keys), row, buffer);
    let shown = u16::try_from(run.rows.len().saturating_sub(run.list.top)).unwrap_or(u16::MAX);
    if let Some(why) = &run.data.damage {
        let at = shown.saturating_add(1).min(area.height.saturating_sub(1));
        let line = ScreenLine::new(why.clone(), Tone::Bad);
        draw_note(model, area, at, &line, buffer);
    }
}

fn run_title(model: &Model, run: &RunPane) -> ScreenLine {
    let line = match run.data.row.as_ref().map(|row| row.task.state) {
        Some(state) => {
            let (mark, tone) = model.marks.state(state);
            ScreenLine::new(short(&run.stream), Tone::Bold).and(format!(" {mark} {state}"), tone)
        }
        None => ScreenLine::new(short(&run.stream), Tone::Bold),
    };
    let line = line.and(format!(" {} ev", run.data.end), Tone::Dim);
    let line = match run.data.row.as_ref().filter(|row| !row.costs.is_empty()) {
        Some(row) => line.and(format!("  {}", row.costs), Tone::Dim),
        None => line,
    };
    if run.typed.is_empty() { line } else { line.and(format!("  [{}]", run.typed), Tone::Asks) }
}

fn detail(model: &Model, area: Rect, buffer: &mut Buffer) {
    let mut head = ScreenLine::default();
    // The tab that is shown stands first where not all of them fit.
    let shift = if area.width >= 60 {
        0
    } else {
        Tab::ALL.iter().position(|tab| *tab == model.detail.tab).unwrap_or(0)
    };
    for step in 0..Tab::ALL.len() {
        let tab = Tab::default().further(shift + step);
        head = if tab == model.detail.tab {
            head.and(format!("[{}]", tab.as_str()), Tone::Bold).and(" ", Tone::Plain)
        } else {
            head.and(format!("{} ", tab.as_str()), Tone::Dim)
        };
    }
    title(model, area, Pane::Detail, &head, buffer);
    let is_asked = model.waiting.contains(&crate::tui::ask::AskKind::Detail);
    if model.detail.rows.is_empty() {
        let told = if is_asked { "reading…" } else { "" };
        return draw_note(model, area, 1, &ScreenLine::new(told, Tone::Dim), buffer);
    }
    let row = |at: usize, _: usize| {
        let Some(row) = model.detail.rows.get(at) else { return ScreenLine::default() };
        let fold = row.is_open.map_or_else(String::new, |is_open| format!("{} ", model.marks.fold(is_open)));
        let line = ScreenLine::new(format!("{}{fold}", " ".repeat(row.indent)), Tone::Dim);
        line.with(&row.line)
    };
    list(model, area, (model.detail.list, model.detail.rows.len(), model.pane == Pane::Detail), row, buffer);
}
