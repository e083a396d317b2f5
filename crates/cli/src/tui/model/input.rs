//! The line that is being typed: a search, a filter, a command, the text of a decision.

use proto_events::model::TaskState;
use taskreel_log::views::{Filter, RunFilter, Term};

use crate::tui::ask::{Ask, StreamList};
use crate::tui::keys::Key;
use crate::tui::marks::Tone;
use crate::tui::model::Model;
use crate::tui::model::input_line::{Input, InputKind};
use crate::tui::model::page_keys::next_where;
use crate::tui::model::parts::{Page, Pane};

/// The most characters of a typed line.
const CHARACTERS_MAX: usize = 100_000;

impl Model {
    /// Takes a key while a line is being typed.
    pub(crate) fn input_key(&mut self, key: Key) {
        let Some(input) = &mut self.input else { return };
        match key {
            Key::Esc => self.input = None,
            Key::Enter => {
                let Some(input) = self.input.take() else { return };
                self.typed(input);
            }
            Key::Backspace if input.text.is_empty() => self.input = None,
            Key::Backspace => drop(input.text.pop()),
            Key::Ctrl('u') => input.text.clear(),
            Key::Ctrl('w') => {
                let kept = input.text.trim_end().rfind(' ').map_or(0, |at| at + 1);
                input.text.truncate(kept);
            }
            Key::Char(letter) if input.text.chars().count() < CHARACTERS_MAX => input.text.push(letter),
            _ => {}
        }
    }

    fn typed(&mut self, input: Input) {
        match input.kind {
            InputKind::Search => self.search_for(input.text),
            InputKind::Filter => self.filter_by(&input.text, false),
            InputKind::FilterOut => self.filter_by(&input.text, true),
            InputKind::Command => self.command(&input.text),
            InputKind::Words(of) => self.confirm(of.with(input.text)),
        }
    }

    fn search_for(&mut self, text: String) {
        if text.is_empty() {
            self.search = None;
            return;
        }
        self.search = Some(text.clone());
        match (&mut self.run, self.page, self.pane) {
            (Some(run), Page::Run, Pane::Events | Pane::Time) if self.over.is_none() => {
                run.found.clear();
                let stream = run.stream.clone();
                self.ask(Ask::Search(stream, text));
            }
            _ if self.over.is_some() => self.over_key(Key::Char('n')),
            _ => self.find_next(false),
        }
    }

    /// Goes to the next place of the text that is searched for, or to the one before.
    pub(crate) fn find_next(&mut self, is_back: bool) {
        let Some(text) = self.search.clone() else { return self.set_message("/ searches", Tone::Dim) };
        let text = text.to_lowercase();
        let found = match (self.page, self.pane) {
            (Page::Inbox, _) => {
                let has = |row: &crate::tui::data::InboxRow| {
                    let args = row.args.as_ref().map(|args| args.as_str().to_lowercase());
                    row.what.to_lowercase().contains(&text) || args.is_some_and(|args| args.contains(&text))
                };
                let at = next_where(&self.inbox.rows, self.inbox.list.at, is_back, has);
                at.inspect(|at| self.inbox.list.select(*at)).is_some()
            }
            (Page::Compare, _) => {
                let steps = self.compare.runs.as_ref().map_or(&[][..], |runs| &runs.steps);
                let has = |step: &taskreel_log::views::AlignedStep| {
                    let (one, other) = step.sides();
                    [one, other].into_iter().flatten().any(|step| {
                        [&step.target, &step.args, &step.outcome]
                            .iter()
                            .any(|it| it.to_lowercase().contains(&text))
                    })
                };
                let at = next_where(steps, self.compare.list.at, is_back, has);
                at.inspect(|at| self.compare.list.select(*at)).is_some()
            }
            (_, Pane::Streams) => {
                let has = |row: &crate::tui::data::StreamRow| {
                    crate::tui::rows::stream_line(row, self.marks, &self.zone).has(&text)
                };
                let at = next_where(&self.streams.rows, self.streams.list.at, is_back, has);
                at.inspect(|at| self.streams.list.select(*at)).is_some()
            }
            (_, Pane::Detail) => {
                let has = |row: &crate::tui::tree::ContentRow| row.line.has(&text);
                let at = next_where(&self.detail.rows, self.detail.list.at, is_back, has);
                at.inspect(|at| self.detail.list.select(*at)).is_some()
            }
            (_, Pane::Events | Pane::Time) => {
                let found = self.run.as_mut().is_some_and(|run| {
                    let versions = std::mem::take(&mut run.found);
                    let moved = run.seek(is_back, |event| versions.binary_search(&event.version).is_ok());
                    run.found = versions;
                    moved
                });
                self.request_detail();
                found
            }
        };
        if !found {
            self.set_message(format!("`{text}` stands nowhere else in that direction"), Tone::Dim);
        }
    }

    fn filter_by(&mut self, typed: &str, is_out: bool) {
        let words: Vec<&str> = typed.split_whitespace().collect();
        let is_run = self.pane != Pane::Streams && self.run.is_some();
        let shown = |before: &str| {
            let new = words.iter().map(|word| format!("{}{word}", if is_out { "not " } else { "" }));
            [before.to_owned()]
                .into_iter()
                .filter(|before| !before.is_empty())
                .chain(new)
                .collect::<Vec<_>>()
                .join(" ")
        };
        if let (true, Some(run)) = (is_run, &mut self.run) {
            let terms = words.iter().map(|word| term(word));
            if is_out {
                run.filter.not.extend(terms);
            } else {
                run.filter.terms.extend(terms);
            }
            run.typed = shown(&run.typed);
            return self.ask_run();
        }
        let mut filter = match &self.streams.listed {
            StreamList::Tasks(filter) => filter.clone(),
            StreamList::Named(_) => RunFilter::default(),
        };
        for word in &words {
            if let Err(why) = add(&mut filter, word, is_out) {
                return self.set_message(why, Tone::Bad);
            }
        }
        self.streams.typed = shown(&self.streams.typed);
        self.list_streams(StreamList::Tasks(filter));
    }

    /// Removes the filter of the pane.
    pub(crate) fn clear_filter(&mut self) {
        if let (false, Some(run)) = (self.pane == Pane::Streams, &mut self.run) {
            run.filter = Filter::default();
            run.typed.clear();
            return self.ask_run();
        }
        self.streams.typed.clear();
        self.list_streams(StreamList::Tasks(RunFilter::default()));
    }
}

/// Returns the condition of a typed word: of a field, or a text anywhere.
fn term(word: &str) -> Term {
    Term::parse(word).unwrap_or_else(|_| Term::new(taskreel_log::views::Field::Text, word))
}

fn add(filter: &mut RunFilter, word: &str, is_out: bool) -> Result<(), String> {
    if let Some(names) = word.strip_prefix("state=") {
        for name in names.split(',') {
            let state: TaskState = name.parse().map_err(|_| {
                let all: Vec<_> = TaskState::ALL.iter().map(|state| state.as_str()).collect();
                format!("`{name}` is none of the states {}", all.join(", "))
            })?;
            if is_out { filter.not_states.push(state) } else { filter.states.push(state) }
        }
    } else if let Some(model) = word.strip_prefix("model=") {
        let models = if is_out { &mut filter.not_models } else { &mut filter.models };
        models.push(model.to_owned());
    } else if is_out {
        filter.filter.not.push(term(word));
    } else {
        filter.filter.terms.push(term(word));
    }
    Ok(())
}
