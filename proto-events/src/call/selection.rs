//! The part of a long history that an inference was shown, as its intent records it: which messages were kept and how they were
//! cut, as data from which what was sent is rendered again.

use crate::id::Digest;

/// The messages that a context strategy kept. Messages are numbered from 0, oldest first, without the leading system
/// message: the history's, then the turn's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// The name of the strategy.
    pub strategy: String,
    /// The ranges of messages that were kept, in ascending order.
    pub kept: Vec<KeptRange>,
    /// The kept messages that were cut, in ascending order, but those that a rule cuts.
    pub cuts: Vec<Cut>,
    /// The texts that follow cut texts.
    pub markers: Vec<String>,
    /// The rules that cut all other kept messages to which they apply. The first one that applies to a message counts.
    pub rules: Vec<MessageRule>,
    /// The sizes before and after; `None` in intents of the first schema version, which does not have them.
    pub sizes: Option<Sizes>,
}

/// The sizes of what a context strategy was given and of what it kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sizes {
    /// The name of the counter of tokens.
    pub counter: String,
    /// The number of messages before, the leading system message included.
    pub messages_before: u32,
    /// The tokens of these messages.
    pub tokens_before: u64,
    /// The tokens of what was kept.
    pub tokens_after: u64,
    /// The tokens that the strategy never exceeds, if it has such a bound.
    pub limit: Option<u64>,
}

/// A range of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptRange {
    /// The number of the first message.
    pub first: u32,
    /// The number of messages, at least 1.
    pub count: u32,
}

/// A message that was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The number of the message.
    pub message: u32,
    /// The rule that says what is sent.
    pub rule: CutRule,
    /// The number of characters (Unicode scalar values) that were kept, or the limit of a minimized form.
    pub characters: u64,
    /// The number of the marker that follows what was kept; `None` without one.
    pub marker: Option<u32>,
}

/// A cut of every message that tells the answer to a call and is long enough, so that an intent names a rule and not
/// each of the answers of a long history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRule {
    /// The rule that says what is sent, and to which messages it applies.
    pub rule: CutRule,
    /// The number of characters that were kept, or the limit of a minimized form.
    pub characters: u64,
    /// The number of the marker that follows what was kept; `None` without one.
    pub marker: Option<u32>,
    /// The numbers of the messages to which the rule applies and which it does not cut, in ascending order.
    pub except: Vec<u32>,
}

impl MessageRule {
    /// Returns the cut that the rule makes of a message to which it applies; `None` for an exception.
    pub fn cut_of(&self, message: u32) -> Option<Cut> {
        let Self { rule, characters, marker, except } = self;
        let cut = Cut { message, rule: *rule, characters: *characters, marker: *marker };
        except.binary_search(&message).is_err().then_some(cut)
    }
}

/// The rule that says what is sent in place of a cut message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CutRule {
    /// The beginning of the text: as many characters as the cut says, then the marker.
    Head,
    /// The minimized form of the result that the message tells, for a limit of as many characters as the cut says, with a
    /// tip that says how to see the rest.
    Minimized,
    /// As [`Head`](Self::Head), and behind the marker a space and the tip that a minimized form of the message would have.
    HeadWithTip,
}

impl CutRule {
    /// Returns the rule's name in printed output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Minimized => "minimized",
            Self::HeadWithTip => "head_with_tip",
        }
    }
}

/// A selection that does not fit the messages that it is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionFault {
    /// A range is empty, out of order, or ends behind the last message.
    #[error("its kept range from message {first} is empty, out of order or ends behind the last message")]
    Range {
        /// The number of the range's first message.
        first: u32,
    },
    /// A cut is out of order, of a message that is not kept, or names a marker that is not there.
    #[error(
        "its cut of message {message} is out of order, of a message that is not kept, or names a marker that is not there"
    )]
    Cut {
        /// The number of the message.
        message: u32,
    },
    /// A rule names a marker that is not there, or exceptions that are out of order or not kept.
    #[error(
        "its rule {rule} names a marker that is not there, or exceptions that are out of order or not kept"
    )]
    Rule {
        /// The place of the rule, from 0.
        rule: usize,
    },
}

impl Selection {
    /// Returns the number of messages kept of as many.
    ///
    /// # Errors
    /// [`SelectionFault`] if the selection is not one of these messages.
    pub fn count_of(&self, messages: u32) -> Result<u32, SelectionFault> {
        let (mut end, mut count) = (0_u32, 0_u32);
        for range in &self.kept {
            let next = range.first.checked_add(range.count).filter(|next| *next <= messages);
            match next {
                Some(next) if range.count > 0 && range.first >= end => {
                    (end, count) = (next, count + range.count);
                }
                _ => return Err(SelectionFault::Range { first: range.first }),
            }
        }
        let mut least = 0;
        for cut @ Cut { message, .. } in &self.cuts {
            if *message < least || !self.keeps(*message) || !self.has_marker(cut.marker) {
                return Err(SelectionFault::Cut { message: *message });
            }
            least = message.saturating_add(1);
        }
        let is_wrong = |rule: &MessageRule| {
            let in_order = rule.except.is_sorted_by(|a, b| a < b);
            !self.has_marker(rule.marker)
                || !in_order
                || !rule.except.iter().all(|message| self.keeps(*message))
        };
        match self.rules.iter().position(is_wrong) {
            Some(rule) => Err(SelectionFault::Rule { rule }),
            None => Ok(count),
        }
    }

    fn has_marker(&self, marker: Option<u32>) -> bool {
        let at = marker.map(usize::try_from);
        at.is_none_or(|at| at.is_ok_and(|at| at < self.markers.len()))
    }

    /// Returns the text that follows a cut text, if the selection has it.
    pub fn marker_of(&self, cut: Cut) -> Option<&str> {
        let marker = usize::try_from(cut.marker?).ok()?;
        self.markers.get(marker).map(String::as_str)
    }

    /// Returns the digest of a prompt of which this was sent, from the digest of the whole prompt.
    pub fn digest_of(&self, whole: Digest) -> Digest {
        let Some(sizes) = &self.sizes else { return whole };
        let mut bytes = Vec::new();
        let text = |text: &str, bytes: &mut Vec<u8>| {
            bytes.extend((text.len() as u64).to_be_bytes());
            bytes.extend(text.as_bytes());
        };
        text(&self.strategy, &mut bytes);
        text(&sizes.counter, &mut bytes);
        bytes.extend(u64::from(sizes.messages_before).to_be_bytes());
        let limit = [u64::from(sizes.limit.is_some()), sizes.limit.unwrap_or_default()];
        for figure in [sizes.tokens_before, sizes.tokens_after].into_iter().chain(limit) {
            bytes.extend(figure.to_be_bytes());
        }
        for count in [self.markers.len(), self.kept.len(), self.cuts.len()] {
            bytes.extend((count as u64).to_be_bytes());
        }
        self.markers.iter().for_each(|marker| text(marker, &mut bytes));
        for range in &self.kept {
            bytes.extend(range.first.to_be_bytes());
            bytes.extend(range.count.to_be_bytes());
        }
        for cut in &self.cuts {
            bytes.extend(cut.message.to_be_bytes());
            text(cut.rule.as_str(), &mut bytes);
            bytes.extend(cut.characters.to_be_bytes());
            bytes.extend(cut.marker.map_or(u64::MAX, u64::from).to_be_bytes());
        }
        for rule in &self.rules {
            text(rule.rule.as_str(), &mut bytes);
            bytes.extend(rule.characters.to_be_bytes());
            bytes.extend(rule.marker.map_or(u64::MAX, u64::from).to_be_bytes());
            bytes.extend((rule.except.len() as u64).to_be_bytes());
            rule.except.iter().for_each(|message| bytes.extend(message.to_be_bytes()));
        }
        Digest::of_parts(&[b"taskreel.sent", &whole.0, &bytes])
    }

    /// Whether a message was kept.
    pub fn keeps(&self, message: u32) -> bool {
        let at = self.kept.partition_point(|range| range.first <= message);
        let range = at.checked_sub(1).and_then(|at| self.kept.get(at));
        range.is_some_and(|range| message - range.first < range.count)
    }

    /// Returns the cut of a message that the selection names by its number. What a rule does to it is not part of it.
    pub fn cut_of(&self, message: u32) -> Option<Cut> {
        let at = self.cuts.binary_search_by_key(&message, |cut| cut.message).ok()?;
        self.cuts.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(kept: &[(u32, u32)], cuts: &[u32]) -> Selection {
        let kept = kept.iter().map(|(first, count)| KeptRange { first: *first, count: *count }).collect();
        let cut = |message: &u32| Cut { message: *message, rule: CutRule::Head, characters: 3, marker: None };
        let cuts = cuts.iter().map(cut).collect();
        Selection { strategy: "test".to_owned(), kept, cuts, ..Selection::default() }
    }

    #[test]
    fn a_selection_counts_what_it_keeps_and_names_what_does_not_fit() {
        let some = selection(&[(0, 1), (3, 2)], &[0, 4]);
        assert_eq!(some.count_of(5), Ok(3));
        let kept: Vec<u32> = (0..6).filter(|message| some.keeps(*message)).collect();
        assert_eq!(kept, [0, 3, 4]);
        assert_eq!(some.cut_of(4).map(|cut| cut.characters), Some(3));
        assert_eq!(some.cut_of(3), None);
        assert_eq!(some.count_of(4), Err(SelectionFault::Range { first: 3 }));
        for wrong in [&[(1, 0)][..], &[(3, 1), (1, 1)], &[(0, 2), (1, 1)], &[(u32::MAX, 2)]] {
            assert!(
                matches!(selection(wrong, &[]).count_of(9), Err(SelectionFault::Range { .. })),
                "{wrong:?}"
            );
        }
        for wrong in [&[2][..], &[4, 0], &[4, 4]] {
            let fault = selection(&[(0, 1), (3, 2)], wrong).count_of(5);
            assert!(matches!(fault, Err(SelectionFault::Cut { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn a_cut_names_a_marker_that_is_there() {
        let cut = Cut { message: 0, rule: CutRule::Head, characters: 2, marker: Some(0) };
        let mut selection = selection(&[(0, 1)], &[]);
        selection.cuts = vec![cut];
        assert_eq!(selection.count_of(1), Err(SelectionFault::Cut { message: 0 }));
        selection.markers = vec!["...".to_owned()];
        assert_eq!((selection.count_of(1), selection.marker_of(cut)), (Ok(1), Some("...")));
    }

    #[test]
    fn a_rule_cuts_all_but_its_exceptions_which_are_in_order() {
        let rule = MessageRule { rule: CutRule::Minimized, characters: 9, marker: None, except: vec![2, 5] };
        let of = |message| rule.cut_of(message).map(|cut| (cut.message, cut.rule, cut.characters));
        assert_eq!([of(1), of(2), of(5)], [Some((1, CutRule::Minimized, 9)), None, None]);
        let mut selection = selection(&[(0, 9)], &[]);
        selection.rules = vec![rule.clone()];
        assert_eq!(selection.count_of(9), Ok(9));
        for wrong in [
            MessageRule { except: vec![5, 2], ..rule.clone() },
            MessageRule { except: vec![2, 2], ..rule.clone() },
            MessageRule { except: vec![2, 9], ..rule.clone() },
            MessageRule { marker: Some(0), ..rule.clone() },
        ] {
            selection.rules = vec![rule.clone(), wrong];
            assert_eq!(selection.count_of(9), Err(SelectionFault::Rule { rule: 1 }));
        }
    }

    fn rule(except: &[u32]) -> MessageRule {
        MessageRule { rule: CutRule::Minimized, characters: 9, marker: None, except: except.to_vec() }
    }

    #[test]
    fn the_digest_of_what_was_sent_depends_on_each_fact_of_the_selection() {
        let whole = Digest::compute(b"whole");
        let mut first = selection(&[(0, 1), (3, 2)], &[0, 4]);
        assert_eq!(
            first.digest_of(whole),
            whole,
            "the first schema version has no sizes, and no digest of them"
        );
        first.sizes =
            Some(Sizes { counter: "c".to_owned(), messages_before: 6, tokens_before: 9, ..Sizes::default() });
        let change = |change: fn(&mut Selection, &mut Sizes)| {
            let mut changed = first.clone();
            let mut sizes = changed.sizes.take().unwrap();
            change(&mut changed, &mut sizes);
            changed.sizes = Some(sizes);
            changed.digest_of(whole).0
        };
        let all = [
            change(|_, _| {}),
            change(|selection, _| selection.strategy.push('!')),
            change(|selection, _| selection.kept[1].first = 2),
            change(|selection, _| selection.kept[1].count = 1),
            change(|selection, _| selection.cuts[0].message = 3),
            change(|selection, _| selection.cuts[0].characters = 4),
            change(|selection, _| selection.cuts[0].rule = CutRule::Minimized),
            change(|selection, _| selection.cuts[0].marker = Some(0)),
            change(|selection, _| selection.markers.push(String::new())),
            change(|selection, _| selection.rules.push(rule(&[]))),
            change(|selection, _| selection.rules.extend([rule(&[]), rule(&[])])),
            change(|selection, _| selection.rules.push(rule(&[1]))),
            change(|selection, _| selection.rules.push(rule(&[2]))),
            change(|selection, _| selection.rules.push(MessageRule { marker: Some(0), ..rule(&[]) })),
            change(|selection, _| selection.rules.push(MessageRule { characters: 8, ..rule(&[]) })),
            change(|selection, _| {
                selection.rules.push(MessageRule { rule: CutRule::HeadWithTip, ..rule(&[]) });
            }),
            change(|_, sizes| sizes.counter.push('!')),
            change(|_, sizes| sizes.messages_before = 7),
            change(|_, sizes| sizes.tokens_before = 8),
            change(|_, sizes| sizes.tokens_after = 8),
            change(|_, sizes| sizes.limit = Some(0)),
            whole.0,
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
