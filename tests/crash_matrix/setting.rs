//! The surroundings of a run's tasks: the agent before and after the crash, the clock, and the people who act at
//! the cut.

use crate::dice::Dice;
use crate::fuse::{CLOCK, PLACES};
use crate::run::TOOLS;

/// The surroundings of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Setting {
    /// The time between a crash and the start of the next process, in milliseconds.
    pub(crate) down_for: u64,
    /// The corrections of the clock in the middle of the run: when, and by how many milliseconds.
    pub(crate) clock_steps: Vec<(u64, i64)>,
    /// The correction of the clock between a crash and the restart, in milliseconds.
    pub(crate) step_at_cut: i64,
    /// The changes of the agent between a crash and the restart.
    pub(crate) changes: Vec<Change>,
    /// The acts of each task's person while the system recovers; nobody does anything if it is empty.
    pub(crate) hands: Vec<Hand>,
    /// The number of records of a recovery after which they act, for one cut after another.
    pub(crate) acts_after: Vec<usize>,
    /// The place in the host's code that panics in each process, and at which of its calls.
    pub(crate) panics: Option<(&'static str, u64)>,
}

/// A change of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Prompt,
    Model,
    /// The tool is not there any more.
    Removed(&'static str),
    /// The tool's schema refuses what it accepted.
    Narrowed(&'static str),
    /// The tool declares another recovery mode.
    Mode(&'static str),
}

/// The person's action for a call with an unknown outcome, for one that needs approval, for a question, or for the
/// waiting task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    Landed,
    DidNotHappen,
    Abandon,
    Message,
    Nothing,
}

/// The acts of a person on a task while the system recovers: on what it finds open, and apart from that.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "each act is done or not, apart from the others")]
pub(crate) struct Hand {
    pub(crate) care: Care,
    /// Whether it follows the log from then on, and settles each unknown call at once.
    pub(crate) follows: bool,
    pub(crate) tells: bool,
    pub(crate) posts: bool,
    pub(crate) cancels: bool,
}

impl Setting {
    pub(crate) fn of(dice: &mut Dice, down_for: u64) -> Self {
        let steps = if dice.below(4) == 0 { 1 + dice.below(2) } else { 0 };
        let clock_steps = (0..steps).map(|_| (dice.below(4_000), step(dice))).collect();
        let step_at_cut = if dice.below(4) == 0 { step(dice) } else { 0 };
        let changes = if dice.below(3) == 0 { 1 + dice.below(3) } else { 0 };
        let changes = (0..changes).map(|_| Change::of(dice)).collect();
        let hands = if dice.below(2) == 0 { 4 } else { 0 };
        let hands = (0..hands).map(|_| Hand::of(dice)).collect();
        let acts_after = (0..3).map(|_| [0, 0, 1, 2, 3, 5, 9, usize::MAX][dice.below(8) as usize]).collect();
        let place = PLACES[dice.below(PLACES.len() as u64) as usize];
        // The clock is asked often.
        let calls = 1 + dice.below(if place == CLOCK { 60 } else { 3 });
        let panics = (dice.below(3) == 0).then_some((place, calls));
        Self { down_for, clock_steps, step_at_cut, changes, hands, acts_after, panics }
    }

    /// Returns the settings that have one thing less.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        if !self.clock_steps.is_empty() {
            smaller.push(Self { clock_steps: Vec::new(), ..self.clone() });
        }
        if self.step_at_cut != 0 {
            smaller.push(Self { step_at_cut: 0, ..self.clone() });
        }
        for change in 0..self.changes.len() {
            let mut without = self.clone();
            without.changes.remove(change);
            smaller.push(without);
        }
        if self.panics.is_some() {
            smaller.push(Self { panics: None, ..self.clone() });
        }
        if !self.hands.is_empty() {
            smaller.push(Self { hands: Vec::new(), ..self.clone() });
        }
        smaller
    }
}

/// Returns a correction of minutes or hours, back or forth, in milliseconds.
fn step(dice: &mut Dice) -> i64 {
    let unit = if dice.below(2) == 0 { 60_000 } else { 3_600_000 };
    let by = unit * (1 + i64::try_from(dice.below(5)).unwrap());
    if dice.below(2) == 0 { by } else { -by }
}

impl Change {
    fn of(dice: &mut Dice) -> Self {
        let tool = TOOLS[dice.below(TOOLS.len() as u64) as usize];
        match dice.below(5) {
            0 => Self::Model,
            1 => Self::Removed(tool),
            // The schema of a function is its type's.
            2 if tool != "block" => Self::Narrowed(tool),
            2 | 3 => Self::Prompt,
            _ => Self::Mode(tool),
        }
    }
}

impl Hand {
    fn of(dice: &mut Dice) -> Self {
        let care = Care::of(dice);
        let follows = dice.below(3) == 0;
        // Who follows the log settles what it finds.
        let is_idle = matches!(care, Care::Nothing | Care::Message);
        let care = if follows && is_idle { Care::Landed } else { care };
        let (tells, posts, cancels) = (dice.below(4) == 0, dice.below(6) == 0, dice.below(4) == 0);
        Self { care, follows, tells, posts, cancels }
    }

    /// Whether it decides approvals and settles what is unknown.
    pub(crate) fn decides(self) -> bool {
        !matches!(self.care, Care::Nothing | Care::Message)
    }
}

impl Care {
    pub(crate) fn of(dice: &mut Dice) -> Self {
        match dice.below(6) {
            0 => Self::Landed,
            1 => Self::DidNotHappen,
            2 => Self::Abandon,
            3 => Self::Message,
            _ => Self::Nothing,
        }
    }
}
