//! The page of two runs: their steps beside each other, in the order in which they belong together.

use ratatui::buffer::Buffer;
use ratatui::style::{Modifier, Style};
use taskreel_log::views::{AlignedStep, RunStep};

use crate::tui::line::{ScreenLine, ScreenRow, draw_line};
use crate::tui::marks::Tone;
use crate::tui::model::Model;
use crate::tui::model::compare_keys::tone_of;
use crate::tui::model::layout;
use crate::tui::view::inbox::fill;

/// Draws the page.
pub(crate) fn draw(model: &Model, buffer: &mut Buffer) {
    let body = layout::body(model);
    let row = |y: u16| ScreenRow { x: body.x, y, width: body.width };
    let Some(runs) = &model.compare.runs else {
        let is_asked = model.waiting.contains(&crate::tui::ask::AskKind::Compare);
        let told = if is_asked {
            "reading…"
        } else {
            "mark a run with m, go to another one, and press d; or type :compare A B"
        };
        draw_line(buffer, row(body.y), &ScreenLine::new(told, Tone::Dim), model.marks, Style::new());
        return;
    };
    draw_line(buffer, row(body.y), &summary(model), model.marks, Style::new());
    // Of the first inference where the runs part, or of the chosen one.
    let at = model.compare.list.at;
    let pair = runs.prompts.iter().find(|pair| pair.step == at).or(runs.prompts.first());
    let before = u16::from(pair.is_some()) + 1;
    if let Some(pair) = pair {
        let told = format!("step {}: {}", pair.step + 1, pair.words());
        draw_line(buffer, row(body.y + 1), &ScreenLine::new(told, tone_of(pair)), model.marks, Style::new());
    }
    let half = body.width.saturating_sub(3) / 2;
    let list = model.compare.list;
    let rows = usize::from(body.height).saturating_sub(usize::from(before));
    for ((at, step), y) in runs.steps.iter().enumerate().skip(list.top).take(rows).zip(body.y + before..) {
        let over = if at == list.at { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        let (mark, tone) = sign(step);
        let (one, other) = step.sides();
        let left = ScreenRow { x: body.x, y, width: half };
        let used = draw_line(buffer, left, &side(one, at, tone), model.marks, over);
        fill(buffer, left, used, over);
        let middle = ScreenRow { x: body.x + half, y, width: 3 };
        draw_line(buffer, middle, &ScreenLine::new(format!(" {mark} "), tone), model.marks, over);
        let right = ScreenRow { x: body.x + half + 3, y, width: body.width.saturating_sub(half + 3) };
        let used = draw_line(buffer, right, &side(other, at, tone), model.marks, over);
        fill(buffer, right, used, over);
    }
    if runs.steps.is_empty() {
        draw_line(
            buffer,
            row(body.y + 1),
            &ScreenLine::new("neither run has a step", Tone::Dim),
            model.marks,
            Style::new(),
        );
    }
}

fn sign(step: &AlignedStep) -> (&'static str, Tone) {
    match step {
        AlignedStep::Same(..) => ("=", Tone::Dim),
        AlignedStep::Changed(..) => ("~", Tone::Asks),
        AlignedStep::First(_) => ("-", Tone::Gone),
        _ => ("+", Tone::Added),
    }
}

fn side(step: Option<&RunStep>, at: usize, tone: Tone) -> ScreenLine {
    let Some(step) = step else { return ScreenLine::default() };
    let outcome = if step.outcome.is_empty() { String::new() } else { format!(" -> {}", step.outcome) };
    ScreenLine::new(format!("{:>3} ", at + 1), Tone::Dim)
        .and(format!("{} {} ", step.kind, step.target), tone)
        .and(format!("{}{outcome}", step.args), Tone::Plain)
}

/// Returns the line that says where two runs part.
fn summary(model: &Model) -> ScreenLine {
    let Some(runs) = &model.compare.runs else { return ScreenLine::default() };
    let count = |word: &str| runs.steps.iter().filter(|step| step.as_str() == word).count();
    let parts = runs.steps.iter().position(|step| step.as_str() != "same");
    let names =
        format!("   {} ({} ev) | {} ({} ev)", runs.names.0, runs.events.0, runs.names.1, runs.events.1);
    let told = match parts {
        None => format!("all {} steps are the same", runs.steps.len()),
        Some(at) => {
            let before = if at == 0 { String::new() } else { format!("the same up to step {at}; ") };
            format!(
                "{before}they part at step {}: {} changed, {} only left, {} only right",
                at + 1,
                count("changed"),
                count("first-only"),
                count("second-only")
            )
        }
    };
    ScreenLine::new(told, if parts.is_some() { Tone::Asks } else { Tone::Good }).and(names, Tone::Bold)
}
