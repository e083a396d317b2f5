//! The state of the screen, without a terminal and without a log: keys and answers change it, and it says which questions are to be
//! asked.

pub(crate) mod answers;
pub(crate) mod clipboard;
pub(crate) mod command;
pub(crate) mod compare_keys;
pub(crate) mod inbox;
pub(crate) mod input;
pub(crate) mod input_line;
pub(crate) mod layer;
pub(crate) mod layout;
pub(crate) mod list;
pub(crate) mod over;
pub(crate) mod page_keys;
pub(crate) mod parts;
pub(crate) mod places;
pub(crate) mod run;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use taskreel_log::ports::{Clock as _, SystemClock};

use crate::tui::ask::{Ask, AskAnswer, AskKind, ListPage, StreamList};
use crate::tui::data::EventRef;
use crate::tui::keys::Key;
use crate::tui::marks::{Marks, Tone};
use crate::tui::model::input_line::Input;
use crate::tui::model::layer::Over;
use crate::tui::model::parts::{
    ComparePage, DetailPane, END, Effect, InboxPage, Live, LogSource, Page, Pane, StreamsPane,
};
use crate::tui::model::run::RunPane;

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct Model {
    /// Columns and rows.
    pub(crate) size: (u16, u16),
    /// The marks.
    pub(crate) marks: Marks,
    /// The clock by which ages are told.
    pub(crate) now: fn() -> proto_events::envelope::Timestamp,
    /// The time zone in which times are shown.
    pub(crate) zone: jiff::tz::TimeZone,
    /// The log.
    pub(crate) source: LogSource,
    /// The end of the log, and whether it is followed.
    pub(crate) live: Live,
    /// The page that is shown.
    pub(crate) page: Page,
    /// The pane that has the keys.
    pub(crate) pane: Pane,
    /// The list of streams.
    pub(crate) streams: StreamsPane,
    /// The stream that is open.
    pub(crate) run: Option<RunPane>,
    /// The details of an event.
    pub(crate) detail: DetailPane,
    /// The inbox.
    pub(crate) inbox: InboxPage,
    /// The comparison.
    pub(crate) compare: ComparePage,
    /// The marked event.
    pub(crate) mark: Option<EventRef>,
    /// The text that is searched for.
    pub(crate) search: Option<String>,
    /// A layer over the page.
    pub(crate) over: Option<Over>,
    /// The line that is being typed.
    pub(crate) input: Option<Input>,
    /// Whether `y` was typed, and the next key says what is copied.
    pub(crate) is_copying: bool,
    /// The last message.
    pub(crate) said: Option<(String, Tone)>,
    /// The questions that wait for their answer.
    pub(crate) waiting: HashSet<AskKind>,
    /// The end of the log when something was last asked for, and the earliest time to ask again.
    asked: HashMap<AskKind, (u64, Duration)>,
    asks: Vec<Ask>,
    effects: Vec<Effect>,
}

/// A change from outside.
#[derive(Debug)]
pub(crate) enum Action {
    /// A key.
    Key(Key),
    /// A text that was pasted.
    Paste(String),
    /// Another size of the terminal.
    Resize(u16, u16),
    /// An answer.
    Told(Box<AskAnswer>),
    /// The end of the log.
    Seen(crate::watch::SeenEnd),
}

impl Model {
    /// Returns the state at the beginning, which asks for the streams and the inbox.
    pub(crate) fn new(size: (u16, u16), marks: Marks, zone: jiff::tz::TimeZone, source: LogSource) -> Self {
        let mut model = Self {
            size,
            marks,
            now: || SystemClock.now(),
            zone,
            source,
            live: Live::default(),
            page: Page::Run,
            pane: Pane::Streams,
            streams: StreamsPane::default(),
            run: None,
            detail: DetailPane::default(),
            inbox: InboxPage::default(),
            compare: ComparePage::default(),
            mark: None,
            search: None,
            over: None,
            input: None,
            is_copying: false,
            said: None,
            waiting: HashSet::new(),
            asked: HashMap::new(),
            asks: Vec::new(),
            effects: Vec::new(),
        };
        model.ask_first_streams();
        model.ask(Ask::Inbox);
        model
    }

    /// Takes a change.
    pub(crate) fn update(&mut self, action: Action) {
        match action {
            Action::Key(key) => self.key(key),
            Action::Paste(text) => self.paste(&text),
            Action::Resize(width, height) => self.resize(width, height),
            Action::Told(told) => self.accept_answer(*told),
            Action::Seen(seen) => self.seen(seen),
        }
        self.settle();
    }

    /// Returns the questions that are to be asked.
    pub(crate) fn take_asks(&mut self) -> Vec<Ask> {
        std::mem::take(&mut self.asks)
    }

    /// Returns what is to be done outside of the screen.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn ask(&mut self, ask: Ask) {
        let kind = ask.kind();
        let head = self.live.head;
        let next = self.asked.get(&kind).map_or(Duration::ZERO, |(_, next)| *next);
        self.asked.insert(kind, (head, next));
        self.waiting.insert(kind);
        self.asks.push(ask);
    }

    fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Says something in the last row.
    pub(crate) fn set_message(&mut self, text: impl Into<String>, tone: Tone) {
        self.said = Some((text.into(), tone));
    }

    fn key(&mut self, key: Key) {
        self.said = None;
        if key == Key::Ctrl('c') {
            return self.effect(Effect::Quit);
        }
        if key == Key::Ctrl('l') {
            return self.effect(Effect::Redraw);
        }
        if self.input.is_some() {
            return self.input_key(key);
        }
        if self.over.is_some() {
            return self.over_key(key);
        }
        if std::mem::take(&mut self.is_copying) {
            return self.copy_key(key);
        }
        let is_taken = match self.page {
            Page::Inbox => self.inbox_key(key),
            Page::Compare => self.compare_key(key),
            Page::Run => false,
        };
        if !is_taken {
            self.page_key(key);
        }
    }

    /// Takes a pasted text: into the line that is being typed, and nowhere else. Its letters are no keys.
    fn paste(&mut self, text: &str) {
        match &mut self.input {
            Some(input) => {
                input.text.extend(text.chars().map(|letter| if letter == '\n' { ' ' } else { letter }));
            }
            None => self.set_message("a pasted text goes nowhere: begin with / f : or a decision", Tone::Dim),
        }
    }

    fn resize(&mut self, width: u16, height: u16) {
        self.size = (width, height);
        self.lay_out_detail();
    }

    /// Moves lists so that their chosen rows are on the screen.
    fn settle(&mut self) {
        let height = self.body_height();
        self.streams.list.settle(self.streams.rows.len(), height.saturating_sub(1));
        if let Some(run) = &mut self.run {
            let len = run.rows.len();
            run.list.settle(len, height.saturating_sub(1));
        }
        let rows = self.detail.rows.len();
        self.detail.list.settle(rows, height.saturating_sub(1));
        let waiting = self.inbox.rows.len();
        let above = self.inbox_list_height();
        self.inbox.list.settle(waiting, above);
        self.lay_out_arguments();
        let steps = self.compare.runs.as_ref().map_or(0, |runs| runs.steps.len());
        let told = self.compare.runs.as_ref().is_some_and(|runs| !runs.prompts.is_empty());
        self.compare.list.settle(steps, height.saturating_sub(1 + usize::from(told)));
        if let Some(over) = &mut self.over {
            over.settle(height);
        }
    }

    /// Returns the rows between the first line of the screen and the two last ones.
    pub(crate) fn body_height(&self) -> usize {
        usize::from(self.size.1).saturating_sub(3)
    }

    /// Lists other streams.
    pub(crate) fn list_streams(&mut self, listed: StreamList) {
        self.streams.listed = listed;
        self.streams.list = list::List::default();
        self.streams.rows.clear();
        (self.streams.next, self.streams.as_of, self.streams.reached) = (None, None, END);
        self.ask_first_streams();
    }

    /// Asks for the streams that are listed, from the first one on.
    pub(crate) fn ask_first_streams(&mut self) {
        let (rows, reached) = (self.streams.rows.len(), self.streams.reached);
        self.ask(Ask::Streams(self.streams.listed.clone(), ListPage::First { rows, reached }));
    }
}
