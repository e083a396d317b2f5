//! The keys of the pages.

use crate::tui::ask::{Ask, ListPage, StreamList};
use crate::tui::data::{DrawingKind, StreamRow, Tab, is_task};
use crate::tui::keys::Key;
use crate::tui::marks::{Sign, Tone};
use crate::tui::model::Model;
use crate::tui::model::input_line::{Input, InputKind};
use crate::tui::model::layer::Over;
use crate::tui::model::parts::{Effect, Page, Pane};
use crate::tui::model::run::RunPane;

/// Returns how far a key moves in a list of this height; none if the key does not move. The ends are very far.
pub(crate) fn moved(key: Key, height: usize) -> Option<isize> {
    let page = isize::try_from(height.max(2) - 1).unwrap_or(isize::MAX);
    Some(match key {
        Key::Char('j') | Key::Down => 1,
        Key::Char('k') | Key::Up => -1,
        Key::PageDown | Key::Ctrl('f') => page,
        Key::PageUp | Key::Ctrl('b') => -page,
        Key::Ctrl('d') => page / 2 + 1,
        Key::Ctrl('u') => -(page / 2 + 1),
        Key::Char('G') | Key::End => isize::MAX,
        Key::Char('g') | Key::Home => isize::MIN + 1,
        _ => return None,
    })
}

impl Model {
    /// Takes a key that the page has not taken itself.
    pub(crate) fn page_key(&mut self, key: Key) {
        if self.page == Page::Run
            && let Some(rows) = moved(key, self.body_height())
        {
            return self.step(rows);
        }
        match key {
            Key::Char('q') => self.effect(Effect::Quit),
            Key::Char('?') => self.over = Some(Over::help()),
            Key::Char(':') => self.input = Some(Input::new(InputKind::Command)),
            Key::Char('/') => self.input = Some(Input::new(InputKind::Search)),
            Key::Char('i') => self.show_inbox(),
            Key::Char('r') => self.show_run(self.pane),
            Key::Char('v') => self.page = Page::Compare,
            Key::Char(' ') => self.pause(),
            Key::Esc => self.back(),
            Key::Char('x') => self.clear_filter(),
            Key::Char('n') => self.find_next(false),
            Key::Char('N') => self.find_next(true),
            _ if self.page == Page::Run => self.run_key(key),
            _ => {}
        }
    }

    fn run_key(&mut self, key: Key) {
        match key {
            Key::Left | Key::Right if self.pane == Pane::Time => self.travel(key == Key::Left),
            Key::Char('h') | Key::Left | Key::BackTab => self.next_pane(true),
            Key::Char('l') | Key::Right | Key::Tab => self.next_pane(false),
            Key::Char(number @ '1'..='4') => {
                let at = usize::try_from(u32::from(number) - u32::from('1')).unwrap_or_default();
                self.set_pane(Pane::ALL.get(at).copied().unwrap_or(Pane::Streams));
            }
            Key::Enter => self.enter(),
            Key::Char('f') => self.input = Some(Input::new(InputKind::Filter)),
            Key::Char('F') => self.input = Some(Input::new(InputKind::FilterOut)),
            Key::Char('e') => self.next_failure(false),
            Key::Char('E') => self.next_failure(true),
            Key::Char('[') => self.travel(true),
            Key::Char(']') => self.travel(false),
            Key::Char('{') => self.travel_state(true),
            Key::Char('}') => self.travel_state(false),
            Key::Char('m') => self.set_mark(),
            Key::Char('d') => self.diff_mark(),
            Key::Char('s') => self.draw(DrawingKind::Sequence),
            Key::Char('t') => self.draw(DrawingKind::Trace),
            Key::Char('c') => self.ask_cause(),
            Key::Char('y') => self.begin_copy(),
            Key::Char('o') => match self.run.as_ref().and_then(RunPane::selected) {
                Some(place) => self.effect(Effect::Browse(place)),
                None => self.set_message("open a stream first", Tone::Dim),
            },
            Key::Char('<') => self.show_tab(self.detail.tab.further(Tab::ALL.len() - 1)),
            Key::Char('>') => self.show_tab(self.detail.tab.further(1)),
            Key::Char('p') => {
                self.show_tab(Tab::Prompt);
                if self.run.is_some() {
                    self.show_run(Pane::Detail);
                }
            }
            Key::Char('z') => self.fold(),
            Key::Char('Z') => self.fold_all(),
            _ => {}
        }
    }

    fn set_pane(&mut self, pane: Pane) {
        self.pane = if self.run.is_none() { Pane::Streams } else { pane };
        self.fit_detail();
    }

    fn next_pane(&mut self, is_back: bool) {
        let at = Pane::ALL.iter().position(|pane| *pane == self.pane).unwrap_or_default();
        let next = if is_back { at.saturating_sub(1) } else { (at + 1).min(Pane::ALL.len() - 1) };
        if self.pane == Pane::Streams && !is_back && self.run.is_none() {
            return self.enter();
        }
        self.set_pane(Pane::ALL.get(next).copied().unwrap_or(Pane::Streams));
    }

    /// Moves in the list of the pane.
    fn step(&mut self, rows: isize) {
        match self.pane {
            Pane::Streams => {
                self.streams.list.step(rows, self.streams.rows.len());
                self.ask_more_streams();
            }
            Pane::Events => {
                if let Some(run) = &mut self.run {
                    run.list.step(rows, run.rows.len());
                    run.follow_row();
                }
                self.request_detail();
            }
            Pane::Detail => self.detail.list.step(rows, self.detail.rows.len()),
            Pane::Time => match rows {
                isize::MAX => self.travel_to(u64::MAX),
                rows if rows <= -isize::MAX => self.travel_to(1),
                rows if rows.abs() == 1 => self.travel(rows < 0),
                rows => self.travel_state(rows < 0),
            },
        }
    }

    /// Asks for the next page of streams where the list comes to its end.
    fn ask_more_streams(&mut self) {
        let is_near_end = self.streams.list.at + 20 >= self.streams.rows.len();
        let is_asked = self.waiting.contains(&crate::tui::ask::AskKind::MoreStreams);
        if let (true, false, Some(next)) = (is_near_end, is_asked, self.streams.next) {
            self.ask(Ask::Streams(self.streams.listed.clone(), ListPage::Further(next)));
        }
    }

    fn enter(&mut self) {
        match self.pane {
            Pane::Streams => {
                let Some(row) = self.streams.rows.get(self.streams.list.at) else { return };
                if let StreamRow::Unreadable(stream, why) = row {
                    let told = format!("{} cannot be read: {why}", stream.id());
                    self.set_message(told, Tone::Bad);
                }
                let stream = self.streams.rows.get(self.streams.list.at).map(|row| row.stream().clone());
                if let Some(stream) = stream {
                    self.open(&stream, None);
                    self.set_pane(Pane::Events);
                }
            }
            Pane::Events => self.set_pane(Pane::Detail),
            Pane::Detail => self.fold(),
            Pane::Time => self.set_pane(Pane::Events),
        }
    }

    fn back(&mut self) {
        if self.page != Page::Run {
            return self.show_run(self.pane);
        }
        match self.pane {
            Pane::Detail | Pane::Time => self.set_pane(Pane::Events),
            Pane::Events => self.set_pane(Pane::Streams),
            Pane::Streams => self.set_message("q quits", Tone::Dim),
        }
    }

    fn travel(&mut self, is_back: bool) {
        let Some(at) = self.run.as_ref().map(|run| run.at) else { return };
        self.travel_to(if is_back { at.saturating_sub(1) } else { at.saturating_add(1) });
    }

    /// Goes to a version of the stream that is open.
    pub(crate) fn travel_to(&mut self, version: u64) {
        if let Some(run) = &mut self.run {
            run.select_version(version.max(1));
        }
        self.request_detail();
    }

    fn travel_state(&mut self, is_back: bool) {
        let Some(run) = &mut self.run else { return };
        if run.seek(is_back, |event| event.is_state) {
            self.request_detail();
        } else {
            let side = if is_back { "before" } else { "behind" };
            self.set_message(format!("no change of state stands {side} this event"), Tone::Dim);
        }
    }

    fn next_failure(&mut self, is_back: bool) {
        let found = match (&mut self.run, self.pane) {
            (_, Pane::Streams) => {
                let is_failed = |row: &StreamRow| match row {
                    StreamRow::Run(row) => {
                        row.failed_calls > 0 || row.task.state == proto_events::model::TaskState::Failed
                    }
                    StreamRow::Unreadable(..) => true,
                    StreamRow::Other(..) => false,
                };
                let at = self.streams.list.at;
                let next = next_where(&self.streams.rows, at, is_back, is_failed);
                next.inspect(|next| self.streams.list.select(*next)).is_some()
            }
            (Some(run), _) => run.seek(is_back, |event| event.sign == Sign::Failed),
            (None, _) => false,
        };
        if found {
            self.request_detail();
        } else {
            let side = if is_back { "before" } else { "behind" };
            self.set_message(format!("no failure stands {side} this row"), Tone::Dim);
        }
    }

    fn draw(&mut self, kind: DrawingKind) {
        let width = usize::from(self.size.0).saturating_sub(2);
        match self.run.as_ref().map(|run| run.stream.clone()) {
            Some(stream) if kind == DrawingKind::Sequence || is_task(&stream) => {
                self.ask(Ask::Drawing(stream, kind, width));
            }
            Some(_) => self.set_message("only tasks make calls: there is no tree to draw", Tone::Dim),
            None => self.set_message("open a stream first", Tone::Dim),
        }
    }

    fn ask_cause(&mut self) {
        if let Some(place) = self.run.as_ref().and_then(RunPane::selected) {
            self.ask(Ask::Cause(place));
        }
    }

    fn fold(&mut self) {
        if self.pane != Pane::Detail {
            let folded = self.run.as_mut().is_some_and(RunPane::fold);
            if !folded {
                self.set_message("this row has nothing to open", Tone::Dim);
            }
            return;
        }
        let Some(row) = self.detail.rows.get(self.detail.list.at) else { return };
        // A row inside of an open text folds the text.
        let is_row =
            |id: &Vec<usize>| self.detail.rows.iter().position(|row| row.id == *id && row.is_open.is_some());
        let Some(place) = is_row(&row.id.clone()) else {
            return self.set_message("this row has nothing to open", Tone::Dim);
        };
        let Some((id, is_open)) = self.detail.rows.get(place).map(|row| (row.id.clone(), row.is_open)) else {
            return;
        };
        let folds = self.detail.folds.entry(self.detail.tab).or_default();
        folds.insert(id, !is_open.unwrap_or_default());
        self.detail.list.select(place);
        self.lay_out_detail();
    }

    fn fold_all(&mut self) {
        if self.pane != Pane::Detail {
            if let Some(run) = &mut self.run {
                run.fold_all();
            }
            return;
        }
        let folds = self.detail.folds.entry(self.detail.tab).or_default();
        let is_folded = !folds.is_empty() && folds.values().all(|is_open| !is_open);
        folds.clear();
        if !is_folded {
            let inner = self.detail.rows.iter().filter(|row| row.is_open == Some(true) && row.id.len() > 1);
            folds.extend(inner.map(|row| (row.id.clone(), false)));
        }
        self.lay_out_detail();
    }

    fn pause(&mut self) {
        if self.live.paused_at.take().is_some() {
            self.set_message("following", Tone::Good);
            return self.refresh();
        }
        self.live.paused_at = Some(self.live.head);
        if self.live.writer.is_none() {
            self.set_message("paused; no program writes to this log now", Tone::Dim);
        }
    }

    /// Asks again for all that is shown of a log that goes on.
    pub(crate) fn refresh(&mut self) {
        if matches!(self.streams.listed, StreamList::Tasks(_)) {
            self.ask_first_streams();
        }
        self.ask_run();
        self.ask(Ask::Inbox);
    }
}

/// Returns the next place behind or before another one for which this holds.
pub(crate) fn next_where<T>(
    rows: &[T],
    at: usize,
    is_back: bool,
    holds: impl Fn(&T) -> bool,
) -> Option<usize> {
    if is_back {
        rows.iter().take(at).rposition(holds)
    } else {
        rows.iter().skip(at + 1).position(holds).map(|next| next + at + 1)
    }
}
