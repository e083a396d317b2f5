//! Tests of the screen without a terminal: keys go in, questions are answered at once, and what is drawn is compared.

mod hostile;
mod keys;
mod listed;
mod made;
mod screens;
mod terminal;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proto_events::envelope::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use taskreel_log::api::EventReader;
use taskreel_log::jsonl::JsonLines;
use taskreel_log::views::LogUse;

use crate::decide::Wish;
use crate::tui::ask::AskAnswer;
use crate::tui::keys::Key;
use crate::tui::marks::Marks;
use crate::tui::model::parts::{Effect, LogSource};
use crate::tui::model::{Action, Model};
use crate::tui::read::LogReading;
use crate::tui::view;
use crate::watch::SeenEnd;

/// The variable that has the screens written instead of compared.
const WRITES: &str = "TASKREEL_WRITE_SCREENS";

/// The marks of a coloured terminal.
const MARKS: Marks = Marks { is_unicode: true, is_coloured: true };

/// Returns the log of a file that stands in the repository.
fn log(file: &str) -> Arc<dyn EventReader> {
    let path = format!("{}/{file}", env!("CARGO_MANIFEST_DIR"));
    Arc::new(JsonLines::open_damaged(path).unwrap())
}

fn golden(name: &str) -> Arc<dyn EventReader> {
    log(&format!("../log/tests/golden/v2/{name}.ndjson"))
}

fn now() -> Timestamp {
    // A day behind the logs of these tests.
    Timestamp(1_795_700_000_000_000)
}

/// A screen without a terminal.
struct Stand {
    model: Model,
    reading: LogReading,
    decided: Arc<Mutex<Vec<Wish>>>,
    effects: Vec<Effect>,
}

impl Stand {
    fn new(reader: Arc<dyn EventReader>, size: (u16, u16)) -> Self {
        Self::with(reader, size, MARKS, LogUse::Exported)
    }

    fn with(reader: Arc<dyn EventReader>, size: (u16, u16), marks: Marks, used: LogUse) -> Self {
        let decided = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&decided);
        let decide = Arc::new(move |wish: &Wish| {
            noted.lock().unwrap().push(wish.clone());
            Ok("decided".to_owned())
        });
        let source = LogSource {
            name: "log.ndjson".to_owned(),
            used,
            url: None,
            note: None,
            other: None,
            typed: Arc::new(|command| format!("taskreel {command}")),
        };
        let mut model = Model::new(size, marks, jiff::tz::TimeZone::UTC, source);
        model.now = now;
        let reading = LogReading { reader, other: None, kept: Arc::default(), used, marks, decide };
        let mut stand = Self { model, reading, decided, effects: Vec::new() };
        stand.seen(Duration::ZERO);
        stand
    }

    /// Tells the end of the log, as the watch does.
    fn seen(&mut self, at: Duration) {
        let writer = (self.reading.used == LogUse::Open).then(|| "pid 1".to_owned());
        let head = self.reading.reader.head().map(|head| head.0).map_err(|error| error.to_string());
        self.model.update(Action::Seen(SeenEnd { head, writer, at }));
        self.answer();
    }

    /// Answers all questions, also those that come of the answers.
    fn answer(&mut self) {
        loop {
            let asks = self.model.take_asks();
            self.effects.extend(self.model.take_effects());
            if asks.is_empty() {
                return;
            }
            for ask in asks {
                let answer = self.reading.answer(&ask);
                let told = AskAnswer { ask, answer, took: Duration::ZERO };
                self.model.update(Action::Told(Box::new(told)));
            }
        }
    }

    fn key(&mut self, key: Key) {
        self.model.update(Action::Key(key));
        self.answer();
    }

    /// Presses keys: characters, and names in angle brackets such as `<Enter>`.
    fn keys(&mut self, keys: &str) -> &mut Self {
        let mut rest = keys;
        while let Some(letter) = rest.chars().next() {
            let named = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
            let key = named.and_then(|(name, _)| named_key(name));
            if let (Some(key), Some((_, behind))) = (key, named) {
                self.key(key);
                rest = behind;
            } else {
                self.key(Key::Char(letter));
                rest = &rest[letter.len_utf8()..];
            }
        }
        self
    }

    fn resize(&mut self, width: u16, height: u16) -> &mut Self {
        self.model.update(Action::Resize(width, height));
        self.answer();
        self
    }

    fn drawn(&self) -> Buffer {
        let (width, height) = self.model.size;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view::draw(&self.model, frame.buffer_mut())).unwrap();
        terminal.backend().buffer().clone()
    }

    fn shown(&self) -> String {
        text(&self.drawn())
    }

    /// Compares the screen with the one that is kept.
    #[track_caller]
    fn is(&self, name: &str) -> &Self {
        let (width, height) = self.model.size;
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join(format!("src/tui/tests/screens/{name}-{width}x{height}.txt"));
        let shown = self.shown();
        if std::env::var_os(WRITES).is_some() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, &shown).unwrap();
            return self;
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            shown == kept,
            "{} shows now, with {WRITES}=1 to keep it:\n{shown}\nand was\n{kept}",
            file.display()
        );
        self
    }
}

fn named_key(name: &str) -> Option<Key> {
    Some(match name {
        "Enter" => Key::Enter,
        "Esc" => Key::Esc,
        "Tab" => Key::Tab,
        "Up" => Key::Up,
        "Down" => Key::Down,
        "Left" => Key::Left,
        "Right" => Key::Right,
        "PgDn" => Key::PageDown,
        "PgUp" => Key::PageUp,
        "Home" => Key::Home,
        "End" => Key::End,
        "Backspace" => Key::Backspace,
        "C-d" => Key::Ctrl('d'),
        "C-u" => Key::Ctrl('u'),
        _ => return None,
    })
}

/// Returns the rows of a buffer, without the blanks at their ends.
fn text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let row: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}
