//! The ends of attempts ([`AttemptEnd`](crate::actors::shared::messages::AttemptEnd)): how they are made, and their size.

use proto_events::call::recovery::RetryWish;
use proto_events::call::{CallFailure, FailureClass};
use proto_events::json::JsonText;
use proto_events::task::HandlerSays;

use crate::actors::shared::messages::AttemptEnd;

impl AttemptEnd {
    /// Returns the success of an attempt that writes and says nothing.
    pub(crate) fn succeeded(result: JsonText) -> Self {
        Self::Succeeded { result, usage: None, writes: Vec::new(), says: Vec::new() }
    }

    /// Returns the size of what a success brings.
    pub(crate) fn bytes(&self) -> usize {
        let Self::Succeeded { result, says, .. } = self else { return 0 };
        let said = says.iter().flat_map(HandlerSays::parts).map(|part| part.content().as_str().len());
        result.as_str().len().saturating_add(said.sum())
    }

    /// Returns the failure for a result that the log cannot hold: the effect happened, the answer is lost.
    pub(crate) fn too_large(bytes: usize, limit: usize) -> Self {
        let message = format!("the result has {bytes} bytes; an event of the log holds at most {limit}");
        let class = FailureClass::AfterEffect;
        let failure = CallFailure { class, error_type: "TooLarge".to_owned(), message, usage: None };
        Self::Failed { failure, retry: RetryWish::Never }
    }
}
