//! The checks of a card: how it is served, and what it says.

use proto_events::json::JsonText;
use taskreel_http::a2a::{Card, Options, Probe, Version};

use crate::a2a::check::table::Table;
use crate::a2a::failure::Failure;
use crate::a2a::shape::faults;

/// Checks how a card is served.
///
/// # Errors
/// [`Failure`] if the results cannot be written.
pub(crate) async fn served(url: &str, options: &Options, table: &mut Table<'_>) -> Result<(), Failure> {
    let asked = match Probe::new(options) {
        Ok(probe) => probe.ask("GET", url, &[], &[], None).await.map(|answer| (probe, answer)),
        Err(error) => Err(error),
    };
    let (probe, answer) = match asked {
        Ok(asked) => asked,
        Err(error) => return table.fail("card-found", "", error.to_string()),
    };
    table.unless("card-found", "", url, (answer.status != 200).then(|| format!("HTTP {}", answer.status)))?;
    match answer.header("content-type").map(media_type) {
        Some(kind) if is_json(&kind) => table.pass("card-media-type", "", kind)?,
        kind => table.fail(
            "card-media-type",
            "",
            format!("it is {}, not application/json", kind.unwrap_or_default()),
        )?,
    }
    match answer.header("cache-control") {
        Some(control) if control.contains("max-age") => table.pass("card-cache-control", "", control)?,
        Some(control) => table.warn("card-cache-control", "", format!("`{control}` names no max-age"))?,
        None => table.warn("card-cache-control", "", "there is no Cache-Control, which A2A advises")?,
    }
    let Some(tag) = answer.header("etag") else {
        return table.warn("card-etag", "", "there is no ETag, which A2A advises");
    };
    match probe.ask("GET", url, &[], &[("if-none-match", tag)], None).await {
        Ok(again) if again.status == 304 => table.pass("card-etag", "", tag),
        Ok(again) => table.warn(
            "card-etag",
            "",
            format!("HTTP {} to If-None-Match with the ETag, not 304", again.status),
        ),
        Err(error) => table.warn("card-etag", "", error.to_string()),
    }
}

/// Returns a media type without its parameters.
pub(crate) fn media_type(header: &str) -> String {
    header.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether a media type is JSON's, as A2A's bindings have it.
pub(crate) fn is_json(kind: &str) -> bool {
    matches!(kind, "application/json" | "application/a2a+json")
}

/// Checks what a card says, and returns it if an interface can be used.
///
/// # Errors
/// [`Failure`] if the results cannot be written.
pub(crate) fn read(json: &JsonText, from: &str, table: &mut Table<'_>) -> Result<Option<Card>, Failure> {
    let faults = faults(json);
    table.unless(
        "card-valid",
        "",
        "as A2A's schema has it",
        (!faults.is_empty()).then(|| faults.join("; ")),
    )?;
    let tree = json.tree();
    let has = |name: &str| tree.get(name).is_some();
    match (has("supportedInterfaces"), has("url")) {
        (true, true) => table.pass("card-versions", "", "readable by clients of 1.0 and of 0.3")?,
        (true, false) => table.pass("card-versions", "", "readable by clients of 1.0")?,
        (false, true) => table.warn("card-versions", "", "readable by clients of 0.3 alone")?,
        (false, false) => table.fail("card-versions", "", "it names no way to the agent")?,
    }
    let card = match Card::read(json, from) {
        Ok(card) => card,
        Err(error) => {
            table.fail("card-interfaces", "", error.to_string())?;
            return Ok(None);
        }
    };
    for why in &card.unusable {
        table.skip("interface", "", why)?;
    }
    let new = card.interfaces.iter().filter(|one| one.version == Version::V1).count();
    table.pass(
        "card-interfaces",
        "",
        format!("{} that are spoken here, {new} of them of 1.0", card.interfaces.len()),
    )?;
    Ok(Some(card))
}
