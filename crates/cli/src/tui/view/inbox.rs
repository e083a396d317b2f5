//! The page of all that waits: a list, and the chosen thing whole.

use proto_events::envelope::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::style::{Modifier, Style};

use crate::print::time::span_us;
use crate::tui::data::InboxRow;
use crate::tui::line::{ScreenLine, ScreenRow, draw_line};
use crate::tui::marks::Tone;
use crate::tui::model::Model;
use crate::tui::model::inbox::Offer;
use crate::tui::model::layout;

/// Draws the page.
pub(crate) fn draw(model: &Model, buffer: &mut Buffer) {
    let areas = layout::inbox(model);
    let list = model.inbox.list;
    if model.inbox.rows.is_empty() {
        let line = match (&model.inbox.fault, model.inbox.is_read) {
            (Some(why), _) => ScreenLine::new(format!("what waits cannot be read: {why}"), Tone::Bad),
            (None, true) => ScreenLine::new(
                "nothing waits for anybody, and nothing is wrong that this log shows",
                Tone::Good,
            ),
            (None, false) => ScreenLine::new("reading…", Tone::Dim),
        };
        let row = ScreenRow { x: areas.list.x + 1, y: areas.list.y, width: model.size.0.saturating_sub(2) };
        draw_line(buffer, row, &line, model.marks, Style::new());
        return;
    }
    let shown = model.inbox.rows.iter().enumerate().skip(list.top).take(areas.list_rows);
    for ((at, waiting), y) in shown.zip(areas.list.y..) {
        let is_chosen = at == list.at;
        let over = if is_chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        let mark = if is_chosen { model.marks.chosen() } else { " " };
        draw_line(
            buffer,
            ScreenRow { x: areas.list.x, y, width: 1 },
            &ScreenLine::plain(mark),
            model.marks,
            Style::new(),
        );
        let row = ScreenRow { x: areas.list.x + 1, y, width: areas.list.width.saturating_sub(1) };
        let used = draw_line(buffer, row, &list_line(waiting, model), model.marks, over);
        fill(buffer, row, used, over);
    }
    if areas.text.x > 0 {
        for y in areas.text.y..areas.text.y + areas.text.height {
            let row = ScreenRow { x: areas.text.x - 1, y, width: 1 };
            draw_line(
                buffer,
                row,
                &ScreenLine::new(model.marks.between(), Tone::Dim),
                model.marks,
                Style::new(),
            );
        }
    }
    let lines = &model.inbox.lines;
    for (line, y) in lines.iter().skip(model.inbox.top).take(areas.text_rows).zip(areas.text.y..) {
        draw_line(
            buffer,
            ScreenRow { x: areas.text.x, y, width: areas.text.width },
            line,
            model.marks,
            Style::new(),
        );
    }
    if areas.text.height > 0 {
        let y = areas.text.y + areas.text.height - 1;
        let row = ScreenRow { x: areas.text.x, y, width: areas.text.width };
        let left = lines.len().saturating_sub(model.inbox.top + areas.text_rows);
        draw_line(buffer, row, &offer_line(model, left), model.marks, Style::new());
    }
}

/// Lays a style over the rest of a row.
pub(crate) fn fill(buffer: &mut Buffer, row: ScreenRow, used: u16, over: Style) {
    let blanks = " ".repeat(usize::from(row.width.saturating_sub(used)));
    buffer.set_stringn(row.x + used, row.y, &blanks, blanks.len(), over);
}

fn age(since: Timestamp, now: Timestamp) -> String {
    let age = now.0.saturating_sub(since.0);
    span_us(u64::try_from(age).unwrap_or_default())
}

fn list_line(waiting: &InboxRow, model: &Model) -> ScreenLine {
    let (mark, tone) = model.marks.sign(waiting.sign);
    let target = waiting.call.as_ref().map_or(String::new(), |call| format!("{} ", call.target));
    let task = waiting.task.as_ref().map_or(String::new(), |task| format!("{}  ", task.id()));
    let since = waiting.since.map_or(String::new(), |since| format!("{}  ", age(since, (model.now)())));
    ScreenLine::new(format!("{mark} {:<11} ", waiting.kind), tone)
        .and(target, Tone::Bold)
        .and(task, Tone::Plain)
        .and(since, Tone::Dim)
        .and(waiting.what.clone(), Tone::Dim)
}

/// Returns the row of keys below the arguments.
fn offer_line(model: &Model, left: usize) -> ScreenLine {
    let line = if left > 0 {
        ScreenLine::new(format!("{left} more rows: PgDn  "), Tone::Asks)
    } else {
        ScreenLine::default()
    };
    let offer = model.inbox.rows.get(model.inbox.list.at).map_or(Offer::Nothing, InboxRow::offer);
    let keys = match offer {
        Offer::Approval(_) => "a approve  d deny  ",
        Offer::Question(_) => "a answer  d decline  ",
        Offer::Unknown(_) => "l landed  n did not happen  x give up  ",
        Offer::Task => "x cancel the task  ",
        Offer::Nothing => "",
    };
    line.and(keys, Tone::Bold).and("Enter run  p prompt  y copy the command", Tone::Dim)
}
