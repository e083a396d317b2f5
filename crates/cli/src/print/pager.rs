//! The pager: a long output to a terminal goes through a program in which it can be read page by page.

use std::io;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::print::plain::columns;

/// The variables that name the pager, the first one that is set decides.
const VARIABLES: [&str; 2] = ["TASKREEL_PAGER", "PAGER"];

/// The pager where none is named: it ends by itself if all fits on a screen, and keeps colours.
const DEFAULT: &str = "less -FRX";

/// Whether a pager shows the output now. It has the terminal, and SIGINT is its own.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// The notes that wait until the pager has ended.
static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Whether a pager has the terminal.
pub(crate) fn is_open() -> bool {
    IS_OPEN.load(Ordering::Acquire)
}

/// Whether something else than lines has the whole terminal.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// Keeps a note until the pager has ended, or the terminal shows lines again; returns whether it was kept.
pub(super) fn keeps(note: &str) -> bool {
    let is_kept = is_open() || IS_FULL.load(Ordering::Acquire);
    if is_kept {
        NOTES.lock().unwrap_or_else(PoisonError::into_inner).push(note.to_owned());
    }
    is_kept
}

/// The use of the whole terminal: until it is dropped, notes are kept.
#[cfg(feature = "tui")]
#[derive(Debug)]
pub(crate) struct FullScreen(());

#[cfg(feature = "tui")]
impl FullScreen {
    /// Takes the whole terminal.
    pub(crate) fn start() -> Self {
        IS_FULL.store(true, Ordering::Release);
        Self(())
    }
}

#[cfg(feature = "tui")]
impl Drop for FullScreen {
    fn drop(&mut self) {
        IS_FULL.store(false, Ordering::Release);
        tell_kept();
    }
}

/// Tells the notes that were kept.
fn tell_kept() {
    for note in NOTES.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        let _ = writeln!(io::stderr(), "{note}");
    }
}

/// Returns the pager's command, word by word; none if the user wants none.
fn command() -> Option<Vec<String>> {
    let named = VARIABLES.iter().find_map(|name| std::env::var(name).ok());
    let words: Vec<String> =
        named.as_deref().unwrap_or(DEFAULT).split_whitespace().map(str::to_owned).collect();
    (!words.is_empty() && words != ["cat"]).then_some(words)
}

/// An output that goes through the pager once it is longer than the screen.
pub(super) struct PagedOutput<W: Write> {
    out: W,
    size: (usize, usize),
    /// The bytes that were written so far, and the rows that they take.
    held: Vec<u8>,
    rows: usize,
    through: Through,
}

/// The way that the output takes.
enum Through {
    Undecided,
    Directly,
    Pager(Child),
}

impl<W: Write> PagedOutput<W> {
    /// Returns the output of a terminal of this many columns and rows.
    pub(super) fn new(out: W, size: (usize, usize)) -> Self {
        Self { out, size, held: Vec::new(), rows: 0, through: Through::Undecided }
    }

    /// Counts the rows that the pieces of lines take.
    fn count(&mut self, written: &[u8]) {
        let (width, _) = self.size;
        for line in String::from_utf8_lossy(written).split_inclusive('\n') {
            self.rows +=
                usize::from(line.ends_with('\n')) + columns(line.trim_end_matches('\n')) / width.max(1);
        }
    }

    fn enter(&mut self) -> io::Result<()> {
        let started = command().and_then(|words| {
            let (program, arguments) = words.split_first()?;
            Command::new(program).args(arguments).stdin(Stdio::piped()).spawn().ok()
        });
        self.through = started.map_or(Through::Directly, Through::Pager);
        IS_OPEN.store(matches!(self.through, Through::Pager(_)), Ordering::Release);
        self.release()
    }

    fn release(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        self.write(&held)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.through {
            Through::Pager(child) => child.stdin.as_mut().map_or(Ok(()), |pipe| pipe.write_all(bytes)),
            Through::Directly | Through::Undecided => self.out.write_all(bytes),
        }
    }
}

impl<W: Write> Write for PagedOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if matches!(self.through, Through::Undecided) {
            self.held.extend_from_slice(bytes);
            self.count(bytes);
            if self.rows >= self.size.1 {
                self.enter()?;
            }
        } else {
            self.write(bytes)?;
        }
        Ok(bytes.len())
    }

    /// Ends the wait for more: what fits on the screen is written to it.
    fn flush(&mut self) -> io::Result<()> {
        if matches!(self.through, Through::Undecided) {
            self.through = Through::Directly;
            self.release()?;
        }
        match &mut self.through {
            Through::Pager(child) => child.stdin.as_mut().map_or(Ok(()), Write::flush),
            _ => self.out.flush(),
        }
    }
}

impl<W: Write> Drop for PagedOutput<W> {
    fn drop(&mut self) {
        let _ = self.flush();
        if let Through::Pager(child) = &mut self.through {
            drop(child.stdin.take());
            let _ = child.wait();
            IS_OPEN.store(false, Ordering::Release);
            tell_kept();
        }
    }
}
