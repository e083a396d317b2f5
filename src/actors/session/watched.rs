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
    /// The version for which a compaction was begun, or at which it ended, and the number of turns committed when it was begun.
    pub(super) begun: Option<(u64, u64)>,
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
