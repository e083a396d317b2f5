//! A strategy that keeps what fits the window of a model.

use proto_events::model::LlmRole;

use crate::context::counter::{MessageMeasure, TokenCounter};
use crate::context::error::{ContextError, SettingError};
use crate::context::history::{History, MeasuredHistory};
use crate::context::rounds::{Round, Rounds, head_end, question_of, rounds_begin};
use crate::context::strategy::{ContextStrategy, Rules};
use crate::context::trim_rounds::{kept_from, prefix};
use crate::context::truncate_tool_outputs::{MARKER, cut_to};
use crate::context::view::{Reduction, View};

/// Drops the oldest rounds of a history until what is sent fits the window of the model.
///
/// By the default rules the tokens sent never exceed the limit: the instructions, the newest question and the newest round
/// are always kept, the answers of that round are cut as far as needed, and where even that does not fit, the inference is
/// refused ([`ContextError::DoesNotFit`]). Each kept round keeps the question that it answers. By agentix's rules the first
/// task and the newest round are always kept, whatever their size.
#[derive(Debug, Clone)]
pub struct FitContextWindow {
    max_tokens: i64,
    reserve_tokens: i64,
    counting: MessageMeasure,
    rules: Rules,
}

impl FitContextWindow {
    /// Returns a strategy for a window of this number of tokens, counted by four characters for each.
    ///
    /// # Errors
    /// [`SettingError::MaxTokens`] if the number is below 1.
    pub fn new(max_tokens: i64) -> Result<Self, SettingError> {
        if max_tokens < 1 {
            return Err(SettingError::MaxTokens);
        }
        Ok(Self {
            max_tokens,
            reserve_tokens: 0,
            counting: MessageMeasure::default(),
            rules: Rules::default(),
        })
    }

    /// Sets the part of the window that is left for the answer, and for what is sent beside the messages. By the default rules
    /// a reserve of the whole window refuses every history; by agentix's the newest round is still sent.
    ///
    /// # Errors
    /// [`SettingError::NegativeReserve`] if the reserve is negative.
    pub fn reserve_tokens(self, tokens: i64) -> Result<Self, SettingError> {
        if tokens < 0 {
            return Err(SettingError::NegativeReserve);
        }
        Ok(Self { reserve_tokens: tokens, ..self })
    }

    /// Sets the counter of texts.
    #[must_use]
    pub fn counter(self, counter: impl TokenCounter) -> Self {
        self.counting(MessageMeasure::with(counter))
    }

    /// Sets the way in which messages are measured.
    #[must_use]
    pub fn counting(self, counting: MessageMeasure) -> Self {
        Self { counting, ..self }
    }

    /// Sets the rules by which the history is divided.
    #[must_use]
    pub fn rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    fn budget(&self) -> i64 {
        self.max_tokens.saturating_sub(self.reserve_tokens)
    }

    /// Returns the view by agentix's rules.
    fn as_agentix(&self, history: &mut History<'_>) -> Reduction {
        let measured = history.measure(&self.counting);
        let history = &*history;
        let begin = rounds_begin(history, Rules::Agentix);
        let mut running = before_rounds(history, &measured, begin, None);
        let mut from = None;
        for round in Rounds::back(history, Rules::Agentix) {
            let cost = cost_of(history, &measured, within(history.view(), round));
            if from.is_some() && running.saturating_add(cost) > self.budget() {
                break;
            }
            running = running.saturating_add(cost);
            from = Some(round.first);
        }
        from.map_or(Reduction::Unchanged, |from| kept_from(history, Rules::Agentix, begin, from))
    }

    /// Returns the view by the default rules.
    fn within_limit(&self, history: &mut History<'_>) -> Result<Reduction, ContextError> {
        if self.reserve_tokens >= self.max_tokens {
            return Err(ContextError::Setting { strategy: self.name(), why: SettingError::ReserveOfAll });
        }
        let measured = history.measure(&self.counting);
        let history = &*history;
        let begin = head_end(history);
        if measured.total_of(history, history.view()) <= self.budget() {
            return Ok(Reduction::Unchanged);
        }
        let mut fitting = WindowFit::from_history(history, &measured, begin);
        let mut cut = None;
        for round in Rounds::back(history, Rules::Taskreel) {
            let step = fitting.step(round);
            let exceeds = fitting.running.saturating_add(step.cost) > self.budget();
            if exceeds && fitting.from.is_some() {
                break;
            }
            if exceeds {
                cut = Some(self.cut_answers(&fitting, round, step)?);
            }
            fitting.accept_round(round, step);
            if exceeds {
                break;
            }
        }
        let WindowFit { pinned, from, .. } = fitting;
        let mut view = cut.unwrap_or_else(|| history.view().clone());
        let from = from.unwrap_or(u32::MAX);
        view.retain(|number| number < begin || number >= from || Some(number) == pinned);
        // The sum of what is sent decides, whatever a counter of the host returns.
        match measured.total_of(history, &view) {
            total if total > self.budget() => Err(self.does_not_fit(total)),
            _ => Ok(Reduction::View(view)),
        }
    }

    fn does_not_fit(&self, needed: i64) -> ContextError {
        let figure = |tokens: i64| u64::try_from(tokens).unwrap_or_default();
        ContextError::DoesNotFit { needed: figure(needed), limit: figure(self.budget()) }
    }

    /// Returns the view in which the answers of a round are cut to the longest common length that fits.
    fn cut_answers(
        &self,
        fitting: &WindowFit<'_, '_>,
        round: Round,
        step: RoundEffect,
    ) -> Result<View, ContextError> {
        let WindowFit { history, measured, .. } = *fitting;
        let answers: Vec<(u32, u64)> = within(history.view(), round)
            .filter(|number| history.is_answer(*number))
            .map(|number| (number, history.characters(number)))
            .collect();
        let not_cut = fitting.paid_with(round, step.pinned).filter(|number| !history.is_answer(*number));
        let others = fitting.running.saturating_add(cost_of(history, measured, not_cut));
        let at = |characters: u64| {
            let mut cut = history.view().clone();
            let longer = answers.iter().filter(|(_, chars)| *chars > characters);
            longer.for_each(|(number, _)| cut_to(history, &mut cut, *number, characters, MARKER));
            let tokens = answers.iter().map(|(number, _)| measured.tokens_in(history, *number, &cut));
            (others.saturating_add(tokens.fold(0, i64::saturating_add)), cut)
        };
        let (least, mut best) = at(0);
        if least > self.budget() {
            return Err(self.does_not_fit(least));
        }
        let (mut fits, mut exceeds) = (0, answers.iter().map(|(_, chars)| *chars).max().unwrap_or_default());
        while exceeds - fits > 1 {
            let middle = fits + (exceeds - fits) / 2;
            let (tokens, cut) = at(middle);
            if tokens <= self.budget() {
                (fits, best) = (middle, cut);
            } else {
                exceeds = middle;
            }
        }
        Ok(best)
    }
}

/// The rounds taken so far.
struct WindowFit<'h, 'a> {
    history: &'h History<'a>,
    measured: &'h MeasuredHistory,
    begin: u32,
    running: i64,
    /// The question that is paid for and stands before the rounds taken.
    pinned: Option<u32>,
    /// Whether no question stands before the rounds taken.
    is_unasked: bool,
    /// The first message of the oldest round taken.
    from: Option<u32>,
}

/// The effect of taking a round.
#[derive(Clone, Copy)]
struct RoundEffect {
    cost: i64,
    pinned: Option<u32>,
    is_unasked: bool,
}

impl<'h, 'a> WindowFit<'h, 'a> {
    /// Pays for what stands before all rounds, and for the newest question.
    fn from_history(history: &'h History<'a>, measured: &'h MeasuredHistory, begin: u32) -> Self {
        let pinned = question_of(history, begin, u32::MAX);
        let running = before_rounds(history, measured, begin, pinned);
        Self { history, measured, begin, running, pinned, is_unasked: pinned.is_none(), from: None }
    }

    /// Returns what a round costs, with the question that it answers.
    fn step(&self, round: Round) -> RoundEffect {
        let begins_with_it = self.history.role(round.first) == Some(LlmRole::User);
        let (pinned, is_unasked) =
            if begins_with_it { (None, self.is_unasked) } else { self.question(round.first) };
        let cost = cost_of(self.history, self.measured, self.paid_with(round, pinned));
        RoundEffect { cost, pinned, is_unasked }
    }

    /// Returns the messages that are paid for with a round: its own and the question that it answers, without the one that
    /// is paid for already.
    fn paid_with(&self, round: Round, question: Option<u32>) -> impl Iterator<Item = u32> {
        within(self.history.view(), round).chain(question).filter(|number| Some(*number) != self.pinned)
    }

    /// Returns the question before a message, and whether it is known to have none. The one that is pinned is that of
    /// all messages behind it, and where a message has none, no earlier one has: each message is looked at once.
    fn question(&self, number: u32) -> (Option<u32>, bool) {
        if self.is_unasked {
            return (None, true);
        }
        let pinned = self.pinned.filter(|pinned| *pinned <= number);
        let question = pinned.or_else(|| question_of(self.history, self.begin, number));
        (question, question.is_none())
    }

    fn accept_round(&mut self, round: Round, next: RoundEffect) {
        self.running = self.running.saturating_add(next.cost);
        self.pinned = next.pinned;
        self.is_unasked = next.is_unasked;
        self.from = Some(round.first);
    }
}

/// Returns the tokens of what stands before all rounds, and of a question.
fn before_rounds(
    history: &History<'_>,
    measured: &MeasuredHistory,
    begin: u32,
    question: Option<u32>,
) -> i64 {
    let numbers = history.view().numbers().take_while(|number| *number < begin).chain(question);
    measured.system().saturating_add(cost_of(history, measured, numbers))
}

/// Returns the numbers of a round that a view keeps, newest first.
fn within(view: &View, round: Round) -> impl Iterator<Item = u32> + '_ {
    let back = std::iter::successors(Some(round.last), |number| view.before(*number));
    back.take_while(move |number| *number >= round.first)
}

fn cost_of(history: &History<'_>, measured: &MeasuredHistory, numbers: impl Iterator<Item = u32>) -> i64 {
    numbers.fold(0, |sum: i64, number| sum.saturating_add(measured.tokens(history, number)))
}

impl ContextStrategy for FitContextWindow {
    fn name(&self) -> String {
        let reserve =
            if self.reserve_tokens == 0 { String::new() } else { format!("-{}", self.reserve_tokens) };
        let beside = self.counting.beside_texts();
        format!("{}fit-context-window({}{reserve}{beside})", prefix(self.rules), self.max_tokens)
    }

    fn reduce(&self, history: &mut History<'_>) -> Result<Reduction, ContextError> {
        match self.rules {
            Rules::Taskreel => history.without_orphans(|history| self.within_limit(history)),
            Rules::Agentix => Ok(self.as_agentix(history)),
        }
    }

    fn counting(&self) -> Option<&MessageMeasure> {
        Some(&self.counting)
    }

    fn limit(&self) -> Option<u64> {
        // By agentix's rules the first task and the newest round are sent whatever their size.
        let is_bound = self.rules == Rules::Taskreel;
        is_bound.then(|| u64::try_from(self.budget()).unwrap_or_default())
    }
}
