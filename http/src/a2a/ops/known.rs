//! The card for callers that are known.

use proto_events::json::JsonText;

use crate::a2a::asking::Asking;
use crate::a2a::card::kept;
use crate::a2a::failure::{Failure, Kind};
use crate::a2a::wire::Form;

/// Returns the card for callers that are known.
pub(crate) fn extended(asking: &Asking) -> Result<JsonText, Failure> {
    if !asking.settings.is_secured() {
        let kind = match asking.form {
            Form::V1 => Kind::UnsupportedOperation,
            Form::V03 | Form::Rest03 => Kind::ExtendedAgentCardNotConfigured,
        };
        return Err(Failure::new(kind, "this agent has no extended card"));
    }
    Ok(kept(&asking.system, &asking.url, &asking.settings, false).card)
}
