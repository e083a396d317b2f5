//! The view of a history that a strategy returns: the messages that it keeps and how they are cut, as data.

use proto_events::call::{Cut, CutRule, KeptRange, MessageRule, Selection, Sizes};

/// The most bytes of all markers of a view: the intent holds them.
const MARKERS_MAX: usize = 16_384;

/// The answer of a strategy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reduction {
    /// All is sent as the strategy found it.
    Unchanged,
    /// The view is sent.
    View(View),
}

/// The messages that a strategy keeps, numbered as in the [`Transcript`](crate::context::Transcript), and how they are
/// cut.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    kept: Vec<KeptRange>,
    cuts: Vec<Cut>,
    markers: Vec<String>,
}

impl View {
    /// Returns the view of as many messages, all whole.
    pub fn all_whole(messages: u32) -> Self {
        let kept = (messages > 0).then_some(KeptRange { first: 0, count: messages });
        Self { kept: kept.into_iter().collect(), ..Self::default() }
    }

    /// Returns the numbers of the kept messages, in ascending order.
    pub fn numbers(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.kept.iter().flat_map(|range| range.first..range.first.saturating_add(range.count))
    }

    /// Returns the number of kept messages.
    pub fn count(&self) -> u32 {
        self.kept.iter().map(|range| range.count).fold(0, u32::saturating_add)
    }

    /// Whether the view is that of as many messages, all whole.
    pub fn is_whole(&self, messages: u32) -> bool {
        self.cuts.is_empty() && self.count() == messages
    }

    /// Whether a message is kept.
    pub fn keeps(&self, number: u32) -> bool {
        self.range_at(number).is_some_and(|range| number - range.first < range.count)
    }

    fn range_at(&self, number: u32) -> Option<&KeptRange> {
        let at = self.kept.partition_point(|range| range.first <= number);
        self.kept.get(at.checked_sub(1)?)
    }

    /// Returns the kept message before this one.
    pub fn before(&self, number: u32) -> Option<u32> {
        let number = number.checked_sub(1)?;
        let range = self.range_at(number)?;
        Some(number.min(range.first.saturating_add(range.count.saturating_sub(1))))
    }

    /// Keeps of the kept messages only those for which this holds.
    pub fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) {
        let mut kept: Vec<KeptRange> = Vec::new();
        for number in self.numbers().filter(|number| keep(*number)) {
            match kept.last_mut().filter(|last| last.first.saturating_add(last.count) == number) {
                Some(last) => last.count += 1,
                None => kept.push(KeptRange { first: number, count: 1 }),
            }
        }
        self.kept = kept;
        let cuts = std::mem::take(&mut self.cuts);
        self.cuts = cuts.into_iter().filter(|cut| self.keeps(cut.message)).collect();
    }

    /// Returns how a message is cut.
    pub fn cut_of(&self, number: u32) -> Option<Cut> {
        let at = self.cuts.binary_search_by_key(&number, |cut| cut.message).ok()?;
        self.cuts.get(at).copied()
    }

    /// Returns the text that follows a cut text.
    pub fn marker_of(&self, cut: Cut) -> &str {
        let at = cut.marker.and_then(|marker| usize::try_from(marker).ok());
        at.and_then(|at| self.markers.get(at)).map_or("", String::as_str)
    }

    /// Cuts a message to the first characters of the text that the view shows of it, followed by a marker, which may be
    /// empty. The text shown may already be a cut one with a marker of its own. A minimized result becomes the head of the
    /// whole text.
    pub fn cut(&mut self, number: u32, characters: u64, marker: &str) {
        let (mut kept, mut behind) = (characters, marker.to_owned());
        match self.cut_of(number) {
            Some(cut) if cut.rule != CutRule::Minimized && characters > cut.characters => {
                let of_marker = usize::try_from(characters - cut.characters).unwrap_or(usize::MAX);
                behind = self.marker_of(cut).chars().take(of_marker).chain(marker.chars()).collect();
                kept = cut.characters;
            }
            _ => {}
        }
        let marker = self.marker(behind);
        self.insert_cut(Cut { message: number, rule: CutRule::Head, characters: kept, marker });
    }

    /// Cuts a message whose result is minimized to the first characters of its whole text, followed by a marker and the tip.
    pub(crate) fn cut_with_tip(&mut self, number: u32, characters: u64, marker: &str) {
        let marker = self.marker(marker.to_owned());
        self.insert_cut(Cut { message: number, rule: CutRule::HeadWithTip, characters, marker });
    }

    /// Minimizes the result that a message tells, for a limit of so many characters. The message says where its result
    /// stands in the log.
    pub(crate) fn minimize(&mut self, number: u32, limit: u64) {
        self.insert_cut(Cut { message: number, rule: CutRule::Minimized, characters: limit, marker: None });
    }

    /// Shows a message whole again that was minimized.
    pub(crate) fn restore(&mut self, number: u32) {
        if let Ok(at) = self.cuts.binary_search_by_key(&number, |cut| cut.message) {
            self.cuts.remove(at);
        }
    }

    /// Returns the cuts, in ascending order of the messages.
    pub(crate) fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    fn insert_cut(&mut self, cut: Cut) {
        match self.cuts.binary_search_by_key(&cut.message, |cut| cut.message) {
            Ok(at) => {
                if let Some(old) = self.cuts.get_mut(at) {
                    *old = cut;
                }
            }
            Err(at) => self.cuts.insert(at, cut),
        }
    }

    fn marker(&mut self, text: String) -> Option<u32> {
        if text.is_empty() {
            return None;
        }
        let at = self.markers.iter().position(|marker| *marker == text).unwrap_or_else(|| {
            self.markers.push(text);
            self.markers.len() - 1
        });
        u32::try_from(at).ok()
    }

    /// Returns the selection for the intent of an inference, in which rules stand for all cuts but these.
    pub(crate) fn into_selection(
        self,
        strategy: String,
        sizes: Sizes,
        rules: Vec<MessageRule>,
        cuts: Vec<Cut>,
    ) -> Selection {
        let Self { kept, cuts: _, markers } = self;
        Selection { strategy, kept, cuts, markers, rules, sizes: Some(sizes) }
    }

    /// Returns the reason why this is not a view of as many messages.
    pub(crate) fn fault(&self, messages: u32) -> Option<String> {
        let Self { kept, cuts, markers } = self.clone();
        let of_markers: usize = markers.iter().map(String::len).sum();
        if of_markers > MARKERS_MAX {
            return Some(format!("its markers have {of_markers} bytes, more than {MARKERS_MAX}"));
        }
        let selection = Selection { kept, cuts, markers, ..Selection::default() };
        selection.count_of(messages).err().map(|fault| fault.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_knows_its_numbers_and_what_stands_before_each() {
        let mut view = View::all_whole(9);
        view.retain(|number| number != 3 && number != 7);
        assert_eq!(view.numbers().collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6, 8]);
        assert_eq!((view.count(), view.keeps(3), view.keeps(8), view.keeps(9)), (7, false, true, false));
        let before: Vec<_> = [0, 1, 4, 8].map(|number| view.before(number)).into();
        assert_eq!(before, [None, Some(0), Some(2), Some(6)]);
    }

    #[test]
    fn a_cut_of_a_minimized_result_is_the_head_of_the_whole_text() {
        let mut view = View::all_whole(2);
        view.minimize(1, 10);
        assert_eq!(view.cut_of(1).map(|cut| (cut.rule, cut.characters)), Some((CutRule::Minimized, 10)));
        view.cut_with_tip(1, 4, "!");
        let cut = view.cut_of(1).unwrap();
        assert_eq!((cut.rule, cut.characters, view.marker_of(cut)), (CutRule::HeadWithTip, 4, "!"));
        view.minimize(0, 10);
        view.cut(0, 12, "!");
        let cut = view.cut_of(0).unwrap();
        assert_eq!((cut.rule, cut.characters, view.marker_of(cut)), (CutRule::Head, 12, "!"));
        view.minimize(0, 10);
        view.restore(0);
        assert_eq!((view.cut_of(0), view.cuts().len()), (None, 1));
    }

    #[test]
    fn a_second_cut_is_of_the_text_that_the_first_one_shows() {
        let mut view = View::all_whole(2);
        view.cut(1, 10, "<cut>");
        view.cut(1, 12, "!");
        let cut = view.cut_of(1).unwrap();
        assert_eq!((cut.characters, view.marker_of(cut)), (10, "<c!"));
        view.cut(1, 4, "");
        let cut = view.cut_of(1).unwrap();
        assert_eq!((cut.characters, view.marker_of(cut)), (4, ""));
        view.retain(|number| number == 0);
        assert!(view.is_whole(1));
    }
}
