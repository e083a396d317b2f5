//! Copying: as JSON, as a command, as a link, as a path.

use taskreel_log::views::shell_word;

use crate::tui::ask::Ask;
use crate::tui::data::{EventRef, Tab};
use crate::tui::keys::Key;
use crate::tui::link;
use crate::tui::marks::Tone;
use crate::tui::model::Model;
use crate::tui::model::parts::{Effect, Pane};
use crate::tui::model::run::RunPane;
use crate::tui::tree::value_at;

impl Model {
    /// Waits for the key that says what is copied.
    pub(crate) fn begin_copy(&mut self) {
        if self.run.as_ref().and_then(RunPane::selected).is_none() {
            return self.set_message("open a stream first", Tone::Dim);
        }
        self.is_copying = true;
        self.set_message("copy: j JSON, c command, l link, p path", Tone::Bold);
    }

    /// Copies what the key says.
    pub(crate) fn copy_key(&mut self, key: Key) {
        let Some(place) = self.run.as_ref().and_then(RunPane::selected) else { return };
        match key {
            Key::Char('j') => match self.chosen_value() {
                Some((json, _)) => self.copy(json, "the value"),
                None => self.ask(Ask::Json(place)),
            },
            Key::Char('c') => self.copy(self.command_of(&place), "the command"),
            Key::Char('l') => self.copy(self.link_of(&place), "the link"),
            Key::Char('p') => match self.chosen_value() {
                Some((_, path)) => self.copy(path, "the path"),
                None => self.set_message("choose a value of the details first", Tone::Dim),
            },
            _ => self.set_message("nothing was copied", Tone::Dim),
        }
    }

    /// Copies a text.
    pub(crate) fn copy(&mut self, text: String, what: &str) {
        let beginning: String = text.chars().take(60).collect();
        self.set_message(format!("copied {what}: {beginning}"), Tone::Good);
        self.effect(Effect::Copy(text));
    }

    /// Returns the value of the chosen row of the details as JSON, and its path.
    fn chosen_value(&self) -> Option<(String, String)> {
        let row = self.detail.rows.get(self.detail.list.at).filter(|_| self.pane == Pane::Detail)?;
        let root = if self.detail.tab == Tab::Payload { "payload" } else { "" };
        let (json, path) = value_at(&self.detail.content, &row.id, root)?;
        Some((json.as_str().to_owned(), path))
    }

    /// Returns the command that shows an event.
    fn command_of(&self, place: &EventRef) -> String {
        if let Some(url) = &self.source.url {
            return link::curl(url, place);
        }
        let stream = shell_word(place.stream.as_str());
        (self.source.typed)(&format!("event {stream} {}", place.at))
    }

    /// Returns the link to an event: of a server, the page of its inspector; else the command that goes there.
    fn link_of(&self, place: &EventRef) -> String {
        let page = self.source.url.as_deref().and_then(|url| link::page(&format!("{url}/inspect"), place));
        page.unwrap_or_else(|| {
            let stream = shell_word(place.stream.as_str());
            (self.source.typed)(&format!("tui {stream} --at {}", place.at))
        })
    }
}
