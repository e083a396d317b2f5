//! The keys, and the table that tells of them.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// A character.
    Char(char),
    /// A character with the control key.
    Ctrl(char),
    /// Enter.
    Enter,
    /// Escape.
    Esc,
    /// Tab.
    Tab,
    /// Tab with the shift key.
    BackTab,
    /// An arrow up.
    Up,
    /// An arrow down.
    Down,
    /// An arrow to the left.
    Left,
    /// An arrow to the right.
    Right,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// The first row.
    Home,
    /// The last row.
    End,
    /// The deletion of the character before.
    Backspace,
}

impl Key {
    /// Returns the key of an event of the terminal; none for a key that is let go, or that has no meaning.
    pub(crate) fn from_event(event: KeyEvent) -> Option<Self> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        let is_control = event.modifiers.contains(KeyModifiers::CONTROL);
        Some(match event.code {
            KeyCode::Char(letter) if is_control => Self::Ctrl(letter.to_ascii_lowercase()),
            KeyCode::Char(_) if event.modifiers.contains(KeyModifiers::ALT) => return None,
            KeyCode::Char(letter) => Self::Char(letter),
            KeyCode::Enter => Self::Enter,
            KeyCode::Esc => Self::Esc,
            KeyCode::Tab => Self::Tab,
            KeyCode::BackTab => Self::BackTab,
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::Left => Self::Left,
            KeyCode::Right => Self::Right,
            KeyCode::PageUp => Self::PageUp,
            KeyCode::PageDown => Self::PageDown,
            KeyCode::Home => Self::Home,
            KeyCode::End => Self::End,
            KeyCode::Backspace => Self::Backspace,
            _ => return None,
        })
    }
}

/// The keys with their meanings, as the help shows them.
pub(crate) const HELP: &[(&str, &str)] = &[
    ("j k Down Up", "move by a row"),
    ("g G Home End", "go to the first or the last row"),
    ("PgDn PgUp Ctrl-d Ctrl-u", "move by a page, or by half a page"),
    ("h l Left Right Tab", "go to the next pane"),
    ("1 2 3 4", "go to the streams, the events, the details, the time bar"),
    ("Enter", "open a stream; show the details of an event; open or fold a value"),
    ("Esc", "go back; what was chosen and opened stays so"),
    ("i r v", "show the inbox, the run, the comparison of two runs"),
    ("< >", "show the tab before or behind: payload, prompt, call, state, diff, cause, recovery, raw"),
    ("p", "show the prompt of the last inference, exactly as the model was shown it"),
    ("z Z", "open or fold the events of a call, or of all calls; in the details all values"),
    (
        "/ n N",
        "search; go to the next or the one before. Events are searched with their whole arguments and results",
    ),
    (
        "f F x",
        "show only what fits, or what does not; show all again. Words are texts; also kind= tool= session= agent= state= model=",
    ),
    ("e E", "go to the next failure, or to the one before; to the next difference of two runs"),
    ("Space", "pause or follow what is written; the number of new events is counted meanwhile"),
    ("[ ]", "travel back or forth by one event"),
    ("{ }", "travel back or forth by one change of state"),
    ("m d", "mark an event; show the changes since the mark, or compare the run with the marked one"),
    (
        "s t",
        "draw the sequence diagram, or the tree of causes with times and failures; Enter goes to the event",
    ),
    ("c", "go to the cause of an event"),
    ("y then j", "copy the event or the chosen value as JSON, through the terminal (OSC 52)"),
    ("y then c", "copy the command that shows it; of a server, the request with curl"),
    ("y then l", "copy a link to it"),
    ("y then p", "copy the path of the chosen value, as --where takes it"),
    ("o", "open it in a browser"),
    ("a", "inbox: approve the call, or answer the question"),
    ("d", "inbox: deny the call, or decline to answer, with a reason"),
    ("l", "inbox: a call of unknown outcome took effect; its result as JSON is asked for"),
    ("n", "inbox: a call of unknown outcome did not happen"),
    ("x", "inbox: give up a call of unknown outcome, or cancel a task, with a reason"),
    (": open ID", "show a task, a session or a tool, by its id or a beginning of it"),
    (": at POINT", "go to a version, a position (@1204), a time, or -10 events before the end"),
    (": compare A B", "compare two runs; with --with, B is one of the other log"),
    (": tasks", "list tasks, those with the newest events first"),
    (": streams NAME", "list the streams whose names begin so, such as session- or tool-"),
    ("? : q", "this help, which typing searches; a command; quit"),
];
