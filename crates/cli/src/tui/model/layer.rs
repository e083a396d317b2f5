//! A layer over the page: the help, a drawing, a step of two runs, the question whether a decision is meant.

use crate::decide::Wish;
use crate::tui::data::{EventRef, LineDrawing};
use crate::tui::keys::HELP;
use crate::tui::line::ScreenLine;
use crate::tui::marks::Tone;
use crate::tui::model::list::List;

/// A layer over the page.
#[derive(Debug)]
pub(crate) struct Over {
    /// The title.
    pub(crate) title: String,
    /// The lines, each with the event that it tells of.
    pub(crate) lines: Vec<(ScreenLine, Option<EventRef>)>,
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

    /// Returns to the help, as far as it has the text.
    pub(crate) fn search_help(&mut self, asked: String) {
        let wanted = asked.to_lowercase();
        let fits = |(keys, what): &&(&str, &str)| {
            wanted.is_empty()
                || keys.to_lowercase().contains(&wanted)
                || what.to_lowercase().contains(&wanted)
        };
        let line = |(keys, what): &(&str, &str)| {
            (ScreenLine::new(format!("{keys:<24} "), Tone::Bold).and(*what, Tone::Plain), None)
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
    pub(crate) fn drawing(drawing: LineDrawing) -> Self {
        Self { title: drawing.title, lines: drawing.lines, list: List::default(), kind: OverKind::Text }
    }

    /// Returns lines to read.
    pub(crate) fn text(title: impl Into<String>, lines: Vec<ScreenLine>) -> Self {
        let lines = lines.into_iter().map(|line| (line, None)).collect();
        Self { title: title.into(), lines, list: List::default(), kind: OverKind::Text }
    }

    /// Returns the question whether a decision is meant.
    pub(crate) fn confirm(wish: Wish, lines: Vec<ScreenLine>) -> Self {
        let mut over = Self::text("y decides, any other key does nothing", lines);
        over.kind = OverKind::Confirm(wish);
        over
    }

    /// Keeps the chosen line on the screen.
    pub(crate) fn settle(&mut self, height: usize) {
        self.list.settle(self.lines.len(), height.saturating_sub(1));
    }
}
