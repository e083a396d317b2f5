//! The screen drawn from its state: a function that changes nothing.

pub(crate) mod compare;
pub(crate) mod inbox;
pub(crate) mod run;
pub(crate) mod strip;

use ratatui::buffer::Buffer;
use ratatui::style::{Modifier, Style};
use taskreel_log::views::LogUse;

use crate::tui::line::{ScreenLine, ScreenRow, draw_line};
use crate::tui::marks::Tone;
use crate::tui::model::Model;
use crate::tui::model::layer::Over;
use crate::tui::model::layout;
use crate::tui::model::parts::Page;

/// Draws the screen.
pub(crate) fn draw(model: &Model, buffer: &mut Buffer) {
    if model.size.0 < 8 || model.size.1 < 4 {
        let row = ScreenRow { x: 0, y: 0, width: model.size.0 };
        if model.size.1 > 0 {
            draw_line(buffer, row, &ScreenLine::plain("too small"), model.marks, Style::new());
        }
        return;
    }
    header(model, buffer);
    match (&model.over, model.page) {
        (Some(over), _) => layer(model, over, buffer),
        (None, Page::Inbox) => inbox::draw(model, buffer),
        (None, Page::Run) => run::draw(model, buffer),
        (None, Page::Compare) => compare::draw(model, buffer),
    }
    strip::draw(model, buffer);
}

/// Draws the first row: the log, whether it is written, its end, and the pages.
fn header(model: &Model, buffer: &mut Buffer) {
    let source = &model.source;
    let (badge, tone) = match (&model.live.writer, source.used) {
        (_, LogUse::Exported) => ("FILE".to_owned(), Tone::Dim),
        (Some(writer), _) => (format!("LIVE {writer}"), Tone::Good),
        (None, _) => ("CLOSED".to_owned(), Tone::Dim),
    };
    let whole = ScreenRow { x: 0, y: 0, width: model.size.0 };
    let name = ScreenLine::new(format!(" {}", source.name), Tone::Bold);
    let name = name.and(format!("  {}", badge.trim_end()), tone);
    let name = match model.live.new_events() {
        Some(new) => name.and(format!("  PAUSED +{} new", thousands(new)), Tone::Asks),
        None => name,
    };
    let name = name.and(format!("  HEAD {}", thousands(model.live.head)), Tone::Dim);
    let name = match model.live.rate() {
        _ if model.live.writer.is_none() => name,
        0 => name,
        rate => name.and(format!("  {rate} ev/s"), Tone::Busy),
    };
    let name = if source.note.is_some() { name.and("  DAMAGED", Tone::Bad) } else { name };
    let name = match &model.live.fault {
        Some(fault) => name.and(format!("  {fault}"), Tone::Bad),
        None => name,
    };
    let count = model.inbox.rows.iter().filter(|row| !row.commands.is_empty() || row.call.is_none()).count();
    let pages = [(Page::Inbox, 'i'), (Page::Run, 'r'), (Page::Compare, 'v')].map(|(page, key)| {
        let count = if page == Page::Inbox && count > 0 { format!(" {count}") } else { String::new() };
        let name = format!("{key} {}{count}", layout::title(page));
        if page == model.page { format!("[{name}]") } else { format!(" {name} ") }
    });
    let pages = pages.concat();
    let wide = u16::try_from(pages.len()).unwrap_or(u16::MAX);
    let room = if wide + 20 < whole.width { whole.width - wide } else { whole.width };
    draw_line(buffer, ScreenRow { width: room, ..whole }, &name, model.marks, Style::new());
    if room < whole.width {
        draw_line(
            buffer,
            ScreenRow { x: room, width: wide, ..whole },
            &ScreenLine::new(pages, Tone::Bold),
            model.marks,
            Style::new(),
        );
    }
}

/// Returns a number with its thousands parted.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut parted = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            parted.push(',');
        }
        parted.push(digit);
    }
    parted
}

/// Draws a layer over the page.
fn layer(model: &Model, over: &Over, buffer: &mut Buffer) {
    let body = layout::body(model);
    let row = |y: u16| ScreenRow { x: body.x + 1, y, width: body.width.saturating_sub(2) };
    draw_line(
        buffer,
        row(body.y),
        &ScreenLine::new(over.title.clone(), Tone::Bold),
        model.marks,
        Style::new(),
    );
    let rows = usize::from(body.height).saturating_sub(1);
    let has_places = over.lines.iter().any(|(_, place)| place.is_some());
    for ((at, (line, _)), y) in over.lines.iter().enumerate().skip(over.list.top).take(rows).zip(body.y + 1..)
    {
        let is_chosen = at == over.list.at;
        let style = match (is_chosen, has_places) {
            (true, true) => Style::new().add_modifier(Modifier::REVERSED),
            _ => Style::new(),
        };
        if is_chosen {
            let mark = ScreenRow { x: body.x, y, width: 1 };
            draw_line(buffer, mark, &ScreenLine::plain(model.marks.chosen()), model.marks, Style::new());
        }
        draw_line(buffer, row(y), line, model.marks, style);
    }
}
