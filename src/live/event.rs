//! The live events that a listener receives.

use std::sync::Arc;

use proto_events::call::CallRequested;

/// A live event, which is not in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Live {
    /// An attempt of a call was sent. Pieces received of earlier attempts are void.
    Began {
        /// The call.
        call_id: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// The next piece of a model's answer.
    Delta {
        /// The call.
        call_id: Arc<str>,
        /// The attempt that the piece belongs to.
        attempt: u32,
        /// The offset of the piece in this attempt's answer, in bytes: a gap shows that pieces were lost.
        at: usize,
        /// The piece.
        text: Arc<str>,
    },
    /// The next piece of the answer itself, without the model's grammar and unescaped: the content of its final action, or
    /// its words where it simply talks.
    Answer {
        /// The call.
        call_id: Arc<str>,
        /// The attempt that the piece belongs to.
        attempt: u32,
        /// The offset of the piece in this attempt's answer, in bytes: a gap shows that pieces were lost.
        at: usize,
        /// The piece.
        text: Arc<str>,
    },
    /// A tool reports its progress.
    Progress {
        /// The call.
        call_id: Arc<str>,
        /// The attempt that reports.
        attempt: u32,
        /// The tool's own text.
        text: Arc<str>,
    },
    /// The model is shown less than all messages: the agent's context strategy left some out or cut them. It comes once for
    /// each inference, before its first attempt.
    ContextReduced {
        /// The inference.
        call_id: Arc<str>,
        /// The size of all messages.
        before: ContextSize,
        /// The size of what is sent.
        after: ContextSize,
    },
    /// A call waits for a permit or for a turn at the rate limit of its target.
    Waiting {
        /// The call.
        call_id: Arc<str>,
        /// The target of the call.
        target: Arc<str>,
    },
    /// The listener was too slow and lost pieces; the newest follow.
    Lost {
        /// The number of lost pieces.
        pieces: u64,
    },
}

/// The size of the messages of an inference, by the counter of its context strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextSize {
    /// The number of messages, the leading system message included.
    pub messages: u32,
    /// The tokens of these messages.
    pub tokens: u64,
}

/// Returns the sizes before and after, if the intent of an inference sends less than all messages.
pub(crate) fn reduced_by(request: &CallRequested) -> Option<(ContextSize, ContextSize)> {
    let prompt = request.prompt.as_ref()?;
    let sizes = prompt.selection.as_ref()?.sizes.as_ref()?;
    let before = ContextSize { messages: sizes.messages_before, tokens: sizes.tokens_before };
    Some((before, ContextSize { messages: prompt.messages, tokens: sizes.tokens_after }))
}
