//! The reference of an inference's intent to what the model is shown. The messages themselves are not copied:
//! they are the fold of the stream that the reference names, up to the version that it names (R13).

use crate::call::selection::Selection;
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
    /// The digest of what was sent, as [`PromptRef::sent_digest`] makes it.
    pub digest: Digest,
    /// The version of the code that renders prompts.
    pub renderer: u16,
}

impl PromptRef {
    /// Returns the digest of what was sent: that of the whole prompt, made by [`PromptRef::digest_of`], and what was kept of
    /// it.
    pub fn sent_digest(&self, definition: Digest, read: Digest) -> Digest {
        let whole = Self::digest_of(self.renderer, definition, read);
        self.selection.as_ref().map_or(whole, |selection| selection.digest_of(whole))
    }

    /// Returns the digest of a whole prompt, from the renderer's version, the leaf hash of the record that holds the
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

    #[test]
    fn the_digest_of_a_read_depends_on_each_event_and_on_their_order() {
        let [a, b] = [Digest::compute(b"a"), Digest::compute(b"b")];
        let before = Digest::compute(b"before");
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
