//! A history as a strategy reads it, with the sizes of its messages as a view shows them.

use std::borrow::Cow;

use proto_events::call::{Cut, CutRule};
use proto_events::model::LlmRole;

use crate::context::counter::MessageMeasure;
use crate::context::cut_text::{PreparedCut, cut_text};
use crate::context::error::ContextError;
use crate::context::facts::{Asker, ConversationFacts};
use crate::context::transcript::{Content, MessageView, Transcript};
use crate::context::view::{Reduction, View};

/// A history as a strategy reads it: the messages, what is known of them, and the view of the strategies before it.
pub struct History<'a> {
    transcript: &'a dyn Transcript,
    facts: &'a mut ConversationFacts,
    view: View,
}

impl std::fmt::Debug for History<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("History").field("view", &self.view).finish_non_exhaustive()
    }
}

impl<'a> History<'a> {
    /// Returns the history of these messages, all whole. What the cache does not know yet is read.
    pub fn new(transcript: &'a dyn Transcript, facts: &'a mut ConversationFacts) -> Self {
        facts.read(transcript);
        let view = View::all_whole(transcript.count());
        Self { transcript, facts, view }
    }

    /// Returns the view so far.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Replaces the view so far, for the next strategy of a chain.
    pub fn set_view(&mut self, view: View) {
        self.view = view;
    }

    /// Returns a message, whole.
    pub fn message(&self, number: u32) -> Option<MessageView<'a>> {
        self.transcript.message(number)
    }

    /// Returns the role of a message.
    pub fn role(&self, number: u32) -> Option<LlmRole> {
        self.message(number).map(|message| message.role)
    }

    /// Returns the characters that the view shows of a message's text.
    pub fn characters(&self, number: u32) -> u64 {
        let whole = self.whole_characters(number);
        let Some(cut) = self.view.cut_of(number) else { return whole };
        let count = |text: &str| text.chars().count() as u64;
        match cut.rule {
            CutRule::Minimized => self.minimized(number, cut),
            _ if cut.characters >= whole => whole,
            CutRule::Head => cut.characters.saturating_add(count(self.view.marker_of(cut))),
            CutRule::HeadWithTip => {
                let behind = count(self.view.marker_of(cut)) + 1 + count(self.tip(number));
                cut.characters.saturating_add(behind)
            }
        }
    }

    /// Returns the characters of a message's whole text; 0 for one of parts.
    pub(crate) fn whole_characters(&self, number: u32) -> u64 {
        self.facts.chars(number)
    }

    /// Returns the text that the view shows of a message; `None` for one of parts.
    pub fn text(&self, number: u32) -> Option<String> {
        self.borrowed_text(number).map(Cow::into_owned)
    }

    /// Returns the text that the view shows of a message, borrowed where it is not cut; `None` for one of parts.
    pub(crate) fn borrowed_text(&self, number: u32) -> Option<Cow<'a, str>> {
        let message = self.message(number)?;
        Some(self.shown_text(&message, message.text()?, number, &self.view))
    }

    /// Returns the text that a view shows of a message.
    fn shown_text<'t>(
        &self,
        message: &MessageView<'_>,
        text: &'t str,
        number: u32,
        view: &View,
    ) -> Cow<'t, str> {
        let Some(cut) = view.cut_of(number) else { return Cow::Borrowed(text) };
        let (marker, tip) = (view.marker_of(cut), self.tip(number));
        cut_text(PreparedCut { rule: cut.rule, characters: cut.characters, marker, tip }, message.role, text)
    }

    /// Returns the tip that says how to see the rest of a message's result; empty where the message does not say where it
    /// stands in the log.
    pub(crate) fn tip(&self, number: u32) -> &str {
        self.facts.tip(number)
    }

    /// Whether the form in which a view shows a minimized message is shorter than the whole one.
    pub(crate) fn is_shorter_in(&self, number: u32, view: &View) -> bool {
        let whole = self.whole_characters(number);
        view.cut_of(number).is_some_and(|cut| self.minimized(number, cut) < whole)
    }

    /// Returns the characters of a message that this cut minimizes.
    pub(crate) fn minimized(&self, number: u32, cut: Cut) -> u64 {
        let Some(message) = self.message(number) else { return 0 };
        self.facts.minimized().characters(cut, &message, self.tip(number))
    }

    /// Whether a message is the answer to a call: a tool's, the system's right after a message of the model, or the system's
    /// note with a result, as it stands where a run goes on with the result of a call that had waited.
    pub fn is_answer(&self, number: u32) -> bool {
        match self.role(number) {
            Some(LlmRole::Tool) => true,
            Some(LlmRole::System) => {
                let before = self.view.before(number);
                let follows = before.and_then(|before| self.role(before)) == Some(LlmRole::Assistant);
                follows || self.facts.is_note(number)
            }
            _ => false,
        }
    }

    /// Counts the messages that this way of counting has not counted yet, and returns their tokens.
    pub fn measure(&mut self, counting: &MessageMeasure) -> MeasuredHistory {
        let counter = self.facts.count_with(counting, self.transcript);
        let system = self.transcript.system().map_or(0, |text| self.facts.system_tokens(counting, text));
        MeasuredHistory { counting: counting.clone(), counter, system }
    }

    pub(crate) fn asker(&self, number: u32) -> Asker {
        self.facts.asker(number)
    }

    /// Returns the answer of a strategy that is given the history without answers whose call nobody asked for.
    pub(crate) fn without_orphans(
        &mut self,
        reduce: impl FnOnce(&mut Self) -> Result<Reduction, ContextError>,
    ) -> Result<Reduction, ContextError> {
        if !self.facts.has_orphans() {
            return reduce(self);
        }
        let before = self.view.clone();
        let mut whole_pairs = before.clone();
        whole_pairs.retain(|number| self.asker(number) != Asker::Missing);
        self.view = whole_pairs;
        let reduced = reduce(self);
        let kept = std::mem::replace(&mut self.view, before);
        let after = match reduced? {
            Reduction::Unchanged => kept,
            Reduction::View(view) => view,
        };
        Ok(if after == self.view { Reduction::Unchanged } else { Reduction::View(after) })
    }

    /// Returns the reason why a view of this history cannot be sent.
    pub(crate) fn fault(&self, view: &View) -> Option<String> {
        if let Some(fault) = view.fault(self.transcript.count()) {
            return Some(fault);
        }
        let parted = (0..self.transcript.count()).find(|number| match self.asker(*number) {
            Asker::At(asker) => view.keeps(asker) != view.keeps(*number),
            Asker::None | Asker::Missing => false,
        });
        parted.map(|number| format!("message {number} answers a call, and only one of the two is kept"))
    }
}

/// The tokens of a history's messages, by one way of counting.
#[derive(Debug, Clone)]
pub struct MeasuredHistory {
    counting: MessageMeasure,
    counter: usize,
    system: i64,
}

impl MeasuredHistory {
    /// Returns the tokens of the leading system message that has no number.
    pub fn system(&self) -> i64 {
        self.system
    }

    /// Returns the tokens of a message as the history's view shows it.
    pub fn tokens(&self, history: &History<'_>, number: u32) -> i64 {
        self.tokens_in(history, number, &history.view)
    }

    /// Returns the tokens of a message as a view shows it.
    pub fn tokens_in(&self, history: &History<'_>, number: u32, view: &View) -> i64 {
        let whole = || history.facts.tokens(self.counter, number);
        let Some(cut) = view.cut_of(number) else { return whole() };
        let Some(message) = history.message(number) else { return whole() };
        let Some(text) = message.text() else { return whole() };
        if cut.rule == CutRule::Minimized {
            return history.facts.minimized().tokens(cut, &message, history.tip(number), &self.counting);
        }
        let text = history.shown_text(&message, text, number, view);
        self.counting.message(&MessageView { content: Content::Text(&text), ..message })
    }

    /// Returns the tokens of all that a view shows, the leading system message included.
    pub fn total_of(&self, history: &History<'_>, view: &View) -> i64 {
        if view.is_whole(history.transcript.count()) {
            return self.system.saturating_add(history.facts.total(self.counter));
        }
        let numbers = view.numbers();
        numbers.fold(self.system, |sum, number| sum.saturating_add(self.tokens_in(history, number, view)))
    }
}
