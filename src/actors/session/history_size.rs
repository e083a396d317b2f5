//! The size of a session's history, for its automatic compaction.

use proto_events::session::Session;
use taskreel_log::context::MessagesEstimate;

/// The tokens of a history as far as they were counted: each message is counted once.
#[derive(Default)]
pub(super) struct WatchedHistory {
    /// The rewrites and messages of the history that was counted.
    rewrites: u64,
    counted: usize,
    estimate: MessagesEstimate,
    /// The last automatic compaction.
    pub(super) begun: Option<BegunCompaction>,
}

/// An automatic compaction that was begun: no other begins for the same history.
pub(super) struct BegunCompaction {
    /// The number of turns committed when it was begun.
    pub(super) commits: u64,
    /// The number of rewrites of the history when it was begun, or when its end was seen.
    pub(super) rewrites: u64,
    /// Whether it has ended since, and its own rewrite was not counted yet.
    pub(super) has_ended: bool,
}

impl WatchedHistory {
    /// Returns the estimated tokens of a history. A changed system prompt counts as it was.
    pub(super) fn tokens(&mut self, session: &Session) -> u64 {
        let history = session.history().as_slice();
        if self.rewrites != session.rewrites() || self.counted > history.len() {
            (self.counted, self.estimate) = (0, MessagesEstimate::default());
            self.rewrites = session.rewrites();
        }
        for message in history.get(self.counted..).unwrap_or_default() {
            self.estimate.add(message.role.as_str(), &message.content, message.name.as_deref());
        }
        self.counted = history.len();
        self.estimate.tokens()
    }
}
