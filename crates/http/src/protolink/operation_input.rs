//! The values that a request gives an operation.

use proto_events::json::JsonText;

use crate::auth::caller::Caller;
use crate::error::Problem;

/// The input of an operation, from its request.
#[derive(Debug, Clone, Default)]
pub(crate) struct OperationInput {
    /// The body; `None` if it is empty.
    pub(crate) body: Option<JsonText>,
    /// The caller, if its credentials were checked.
    pub(crate) caller: Option<Caller>,
    /// The address of the agent, as the client sees it.
    pub(crate) url: String,
    /// The place from which a stream continues.
    pub(crate) last_event_id: Option<String>,
}

impl OperationInput {
    /// Returns the body of an operation that needs one.
    ///
    /// # Errors
    /// [`Problem`] if it is empty.
    pub(crate) fn needed(&self) -> Result<&JsonText, Problem> {
        self.body.as_ref().ok_or_else(|| Problem::malformed("the body is empty; it must be a JSON object"))
    }
}
