//! The division of a history: the leading system messages, the first task, and the rounds.

use proto_events::model::LlmRole;

use crate::context::facts::Asker;
use crate::context::history::History;
use crate::context::strategy::Rules;

/// The messages from the number `first` to the number `last` that are kept or dropped together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// The number of the first message.
    pub first: u32,
    /// The number of the last message.
    pub last: u32,
}

/// The rounds of a history, newest first, found as they are asked for.
pub(crate) struct Rounds<'h, 'a> {
    history: &'h History<'a>,
    rules: Rules,
    /// The number from which rounds are divided.
    begin: u32,
    /// The newest message that no round has yet.
    next: Option<u32>,
}

/// Returns the number after the leading system messages.
pub(crate) fn head_end(history: &History<'_>) -> u32 {
    let mut numbers = history.view().numbers();
    numbers.find(|number| history.role(*number) != Some(LlmRole::System)).unwrap_or(u32::MAX)
}

/// Returns the number of the first message that belongs to a round: behind the head, and under agentix's rules behind the
/// first task as well.
pub(crate) fn rounds_begin(history: &History<'_>, rules: Rules) -> u32 {
    let head = head_end(history);
    let is_task = rules == Rules::Agentix && history.role(head) == Some(LlmRole::User);
    if is_task { head.saturating_add(1) } else { head }
}

/// Returns the newest message of a user up to a number, behind the head.
pub(crate) fn question_of(history: &History<'_>, begin: u32, number: u32) -> Option<u32> {
    let from = if history.view().keeps(number) { Some(number) } else { history.view().before(number) };
    let back = std::iter::successors(from, |number| history.view().before(*number));
    back.take_while(|number| *number >= begin).find(|number| history.role(*number) == Some(LlmRole::User))
}

impl<'h, 'a> Rounds<'h, 'a> {
    pub(crate) fn back(history: &'h History<'a>, rules: Rules) -> Self {
        let begin = rounds_begin(history, rules);
        let next = history.view().numbers().next_back().filter(|number| *number >= begin);
        Self { history, rules, begin, next }
    }

    /// Whether a message begins a round.
    fn opens(&self, number: u32) -> bool {
        match (self.rules, self.history.role(number)) {
            (_, Some(LlmRole::Assistant)) => self.rules == Rules::Agentix || !self.follows_a_question(number),
            (Rules::Taskreel, Some(LlmRole::User)) => true,
            _ => false,
        }
    }

    /// Whether no message of the model stands between a user's message and this one.
    fn follows_a_question(&self, number: u32) -> bool {
        let view = self.history.view();
        let back = std::iter::successors(view.before(number), |number| view.before(*number));
        let mut back =
            back.take_while(|number| *number >= self.begin).filter_map(|number| self.history.role(number));
        back.find(|role| matches!(role, LlmRole::User | LlmRole::Assistant)) == Some(LlmRole::User)
    }
}

impl Iterator for Rounds<'_, '_> {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        let last = self.next?;
        let (mut first, mut asked_from) = (last, u32::MAX);
        loop {
            if let (Rules::Taskreel, Asker::At(asker)) = (self.rules, self.history.asker(first)) {
                asked_from = asked_from.min(asker);
            }
            self.next = self.history.view().before(first).filter(|number| *number >= self.begin);
            let is_begin = self.opens(first) && first <= asked_from;
            match self.next {
                Some(before) if !is_begin => first = before,
                _ => return Some(Round { first, last }),
            }
        }
    }
}

/// The division of a history by a set of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Division {
    /// The leading system messages.
    pub head: Vec<u32>,
    /// The first task, where the rules keep it apart.
    pub task: Option<u32>,
    /// The rounds, oldest first.
    pub rounds: Vec<Round>,
}

/// Returns the division of a history.
pub fn divide(history: &History<'_>, rules: Rules) -> Division {
    let (head, begin) = (head_end(history), rounds_begin(history, rules));
    let mut rounds: Vec<Round> = Rounds::back(history, rules).collect();
    rounds.reverse();
    Division {
        head: history.view().numbers().take_while(|number| *number < head).collect(),
        task: (begin > head).then_some(head),
        rounds,
    }
}
