//! A strategy that keeps the newest rounds.

use crate::context::error::{ContextError, SettingError};
use crate::context::history::History;
use crate::context::rounds::{Rounds, head_end, question_of, rounds_begin};
use crate::context::strategy::{ContextStrategy, Rules};
use crate::context::view::Reduction;

/// Keeps the newest rounds of a history and drops the others. By the default rules the question that the oldest kept round
/// answers is kept too; by agentix's the first task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrimRounds {
    max_rounds: u32,
    rules: Rules,
}

impl TrimRounds {
    /// Returns a strategy that keeps at most this number of rounds.
    ///
    /// # Errors
    /// [`SettingError::MaxRounds`] if the number is below 1.
    pub fn new(max_rounds: i64) -> Result<Self, SettingError> {
        match u32::try_from(max_rounds) {
            Ok(max_rounds) if max_rounds >= 1 => Ok(Self { max_rounds, rules: Rules::default() }),
            Err(_) if max_rounds > 0 => Ok(Self { max_rounds: u32::MAX, rules: Rules::default() }),
            _ => Err(SettingError::MaxRounds),
        }
    }

    /// Sets the rules by which the history is divided.
    #[must_use]
    pub fn rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    fn newest(self, history: &History<'_>) -> Reduction {
        let begin = rounds_begin(history, self.rules);
        let most = usize::try_from(self.max_rounds).unwrap_or(usize::MAX);
        let mut rounds = Rounds::back(history, self.rules);
        let oldest = rounds.by_ref().take(most).last();
        match oldest.filter(|_| rounds.next().is_some()) {
            Some(oldest) => kept_from(history, self.rules, begin, oldest.first),
            None => Reduction::Unchanged,
        }
    }
}

impl ContextStrategy for TrimRounds {
    fn name(&self) -> String {
        format!("{}trim-rounds({})", prefix(self.rules), self.max_rounds)
    }

    fn reduce(&self, history: &mut History<'_>) -> Result<Reduction, ContextError> {
        match self.rules {
            Rules::Agentix => Ok(self.newest(history)),
            Rules::Taskreel => history.without_orphans(|history| Ok(self.newest(history))),
        }
    }
}

/// Returns the name of a set of rules in front of a strategy's name.
pub(crate) fn prefix(rules: Rules) -> &'static str {
    match rules {
        Rules::Taskreel => "",
        Rules::Agentix => "agentix/",
    }
}

/// Returns the view with all rounds from this message on, and with what the rules keep in front of them.
pub(crate) fn kept_from(history: &History<'_>, rules: Rules, begin: u32, from: u32) -> Reduction {
    let question = match rules {
        Rules::Agentix => None,
        Rules::Taskreel => question_of(history, head_end(history), from),
    };
    let is_kept = |number: u32| number < begin || number >= from || Some(number) == question;
    if history.view().numbers().all(is_kept) {
        return Reduction::Unchanged;
    }
    let mut view = history.view().clone();
    view.retain(is_kept);
    Reduction::View(view)
}
