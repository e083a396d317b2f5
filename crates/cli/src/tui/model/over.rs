//! The keys of a layer over the page.

use crate::tui::ask::Ask;
use crate::tui::keys::Key;
use crate::tui::marks::Tone;
use crate::tui::model::Model;
use crate::tui::model::input_line::{Input, InputKind};
use crate::tui::model::layer::{Over, OverKind};
use crate::tui::model::page_keys::{moved, next_where};
use crate::tui::model::parts::Pane;

impl Model {
    /// Takes a key while a layer lies over the page.
    pub(crate) fn over_key(&mut self, key: Key) {
        let height = self.body_height();
        let Some(over) = &mut self.over else { return };
        match (&mut over.kind, key) {
            (OverKind::Confirm(_), Key::Up | Key::Down | Key::PageUp | Key::PageDown) => {
                over.list.step(moved(key, height).unwrap_or_default(), over.lines.len());
            }
            (OverKind::Confirm(wish), Key::Char('y')) => {
                let wish = wish.clone();
                self.over = None;
                self.set_message("sent", Tone::Dim);
                self.ask(Ask::Decide(wish));
            }
            (OverKind::Confirm(_), _) => {
                self.over = None;
                self.set_message("nothing was decided", Tone::Dim);
            }
            (_, Key::Esc) | (OverKind::Text, Key::Char('q')) => self.over = None,
            (OverKind::Help(asked), Key::Char(letter)) => {
                let asked = format!("{asked}{letter}");
                over.search_help(asked);
            }
            (OverKind::Help(asked), Key::Backspace) => {
                let mut asked = asked.clone();
                asked.pop();
                over.search_help(asked);
            }
            (OverKind::Text, Key::Char('?')) => self.over = Some(Over::help()),
            (OverKind::Text, Key::Char('/')) => self.input = Some(Input::new(InputKind::Search)),
            (OverKind::Text, Key::Char('n' | 'N')) => self.find_in_over(key == Key::Char('N')),
            (OverKind::Text, Key::Enter) => {
                let place = over.lines.get(over.list.at).and_then(|(_, place)| place.clone());
                if let Some(place) = place {
                    self.over = None;
                    self.go_to(&place, Pane::Events);
                }
            }
            (_, key) => {
                if let Some(rows) = moved(key, height) {
                    over.list.step(rows, over.lines.len());
                }
            }
        }
    }

    fn find_in_over(&mut self, is_back: bool) {
        let (Some(over), Some(text)) = (&mut self.over, &self.search) else { return };
        let text = text.to_lowercase();
        if let Some(at) = next_where(&over.lines, over.list.at, is_back, |(line, _)| line.has(&text)) {
            over.list.select(at);
        } else {
            self.set_message("found nowhere else", Tone::Dim);
        }
    }
}
