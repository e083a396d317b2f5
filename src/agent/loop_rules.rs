//! The rules of the loop that carries out an `infer` part.

/// The rules by which a model's replies are read and its turns end, see [`Builder::loop_rules`](crate::Builder::loop_rules).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoopRules {
    /// A reply asks for an action only where it says so by itself.
    ///
    /// * A model with native tools asks by tool calls alone; its text is its answer.
    /// * Any other model asks by a reply that is one JSON object. A leading block of reasoning, such as `<think>…</think>`, and
    ///   one code fence around the whole rest are taken off before.
    /// * An action is refused as already made only if no other call has succeeded since, and its tool has effects.
    /// * A turn in which a call was sent is kept in the conversation however it ends, with a note that says why it ended.
    #[default]
    Taskreel,
    /// The rules of Protolink 0.6.4, for hosts that compare the two.
    ///
    /// **Unsafe with texts of others:** an action is the part of a reply from its first `{` to its last `}`, so a model that
    /// quotes an action, to explain it or to refuse it, carries it out. An action is refused if it is among the last five,
    /// whatever was done since. A turn that fails or is canceled leaves the conversation, with the calls that it made.
    Protolink,
}
