//! A strategy that cuts long answers of tools.

use proto_events::call::CutRule;
use proto_events::model::LlmRole;

use crate::context::error::{ContextError, SettingError};
use crate::context::history::History;
use crate::context::strategy::{ContextStrategy, Rules};
use crate::context::trim_rounds::prefix;
use crate::context::view::{Reduction, View};

/// The text that follows a cut text by default, so that the model sees that it is cut.
pub(crate) const MARKER: &str = "...[truncated]";

/// Cuts the answers of tools that are longer than a number of characters.
///
/// By the default rules the text with its marker has at most that length, the system's answers in a conversation without
/// native calls are cut as well, and the intent says which messages are cut: a text that ends like the marker is cut as any
/// other. A tool's answer whose call no message asks for is dropped, and nothing else is. By agentix's rules the marker stands behind the full length, and tells what was cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TruncateToolOutputs {
    max_chars: u64,
    marker: String,
    rules: Rules,
}

impl TruncateToolOutputs {
    /// Returns a strategy that keeps at most this number of characters of each answer.
    ///
    /// # Errors
    /// [`SettingError::MaxChars`] if the number is below 1.
    pub fn new(max_chars: i64) -> Result<Self, SettingError> {
        let max_chars =
            u64::try_from(max_chars).ok().filter(|max| *max >= 1).ok_or(SettingError::MaxChars)?;
        Ok(Self { max_chars, marker: MARKER.to_owned(), rules: Rules::default() })
    }

    /// Sets the text that follows a cut text.
    #[must_use]
    pub fn marker(self, marker: impl Into<String>) -> Self {
        Self { marker: marker.into(), ..self }
    }

    /// Sets the rules by which texts are cut.
    #[must_use]
    pub fn rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Returns the view after a cut of each message that is to be cut.
    fn each(history: &History<'_>, mut cut: impl FnMut(&mut View, u32)) -> Reduction {
        let mut view = history.view().clone();
        history.view().numbers().for_each(|number| cut(&mut view, number));
        if view == *history.view() { Reduction::Unchanged } else { Reduction::View(view) }
    }

    /// Cuts an answer, by agentix's rules, if it is a tool's text that is too long and does not end with the marker.
    fn cut_as_agentix(&self, history: &History<'_>, number: u32, view: &mut View) {
        if history.role(number) != Some(LlmRole::Tool) || history.characters(number) <= self.max_chars {
            return;
        }
        if history.borrowed_text(number).is_some_and(|text| !text.ends_with(&self.marker)) {
            view.cut(number, self.max_chars, &self.marker);
        }
    }
}

impl ContextStrategy for TruncateToolOutputs {
    fn name(&self) -> String {
        let marker =
            if self.marker == MARKER { String::new() } else { format!(", marker {:?}", self.marker) };
        format!("{}truncate-tool-outputs({}{marker})", prefix(self.rules), self.max_chars)
    }

    fn reduce(&self, history: &mut History<'_>) -> Result<Reduction, ContextError> {
        match self.rules {
            Rules::Agentix => {
                Ok(Self::each(history, |view, number| self.cut_as_agentix(history, number, view)))
            }
            Rules::Taskreel => history.without_orphans(|history| {
                Ok(Self::each(history, |view, number| {
                    if history.characters(number) > self.max_chars && history.is_answer(number) {
                        cut_to(history, view, number, self.max_chars, &self.marker);
                    }
                }))
            }),
        }
    }
}

/// Cuts a message so that its text, with the marker, has at most this number of characters. A marker that leaves no room
/// for the text is left out, and so is the tip of a result that was minimized.
pub(crate) fn cut_to(history: &History<'_>, view: &mut View, number: u32, characters: u64, marker: &str) {
    let room_behind = |chars: u64| characters.checked_sub(chars).filter(|kept| *kept > 0);
    let of_marker = marker.chars().count() as u64;
    let has_tip = view.cut_of(number).is_some_and(|cut| cut.rule != CutRule::Head);
    let of_tip = if has_tip { history.tip(number).chars().count() as u64 } else { 0 };
    let with_tip = if of_tip == 0 { None } else { room_behind(of_marker + 1 + of_tip) };
    match (with_tip, room_behind(of_marker)) {
        (Some(kept), _) => view.cut_with_tip(number, kept, marker),
        (None, Some(kept)) => view.cut(number, kept, marker),
        (None, None) => view.cut(number, characters, ""),
    }
}
