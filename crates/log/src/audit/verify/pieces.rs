//! Checks the artifacts of a task that are added in pieces: nothing is added to one that is complete.

use std::collections::HashMap;

use proto_events::model::Artifact;

/// The artifacts of a task read so far, by id, and whether each takes further pieces.
#[derive(Default)]
pub(super) struct PiecesCheck(HashMap<String, bool>);

impl PiecesCheck {
    /// Takes an artifact that was added as a whole. Whether its id is that of another one.
    pub(super) fn accept_whole(&mut self, artifact: &Artifact) -> bool {
        let Some(id) = &artifact.id else { return false };
        let is_known = self.0.contains_key(id);
        self.0.entry(id.clone()).or_insert(false);
        is_known
    }

    /// Takes a piece and returns its fault.
    pub(super) fn accept_piece(&mut self, piece: &Artifact, is_last: bool) -> Option<String> {
        let Some(id) = &piece.id else {
            return Some("a piece of an artifact names no artifact".to_owned());
        };
        let before = self.0.insert(id.clone(), !is_last);
        (before == Some(false))
            .then(|| format!("a piece was added to the artifact `{id}`, which was complete"))
    }
}
