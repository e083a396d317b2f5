//! The keys of the comparison of two runs.

use taskreel_log::views::{AlignedStep, PromptPair};

use crate::tui::data::EventRef;
use crate::tui::keys::Key;
use crate::tui::line::ScreenLine;
use crate::tui::marks::Tone;
use crate::tui::model::Model;
use crate::tui::model::layer::Over;
use crate::tui::model::page_keys::{moved, next_where};
use crate::tui::model::parts::Pane;
use crate::tui::wrap::wrapped;

impl Model {
    /// Takes a key of the comparison; returns whether it was one.
    pub(crate) fn compare_key(&mut self, key: Key) -> bool {
        let Some(runs) = &self.compare.runs else { return false };
        let is_other = |step: &AlignedStep| step.as_str() != "same";
        match key {
            Key::Enter => {
                let over = step_lines(self);
                self.over = over.map(|lines| Over::text("a step of both runs   Esc closes", lines));
            }
            Key::Char('e' | 'E') => {
                let is_back = key == Key::Char('E');
                let at = self.compare.list.at;
                match next_where(&runs.steps, at, is_back, is_other) {
                    Some(at) => self.compare.list.select(at),
                    None => self.set_message("no other difference in that direction", Tone::Dim),
                }
            }
            Key::Char('o' | 'h' | 'l') | Key::Left | Key::Right => {
                let is_left = matches!(key, Key::Char('h') | Key::Left);
                let step = runs.steps.get(self.compare.list.at);
                let sides = step.map(AlignedStep::sides);
                let side = sides.and_then(|(one, other)| if is_left { one } else { other }).cloned();
                let stream = if is_left { runs.streams.0.clone() } else { runs.streams.1.clone() };
                match side {
                    Some(_) if !is_left && self.source.other.is_some() => {
                        let other = self.source.other.clone().unwrap_or_default();
                        self.set_message(
                            format!("it stands in the other log: taskreel tui --file {other}"),
                            Tone::Dim,
                        );
                    }
                    Some(step) => {
                        let place = EventRef { stream, at: step.version };
                        self.go_to(&place, Pane::Events);
                    }
                    None => self.set_message("this run does not have the step", Tone::Dim),
                }
            }
            key => match moved(key, self.body_height()) {
                Some(steps) => {
                    let len = runs.steps.len();
                    self.compare.list.step(steps, len);
                }
                None => return false,
            },
        }
        true
    }
}

/// Returns the tone of a comparison of prompts: where they are equal, the model itself made the difference.
pub(crate) fn tone_of(pair: &PromptPair) -> Tone {
    match &pair.compared {
        Ok(compared) if compared.is_equal() => Tone::Good,
        Ok(_) => Tone::Asks,
        Err(_) => Tone::Dim,
    }
}

/// Returns the lines about the chosen step, whole; none without one.
fn step_lines(model: &Model) -> Option<Vec<ScreenLine>> {
    let runs = model.compare.runs.as_ref()?;
    let step = runs.steps.get(model.compare.list.at)?;
    let width = usize::from(model.size.0).saturating_sub(2);
    let mut lines = Vec::new();
    let (one, other) = step.sides();
    if let Some(pair) = runs.prompts.iter().find(|pair| pair.step == model.compare.list.at) {
        lines.push(ScreenLine::new(pair.words(), tone_of(pair)));
        lines.push(ScreenLine::default());
    }
    for (name, step) in [(&runs.names.0, one), (&runs.names.1, other)] {
        lines.push(ScreenLine::new(name.clone(), Tone::Bold));
        let Some(step) = step else {
            lines.push(ScreenLine::new("does not have the step", Tone::Dim));
            lines.push(ScreenLine::default());
            continue;
        };
        lines.push(ScreenLine::new(format!("v{} {} {}", step.version, step.kind, step.target), Tone::Busy));
        for (title, text) in [("", &step.args), ("came to", &step.outcome)] {
            if !title.is_empty() && !text.is_empty() {
                lines.push(ScreenLine::new(title, Tone::Dim));
            }
            lines
                .extend(wrapped(text, width).into_iter().filter(|_| !text.is_empty()).map(ScreenLine::plain));
        }
        lines.push(ScreenLine::default());
    }
    Some(lines)
}
