//! The signatures of a card, and the keys that the user trusts for them.

use std::path::Path;

use proto_events::json::JsonText;
use taskreel_http::a2a::{Card, CardKeys};

use crate::a2a::failure::{CARD_INVALID, Failure};
use crate::a2a::settings::Settings;
use crate::print::problem::EXIT_NO;

/// The most bytes of a file with keys.
const KEYS_MAX: u64 = 1024 * 1024;

/// Returns the keys that the settings name, if any.
///
/// # Errors
/// [`Failure`] if the file is not a JSON Web Key Set of public keys.
fn keys(settings: &Settings) -> Result<Option<CardKeys>, Failure> {
    let Some(path) = settings.text("card-keys") else { return Ok(None) };
    let wrong = |why: String| {
        let hint = "name a JSON Web Key Set (RFC 7517) of public keys";
        Failure::usage(format!("the keys in {path} cannot be used: {why}"), hint)
    };
    let path = Path::new(path);
    if std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len() > KEYS_MAX {
        return Err(wrong("the file is too large".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    CardKeys::from_jwks(&text).map(Some).map_err(|error| wrong(error.to_string()))
}

/// Reads a card. With keys, what none of them has signed is not read.
///
/// # Errors
/// [`Failure`] if it is not a card, or one that none of the keys has signed.
pub(crate) fn read(json: &JsonText, from: &str, settings: &Settings) -> Result<Card, Failure> {
    let Some(keys) = keys(settings)? else {
        return Card::read(json, from).map_err(|error| Failure::from_answer(&error, false));
    };
    Card::verified(json, from, &keys).map_err(|error| {
        let hint = "`card get` shows the card; without --card-keys it is believed as it came";
        Failure::new(CARD_INVALID, EXIT_NO, error.to_string(), hint)
    })
}

/// Says what is known of a card's signatures: verified, not verified, or absent.
///
/// # Errors
/// [`Failure`] if the keys cannot be used.
pub(crate) fn outcome(json: &JsonText, settings: &Settings) -> Result<String, Failure> {
    let keys = keys(settings)?;
    let tree = json.tree();
    let count = tree.get("signatures").and_then(|all| all.as_array()).map_or(0, Vec::len);
    Ok(match keys {
        _ if count == 0 => "absent".to_owned(),
        None => format!("{count}, not verified"),
        Some(keys) => match Card::verified(json, "the card", &keys) {
            Ok(_) => format!("{count}, verified by a key of --card-keys"),
            Err(error) => format!("{count}, not verified: {error}"),
        },
    })
}
