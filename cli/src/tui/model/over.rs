//! A layer over the page: the help, a drawing, a step of two runs, the question whether a decision is meant.

use crate::decide::Wish;
use crate::tui::ask::Ask;
use crate::tui::data::{Drawing, Place};
use crate::tui::keys::{HELP, Key};
use crate::tui::line::Line;
use crate::tui::marks::Tone;
use crate::tui::model::Model;
use crate::tui::model::input::{Input, InputKind};
use crate::tui::model::list::List;
use crate::tui::model::moving::{moved, next_where};
use crate::tui::model::parts::Pane;

/// A layer over the page.
#[derive(Debug)]
pub(crate) struct Over {
    /// The title.
    pub(crate) title: String,
    /// The lines, each with the event that it tells of.
    pub(crate) lines: Vec<(Line, Option<Place>)>,
    /// The chosen line.
    pub(crate) list: List,
    /// The kind.
    pub(crate) kind: OverKind,
}

/// The kinds of layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OverKind {
    /// The help, as far as it fits the text.
    Help(String),
    /// Lines to read.
    Text,
    /// The question whether a decision is meant.
    Confirm(Wish),
}

impl Over {
    /// Returns the help.
    pub(crate) fn help() -> Self {
        let mut help = Self {
            title: String::new(),
            lines: Vec::new(),
            list: List::default(),
            kind: OverKind::Help(String::new()),
        };
        help.search_help(String::new());
        help
    }

    fn search_help(&mut self, asked: String) {
        let wanted = asked.to_lowercase();
        let fits = |(keys, what): &&(&str, &str)| {
            wanted.is_empty()
                || keys.to_lowercase().contains(&wanted)
                || what.to_lowercase().contains(&wanted)
        };
        let line = |(keys, what): &(&str, &str)| {
            (Line::of(format!("{keys:<24} "), Tone::Bold).and(*what, Tone::Plain), None)
        };
        self.lines = HELP.iter().filter(fits).map(line).collect();
        self.title = match asked.as_str() {
            "" => "keys   type to search, Esc closes".to_owned(),
            asked => format!("keys with `{asked}`   Esc closes"),
        };
        self.list = List::default();
        self.kind = OverKind::Help(asked);
    }

    /// Returns a drawing.
    pub(crate) fn drawing(drawing: Drawing) -> Self {
        Self { title: drawing.title, lines: drawing.lines, list: List::default(), kind: OverKind::Text }
    }

    /// Returns lines to read.
    pub(crate) fn text(title: impl Into<String>, lines: Vec<Line>) -> Self {
        let lines = lines.into_iter().map(|line| (line, None)).collect();
        Self { title: title.into(), lines, list: List::default(), kind: OverKind::Text }
    }

    /// Returns the question whether a decision is meant.
    pub(crate) fn confirm(wish: Wish, lines: Vec<Line>) -> Self {
        let mut over = Self::text("y decides, any other key does nothing", lines);
        over.kind = OverKind::Confirm(wish);
        over
    }

    /// Keeps the chosen line on the screen.
    pub(crate) fn settle(&mut self, height: usize) {
        self.list.settle(self.lines.len(), height.saturating_sub(1));
    }
}

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
                self.say("sent", Tone::Dim);
                self.ask(Ask::Decide(wish));
            }
            (OverKind::Confirm(_), _) => {
                self.over = None;
                self.say("nothing was decided", Tone::Dim);
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
            over.list.go(at);
        } else {
            self.say("found nowhere else", Tone::Dim);
        }
    }
}
