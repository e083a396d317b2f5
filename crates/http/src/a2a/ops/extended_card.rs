//! The card for callers that are known.

use proto_events::json::JsonText;

use crate::a2a::a2a_request::A2aRequest;
use crate::a2a::card::cached_card;
use crate::a2a::failure::{A2aFailure, FailureKind};
use crate::a2a::wire::DataForm;

/// Returns the card for callers that are known.
pub(crate) fn extended(asking: &A2aRequest) -> Result<JsonText, A2aFailure> {
    if !asking.settings.is_secured() {
        let kind = match asking.form {
            DataForm::V1 => FailureKind::UnsupportedOperation,
            DataForm::V03 | DataForm::Rest03 => FailureKind::ExtendedAgentCardNotConfigured,
        };
        return Err(A2aFailure::new(kind, "this agent has no extended card"));
    }
    Ok(cached_card(&asking.system, &asking.url, &asking.settings, false).card)
}
