//! The typed commands.

use crate::args::point::parse_point;
use crate::tui::ask::{Ask, StreamList};
use crate::tui::marks::Tone;
use crate::tui::model::Model;
use crate::tui::model::layer::Over;
use crate::tui::model::parts::{Effect, Page};

impl Model {
    /// Carries out a typed command.
    pub(crate) fn command(&mut self, typed: &str) {
        let (name, rest) = typed.trim().split_once(' ').unwrap_or((typed.trim(), ""));
        let rest = rest.trim();
        match (name, rest) {
            ("", _) => {}
            ("q" | "quit", _) => self.effect(Effect::Quit),
            ("help", _) => self.over = Some(Over::help()),
            ("inbox", _) => self.show_inbox(),
            ("tasks", _) => self.clear_list(),
            ("streams", prefix) => self.list_streams(StreamList::Named(prefix.to_owned())),
            ("open", id) if !id.is_empty() => self.ask(Ask::Find(id.to_owned(), None)),
            ("at", point) if !point.is_empty() => self.go_to_point(point),
            ("compare", two) => match two.split_once(' ') {
                Some((left, right)) => {
                    self.ask(Ask::FindTwo(left.trim().to_owned(), right.trim().to_owned()));
                }
                None => self.set_message("compare takes two ids: `compare A B`", Tone::Bad),
            },
            // A number alone is a version, as in other programs with such a line.
            (number, "") if number.bytes().all(|byte| byte.is_ascii_digit()) => self.go_to_point(number),
            (name, _) => {
                let told = format!(
                    "`{name}` is no command; they are open, at, compare, tasks, streams, inbox, help, q"
                );
                self.set_message(told, Tone::Bad);
            }
        }
    }

    fn clear_list(&mut self) {
        self.streams.typed.clear();
        self.list_streams(StreamList::Tasks(taskreel_log::views::RunFilter::default()));
    }

    fn go_to_point(&mut self, typed: &str) {
        match (parse_point(typed), &self.run) {
            (Err(why), _) => self.set_message(why, Tone::Bad),
            (_, None) => self.set_message("open a stream first", Tone::Dim),
            (Ok(point), Some(run)) => {
                let stream = run.stream.to_string();
                self.page = Page::Run;
                self.ask(Ask::Find(stream, Some(point)));
            }
        }
    }
}
