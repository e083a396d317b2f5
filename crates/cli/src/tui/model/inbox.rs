//! The inbox: what waits, and the decisions about it. A decision is made about arguments that were on the screen to their end, and
//! after a question whether it is meant.

use crate::decide::{Wish, WishKind};
use crate::tui::ask::Ask;
use crate::tui::data::{InboxRow, Tab};
use crate::tui::keys::Key;
use crate::tui::line::ScreenLine;
use crate::tui::marks::Tone;
use crate::tui::model::Model;
use crate::tui::model::input_line::{Input, InputKind, WordsOf};
use crate::tui::model::layer::Over;
use crate::tui::model::layout;
use crate::tui::model::page_keys::moved;
use crate::tui::model::parts::{Page, Pane};
use crate::tui::rows::waiting_lines;

/// The kinds of decisions that a row offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Offer {
    /// An approval, with its id.
    Approval(String),
    /// A question, with its name.
    Question(String),
    /// A call of unknown outcome, with its id.
    Unknown(String),
    /// A task that can only be canceled here.
    Task,
    /// No decision.
    Nothing,
}

impl InboxRow {
    /// Returns what a person can decide about it.
    pub(crate) fn offer(&self) -> Offer {
        let Some(call) = &self.call else {
            return if self.commands.is_empty() { Offer::Nothing } else { Offer::Task };
        };
        match (&call.approval_id, &call.question_id) {
            _ if self.commands.is_empty() => Offer::Nothing,
            (Some(approval), _) => Offer::Approval(approval.clone()),
            (None, Some(question)) => Offer::Question(question.clone()),
            (None, None) => Offer::Unknown(call.call_id.clone()),
        }
    }
}

impl Model {
    /// Shows the inbox.
    pub(crate) fn show_inbox(&mut self) {
        self.page = Page::Inbox;
        self.inbox.top = 0;
        self.ask(Ask::Inbox);
    }

    /// Returns the rows of the list above, or beside, the arguments.
    pub(crate) fn inbox_list_height(&self) -> usize {
        layout::inbox(self).list_rows
    }

    /// Takes a key of the inbox; returns whether it was one.
    pub(crate) fn inbox_key(&mut self, key: Key) -> bool {
        let rows = self.inbox.rows.len();
        match key {
            // The list has the keys of a row, the arguments have the keys of a page.
            Key::PageDown | Key::PageUp | Key::Ctrl('d' | 'u') => self.scroll_arguments(key),
            Key::Char('J') => self.scroll_arguments(Key::Char('j')),
            Key::Char('K') => self.scroll_arguments(Key::Char('k')),
            Key::Enter => self.go_to_waiting(None),
            Key::Char('p') => self.go_to_waiting(Some(Tab::Prompt)),
            Key::Char('a' | 'd' | 'l' | 'n' | 'x') if self.decision_key(key) => {}
            Key::Char('y') => {
                let typed = self.inbox.rows.get(self.inbox.list.at).and_then(|row| row.commands.first());
                match typed.map(|command| (self.source.typed)(command)) {
                    Some(command) => self.copy(command, "the command"),
                    None => self.set_message("no command ends this", Tone::Dim),
                }
            }
            key => match moved(key, self.body_height()) {
                Some(steps) => {
                    self.inbox.list.step(steps, rows);
                    self.inbox.top = 0;
                }
                None => return false,
            },
        }
        true
    }

    fn scroll_arguments(&mut self, key: Key) {
        let area = layout::inbox(self);
        let lines = self.inbox.lines.len();
        let steps = moved(key, area.text_rows).unwrap_or_default();
        let last = lines.saturating_sub(area.text_rows);
        self.inbox.top = self.inbox.top.saturating_add_signed(steps).min(last);
    }

    /// Makes the lines about the chosen row, if others are there, and notes whether their end is on the screen.
    pub(crate) fn lay_out_arguments(&mut self) {
        let area = layout::inbox(self);
        let of = (self.inbox.readings, self.inbox.list.at, area.text.width);
        if self.inbox.lines_of != Some(of) {
            let row = self.inbox.rows.get(self.inbox.list.at);
            let lines = row
                .map(|row| waiting_lines(row, usize::from(area.text.width), &self.source.typed, &self.zone));
            self.inbox.lines = lines.unwrap_or_default();
            self.inbox.lines_of = Some(of);
        }
        self.inbox.top = self.inbox.top.min(self.inbox.lines.len().saturating_sub(area.text_rows));
        self.inbox.is_seen = self.inbox.top + area.text_rows >= self.inbox.lines.len();
    }

    fn go_to_waiting(&mut self, tab: Option<Tab>) {
        let Some(stream) = self.inbox.rows.get(self.inbox.list.at).and_then(|row| row.task.clone()) else {
            return self.set_message("this belongs to no task", Tone::Dim);
        };
        self.open(&stream, None);
        if let Some(tab) = tab {
            self.show_tab(tab);
        }
        self.show_run(if tab.is_some() { Pane::Detail } else { Pane::Events });
    }

    /// Takes the key of a decision; returns whether the chosen row offers it.
    fn decision_key(&mut self, key: Key) -> bool {
        let Some(row) = self.inbox.rows.get(self.inbox.list.at) else { return false };
        let input = |of: WordsOf| Some(Input::new(InputKind::Words(of)));
        let (wish, input) = match (row.offer(), key) {
            (Offer::Approval(id), Key::Char('a')) => (Some(WishKind::Approve(id)), None),
            (Offer::Approval(id), Key::Char('d')) => (None, input(WordsOf::Deny(id))),
            (Offer::Question(id), Key::Char('a')) => (None, input(WordsOf::Answer(id))),
            (Offer::Question(id), Key::Char('d')) => (None, input(WordsOf::Decline(id))),
            (Offer::Unknown(id), Key::Char('l')) => (None, input(WordsOf::Landed(id))),
            (Offer::Unknown(id), Key::Char('n')) => (Some(WishKind::DidNotHappen(id)), None),
            (Offer::Unknown(id), Key::Char('x')) => (None, input(WordsOf::Abandon(id))),
            (Offer::Task, Key::Char('x')) => (None, input(WordsOf::Cancel)),
            _ => return false,
        };
        if self.live.writer.is_none() {
            // The commands stand in the order of the keys: approve, deny; answer, decline; landed, did not happen, give up.
            let at = match key {
                Key::Char('d' | 'n') => 1,
                Key::Char('x') if matches!(row.offer(), Offer::Unknown(_)) => 2,
                _ => 0,
            };
            let command = row.commands.get(at).or(row.commands.first());
            let command = command.map(|command| (self.source.typed)(command)).unwrap_or_default();
            self.set_message(format!("no program takes decisions here; type: {command}"), Tone::Asks);
        } else if !self.inbox.is_seen {
            self.scroll_arguments(Key::PageDown);
            self.set_message("the arguments go on: read them to their end first (PgDn)", Tone::Asks);
        } else if let Some(wish) = wish {
            self.confirm(wish);
        } else {
            self.input = input;
        }
        true
    }

    /// Asks whether a decision about the chosen row is meant.
    pub(crate) fn confirm(&mut self, kind: WishKind) {
        let Some(row) = self.inbox.rows.get(self.inbox.list.at) else { return };
        let Some(task) = row.task.as_ref() else { return };
        // What was asked may have changed while words were typed.
        let is_of_row = match (&kind, row.offer()) {
            (WishKind::Approve(id) | WishKind::Deny(id, _), Offer::Approval(own))
            | (WishKind::Answer(id, _) | WishKind::Decline(id, _), Offer::Question(own))
            | (
                WishKind::Landed(id, _) | WishKind::DidNotHappen(id) | WishKind::Abandon(id, _),
                Offer::Unknown(own),
            ) => *id == own,
            (WishKind::Cancel(_), Offer::Task) => true,
            _ => false,
        };
        if !is_of_row {
            return self.set_message(
                "that is decided already, or the list has changed; nothing was sent",
                Tone::Asks,
            );
        }
        let (word, said) = match &kind {
            WishKind::Approve(_) => ("APPROVE", String::new()),
            WishKind::Deny(_, why) => ("DENY", format!("because: {why}")),
            WishKind::Landed(_, result) => ("IT TOOK EFFECT", format!("with the result: {result}")),
            WishKind::DidNotHappen(_) => ("IT DID NOT HAPPEN", String::new()),
            WishKind::Abandon(_, why) => ("GIVE IT UP", format!("because: {why}")),
            WishKind::Answer(_, text) => ("ANSWER", text.clone()),
            WishKind::Decline(_, why) => ("DECLINE TO ANSWER", format!("because: {why}")),
            WishKind::Cancel(why) => ("CANCEL THE TASK", format!("because: {why}")),
        };
        let wish = Wish { task: task.to_string(), kind };
        let width = usize::from(self.size.0).saturating_sub(2);
        let mut lines = vec![ScreenLine::new(word, Tone::Asks).and(format!("  {}", task.id()), Tone::Bold)];
        if !said.is_empty() {
            lines.extend(crate::tui::wrap::wrapped(&said, width).into_iter().map(ScreenLine::plain));
        }
        lines.push(ScreenLine::default());
        lines.extend(waiting_lines(row, width, &self.source.typed, &self.zone));
        self.over = Some(Over::confirm(wish, lines));
    }
}
