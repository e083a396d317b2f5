//! The terminal: taken whole at the beginning, and given back as it was, whatever ends the command.

use std::io;
use std::io::{Stdout, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use crate::print::pager::FullScreen;

/// The sign that the terminal is taken. It is given back once, at the first of these: the end, a panic, a signal.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while it is taken.
pub(crate) struct Stage {
    /// The terminal to draw on.
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
    _notes: FullScreen,
}

impl Stage {
    /// Takes the terminal.
    ///
    /// # Errors
    /// The error of the terminal, which is then as it was.
    pub(crate) fn open() -> io::Result<Self> {
        let notes = FullScreen::start();
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        IS_TAKEN.store(true, Ordering::Release);
        let begun = enable_raw_mode()
            .and_then(|()| execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, Hide))
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match begun {
            Ok(terminal) => Ok(Self { terminal, _notes: notes }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        give_back();
    }
}

/// Whether the terminal is still taken: what is drawn after it was given back would stand among other lines.
pub(crate) fn is_taken() -> bool {
    IS_TAKEN.load(Ordering::Acquire)
}

/// Gives the terminal back as it was, if it is taken.
pub(crate) fn give_back() {
    if IS_TAKEN.swap(false, Ordering::AcqRel) {
        // Each step is tried, whatever became of the others.
        let _ = execute!(io::stdout(), DisableBracketedPaste);
        let _ = execute!(io::stdout(), LeaveAlternateScreen);
        let _ = execute!(io::stdout(), Show);
        let _ = disable_raw_mode();
        let _ = io::stdout().flush();
    }
}
