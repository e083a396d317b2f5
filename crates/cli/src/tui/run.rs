//! The loop: keys, answers and the end of the log change the state, and the screen is drawn when it has changed, at most twenty times
//! a second. Reading is done on other threads.

use std::io;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{Event, poll, read};
use taskreel_log::api::EventReader;
use taskreel_log::sled::remove_private_copies;

use crate::args::Global;
use crate::decide::{DecideAt, Wish, carry_out_at};
use crate::opened_log::{LogLocation, OpenedLog};
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_OUTPUT, Problem};
use crate::signals::Interrupts;
use crate::tui::ask::{Ask, AskAnswer, AskKind};
use crate::tui::browse::BrowserServer;
use crate::tui::clipboard;
use crate::tui::keys::Key;
use crate::tui::marks::{Marks, Tone};
use crate::tui::model::parts::Effect;
use crate::tui::model::{Action, Model};
use crate::tui::read::reading_cache::KeptOf;
use crate::tui::read::{Decide, LogReading};
use crate::tui::stage::{Stage, give_back, is_taken};
use crate::tui::view;
use crate::watch::{LogWatch, Shared};

/// The least time between two drawings.
const DRAW_EVERY: Duration = Duration::from_millis(50);

/// The longest wait for a change.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// The most changes that are taken before the screen is drawn.
const TAKEN_MAX: usize = 1_000;

/// A word from another thread.
enum Word {
    /// A change of the state.
    Action(Action),
    /// The terminal is gone.
    Gone(io::Error),
    /// A signal asks the command to end.
    Interrupted,
    /// A thread has panicked, and said so on the terminal that was given back.
    Fallen,
}

/// Shows the screen until the end.
///
/// # Errors
/// [`Problem`] if the terminal cannot be drawn on, or a signal ended the command.
pub(crate) fn run(
    mut model: Model,
    opened: &OpenedLog,
    other: Option<&Arc<dyn EventReader>>,
    global: &Global,
) -> Result<Answer, Problem> {
    let (words, heard) = channel();
    let interrupts = Interrupts::take_over();
    let mut stage = Stage::open().map_err(|error| unusable(&error))?;
    // At the first signal the terminal is given back at once, whatever this thread does.
    let tell = words.clone();
    interrupts.tell(move || {
        give_back();
        let _ = tell.send(Word::Interrupted);
    });
    let is_over = Arc::new(AtomicBool::new(false));
    let shared = Shared::new(opened);
    let asks = Asks::start(&shared, opened, other, model.marks, &words);
    start_watch(&shared, opened, global, &is_over, &words);
    start_keys(&is_over, &words);
    let size = stage.terminal.size().map_err(|error| unusable(&error))?;
    model.update(Action::Resize(size.width, size.height));
    let mut screen = Loop { model, asks, opened, global, browsing: BrowserServer::default() };
    let ended = screen.run(&mut stage, &heard);
    is_over.store(true, Ordering::Release);
    drop(stage);
    // The pages first: what they read is dropped with them. Other threads may still hold readers of private copies.
    drop(screen);
    remove_private_copies();
    ended?;
    interrupts.now("nothing was changed by the screen itself").map_or(Ok(Answer::Yes), Err)
}

fn unusable(error: &io::Error) -> Problem {
    let hint = "check that the terminal still exists, and the variable TERM";
    Problem::new(EXIT_OUTPUT, "the terminal cannot be used", error.to_string(), hint)
}

fn fallen() -> Problem {
    let why = "a thread of it panicked; what it said stands above";
    let hint = "run the same command again, and report what it said";
    Problem::new(EXIT_OUTPUT, "the terminal inspector has failed", why, hint)
}

/// A thread whose panic ends the screen.
struct SourceSender(Sender<Word>);

impl Drop for SourceSender {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.send(Word::Fallen);
        }
    }
}

struct Loop<'a> {
    model: Model,
    asks: Asks,
    opened: &'a OpenedLog,
    global: &'a Global,
    browsing: BrowserServer,
}

impl Loop<'_> {
    fn run(&mut self, stage: &mut Stage, heard: &Receiver<Word>) -> Result<(), Problem> {
        let mut drawn: Option<Instant> = None;
        let mut is_new = true;
        loop {
            self.asks.send(self.model.take_asks());
            let wait = match drawn {
                _ if !is_new => WAIT_MAX,
                Some(drawn) => DRAW_EVERY.saturating_sub(drawn.elapsed()),
                None => Duration::ZERO,
            };
            let mut next = match heard.recv_timeout(wait) {
                Ok(word) => Some(word),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            if next.is_none() && is_new {
                self.draw(stage)?;
                (drawn, is_new) = (Some(Instant::now()), false);
                continue;
            }
            for _ in 0..TAKEN_MAX {
                match next.take().or_else(|| heard.try_recv().ok()) {
                    Some(Word::Action(action)) => self.model.update(action),
                    Some(Word::Interrupted) => return Ok(()),
                    Some(Word::Gone(error)) => return Err(unusable(&error)),
                    Some(Word::Fallen) => return Err(fallen()),
                    None => break,
                }
                is_new = true;
                for effect in self.model.take_effects() {
                    match effect {
                        Effect::Quit => return Ok(()),
                        effect => self.carry_out(effect, stage)?,
                    }
                }
            }
        }
    }

    fn draw(&mut self, stage: &mut Stage) -> Result<(), Problem> {
        if !is_taken() {
            return Ok(());
        }
        let model = &mut self.model;
        let drawn = stage.terminal.draw(|frame| {
            let area = frame.area();
            if model.size != (area.width, area.height) {
                model.update(Action::Resize(area.width, area.height));
            }
            view::draw(model, frame.buffer_mut());
        });
        drawn.map(drop).map_err(|error| unusable(&error))
    }

    fn carry_out(&mut self, effect: Effect, stage: &mut Stage) -> Result<(), Problem> {
        match effect {
            Effect::Quit => {}
            Effect::Redraw => stage.terminal.clear().map_err(|error| unusable(&error))?,
            Effect::Copy(text) => match clipboard::sequence(&text) {
                Some(sequence) => {
                    let mut out = io::stdout();
                    let written = out.write_all(sequence.as_bytes()).and_then(|()| out.flush());
                    written.map_err(|error| unusable(&error))?;
                }
                None => self.model.set_message("that is too long for the clipboard of a terminal", Tone::Bad),
            },
            Effect::Browse(place) => {
                match self.browsing.open(self.opened, self.global.scratch.as_deref(), &place) {
                    Ok(address) => self.model.set_message(format!("opened {address}"), Tone::Good),
                    Err(why) => self.model.set_message(why, Tone::Bad),
                }
            }
        }
        Ok(())
    }
}

/// The threads that answer questions: those that may take a pass over the log are answered beside the others.
struct Asks {
    quick: Sender<Ask>,
    slow: Sender<Ask>,
}

impl Asks {
    fn start(
        shared: &Shared,
        opened: &OpenedLog,
        other: Option<&Arc<dyn EventReader>>,
        marks: Marks,
        words: &Sender<Word>,
    ) -> Self {
        let decide = decide_at(opened.place.clone());
        let lane = |name: &str| {
            let (asks, asked) = channel();
            let told = words.clone();
            let (shared, other, decide, words) =
                (shared.clone(), other.cloned(), Arc::clone(&decide), words.clone());
            let work = move || {
                let mut kept = KeptOf::default();
                let mut reading = |reader, used| LogReading {
                    kept: kept.cache_for(&reader),
                    reader,
                    other: other.clone(),
                    used,
                    marks,
                    decide: Arc::clone(&decide),
                };
                answer_all(&asked, |ask| {
                    let (reader, used) = shared.now();
                    let began = Instant::now();
                    let answer = reading(reader, used).answer(&ask);
                    let told = AskAnswer { ask, answer, took: began.elapsed() };
                    words.send(Word::Action(Action::Told(Box::new(told)))).is_ok()
                });
            };
            start(name, &told, work);
            asks
        };
        Self { quick: lane("tui-quick"), slow: lane("tui-slow") }
    }

    fn send(&self, asks: Vec<Ask>) {
        for ask in asks {
            let lane = if ask.is_slow() { &self.slow } else { &self.quick };
            let _ = lane.send(ask);
        }
    }
}

/// Answers questions until nobody asks any more. Of waiting questions of one kind, only the last one is answered; decisions are all
/// carried out.
fn answer_all(asked: &Receiver<Ask>, mut answer: impl FnMut(Ask) -> bool) {
    let mut waiting: Vec<Ask> = Vec::new();
    loop {
        if waiting.is_empty() {
            let Ok(ask) = asked.recv() else { return };
            waiting.push(ask);
        }
        waiting.extend(asked.try_iter());
        let last = |at: usize, ask: &Ask| {
            let is_later = |later: &Ask| later.kind() == ask.kind();
            ask.kind() == AskKind::Decide || !waiting.iter().skip(at + 1).any(is_later)
        };
        let kept: Vec<bool> = waiting.iter().enumerate().map(|(at, ask)| last(at, ask)).collect();
        let mut kept = kept.into_iter();
        waiting.retain(|_| kept.next().unwrap_or(true));
        let ask = waiting.remove(0);
        if !answer(ask) {
            return;
        }
    }
}

/// Returns the way to carry out decisions about the log at a place.
fn decide_at(place: LogLocation) -> Decide {
    Arc::new(move |wish: &Wish| {
        let made = match &place {
            LogLocation::Server(args) => carry_out_at(DecideAt::Server(args), wish),
            #[cfg(unix)]
            LogLocation::Dir(dir, _) => carry_out_at(DecideAt::LocalSocket(dir), wish),
            _ => return Err("nobody takes decisions about this log".to_owned()),
        };
        made.map_err(|problem| format!("{}: {}", problem.what, problem.why))
    })
}

fn start(name: &str, words: &Sender<Word>, work: impl FnOnce() + Send + 'static) {
    let standing = SourceSender(words.clone());
    let work = move || {
        let _standing = standing;
        work();
    };
    // Without the thread its part of the screen stays as it is, and the keys go on.
    let _ = std::thread::Builder::new().name(name.to_owned()).spawn(work);
}

fn start_watch(
    shared: &Shared,
    opened: &OpenedLog,
    global: &Global,
    is_over: &Arc<AtomicBool>,
    words: &Sender<Word>,
) {
    let watch = LogWatch::new(shared.clone(), opened.clone(), global.clone(), Instant::now());
    let (is_over, words) = (Arc::clone(is_over), words.clone());
    start("tui-watch", &words.clone(), move || {
        watch.run(&is_over, |seen| words.send(Word::Action(Action::Seen(seen))).is_ok());
    });
}

fn start_keys(is_over: &Arc<AtomicBool>, words: &Sender<Word>) {
    let (is_over, words) = (Arc::clone(is_over), words.clone());
    start("tui-keys", &words.clone(), move || {
        while !is_over.load(Ordering::Acquire) {
            let event = match poll(Duration::from_millis(500)) {
                Ok(true) => read(),
                Ok(false) => continue,
                Err(error) => Err(error),
            };
            let action = match event {
                Ok(Event::Key(key)) => Key::from_event(key).map(Action::Key),
                Ok(Event::Paste(text)) => Some(Action::Paste(text)),
                Ok(Event::Resize(width, height)) => Some(Action::Resize(width, height)),
                Ok(_) => None,
                Err(error) => {
                    let _ = words.send(Word::Gone(error));
                    return;
                }
            };
            if let Some(action) = action
                && words.send(Word::Action(action)).is_err()
            {
                return;
            }
        }
    });
}
