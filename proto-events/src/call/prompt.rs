//! The reference of an inference's intent to what the model is shown. The messages themselves are not copied:
//! they are the fold of the stream that the reference names, up to the version that it names (R13).

use crate::id::{Digest, Version};

/// A reference to the messages shown to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptRef {
    /// The session stream whose history was read; `None` if the agent keeps no conversation: then the task's own
    /// stream was read.
    pub session: Option<String>,
    /// The version up to which the stream was read.
    pub read_through: Version,
    /// The revision of the agent's definition whose texts, tools and agents the model is shown.
    pub revision: u32,
    /// The number of messages sent, the leading system message included.
    pub messages: u32,
    /// The estimated tokens of these messages, where the task's budget limits them.
    pub tokens: Option<u64>,
    /// The messages that were kept and cut, where a context strategy did not keep all of them whole.
    pub selection: Option<Selection>,
    /// The digest of what was read, as [`PromptRef::digest_of`] makes it.
    pub digest: Digest,
    /// The version of the code that renders prompts.
    pub renderer: u16,
}

/// The messages that a context strategy kept. Messages are numbered from 0, oldest first, without the leading system
/// message: those of the history, then those of the turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// The name of the strategy.
    pub strategy: String,
    /// The ranges of messages that were kept, in ascending order.
    pub kept: Vec<KeptRange>,
    /// The kept messages that were cut, in ascending order.
    pub cuts: Vec<Cut>,
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
    /// The rule that says what was kept.
    pub rule: CutRule,
    /// The number of characters (Unicode scalar values) that were kept.
    pub characters: u64,
}

/// The rule that says which part of a cut message was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutRule {
    /// The beginning of the text.
    Head,
}

impl CutRule {
    /// Returns the rule's name in printed output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Head => "head",
        }
    }

    /// Returns the part of the text that the rule keeps.
    pub fn apply(self, text: &str, characters: u64) -> &str {
        let at = usize::try_from(characters).unwrap_or(usize::MAX);
        match self {
            Self::Head => {
                text.char_indices().nth(at).map_or(text, |(end, _)| text.get(..end).unwrap_or(text))
            }
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
    /// A cut is out of order, or of a message that is not kept.
    #[error("its cut of message {message} is out of order or of a message that is not kept")]
    Cut {
        /// The number of the message.
        message: u32,
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
        for Cut { message, .. } in &self.cuts {
            if *message < least || !self.keeps(*message) {
                return Err(SelectionFault::Cut { message: *message });
            }
            least = message.saturating_add(1);
        }
        Ok(count)
    }

    /// Whether a message was kept.
    pub fn keeps(&self, message: u32) -> bool {
        let at = self.kept.partition_point(|range| range.first <= message);
        let range = at.checked_sub(1).and_then(|at| self.kept.get(at));
        range.is_some_and(|range| message - range.first < range.count)
    }

    /// Returns the cut of a message.
    pub fn cut_of(&self, message: u32) -> Option<Cut> {
        let at = self.cuts.binary_search_by_key(&message, |cut| cut.message).ok()?;
        self.cuts.get(at).copied()
    }
}

impl PromptRef {
    /// Returns the digest of a prompt, from the renderer's version, the leaf hash of the record that holds the
    /// revision of the agent's definition, and the [`read_digest`] of the stream that was read.
    ///
    /// It is made of salted digests alone, so that an erased text cannot be guessed from it.
    pub fn digest_of(renderer: u16, definition: Digest, read: Digest) -> Digest {
        Digest::of_parts(&[b"taskreel.prompt", &renderer.to_be_bytes(), &definition.0, &read.0])
    }
}

/// Returns the digest of a stream up to an event: the leaf hash of the record that the event ends, if this record was
/// there before the append in question; else a digest over the leaf hash of the record before, and the salted digests of
/// the append's events up to this one.
pub fn read_digest(previous: Digest, events: impl IntoIterator<Item = Digest>) -> Digest {
    let mut events = events.into_iter().peekable();
    if events.peek().is_none() {
        return previous;
    }
    let events: Vec<Digest> = events.collect();
    let parts =
        [&b"taskreel.read"[..], &previous.0].into_iter().chain(events.iter().map(|digest| &digest.0[..]));
    Digest::of_all(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(kept: &[(u32, u32)], cuts: &[u32]) -> Selection {
        let kept = kept.iter().map(|(first, count)| KeptRange { first: *first, count: *count }).collect();
        let cut = |message: &u32| Cut { message: *message, rule: CutRule::Head, characters: 3 };
        Selection { strategy: "test".to_owned(), kept, cuts: cuts.iter().map(cut).collect() }
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
    fn a_head_is_cut_between_characters() {
        assert_eq!(CutRule::Head.apply("zoë!", 3), "zoë");
        assert_eq!(CutRule::Head.apply("zoë!", 9), "zoë!");
        assert_eq!(CutRule::Head.apply("zoë!", 0), "");
    }

    #[test]
    fn the_digest_of_a_read_depends_on_each_event_and_on_their_order() {
        let [a, b] = [Digest::of(b"a"), Digest::of(b"b")];
        let before = Digest::of(b"before");
        assert_eq!(read_digest(before, []), before);
        let all = [
            read_digest(before, [a]),
            read_digest(before, [a, b]),
            read_digest(before, [b, a]),
            read_digest(a, [b]),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().map(|digest| digest.0).collect();
        assert_eq!(different.len(), all.len());
    }
}
