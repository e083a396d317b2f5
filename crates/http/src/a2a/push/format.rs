//! The forms of what is delivered, and the headers with secrets: registrations and deliveries share them.

use http::HeaderValue;
use http::header::InvalidHeaderValue;
use proto_events::id::StreamId;

use crate::a2a::wire::DataForm;

/// The name in a registration whose webhook is told stream responses of 1.0.
const OF_1: &str = "1.0";

/// The name in a registration whose webhook is told tasks of 0.3.
const OF_03: &str = "0.3";

/// A registration: its task's stream, and its id.
pub(crate) type Place = (StreamId, String);

/// Returns the name of what a registration in this form is told.
pub(crate) const fn word_of(form: DataForm) -> &'static str {
    match form {
        DataForm::V1 => OF_1,
        DataForm::V03 | DataForm::Rest03 => OF_03,
    }
}

#[cfg(feature = "client")]
/// Whether a registration with this word is told stream responses of 1.0, and not the whole task.
pub(crate) fn is_of_1(word: &str) -> bool {
    word != OF_03
}

/// Returns the value of a header that is not shown in logs.
///
/// # Errors
/// If the text cannot stand in a header.
pub(crate) fn secret_header(text: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}
