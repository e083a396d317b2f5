//! The media types that an agent takes and gives.

use crate::a2a::failure::{A2aFailure, FailureKind};
use crate::a2a::model::{Content, Part};
use crate::a2a::settings::A2aSettings;

/// Refuses a message with a part of a media type that the agent does not take.
pub(crate) fn check_parts(settings: &A2aSettings, parts: &[Part], path: &str) -> Result<(), A2aFailure> {
    if settings.input_modes.is_empty() {
        return Ok(());
    }
    for (at, part) in parts.iter().enumerate() {
        let usual = match part.content {
            Content::Text(_) => Some("text/plain"),
            Content::Data(_) => Some("application/json"),
            // A file that says nothing of itself is the agent's to judge.
            Content::Raw(_) | Content::Url(_) => None,
        };
        let Some(named) = part.media_type.as_deref().or(usual) else { continue };
        if !settings.input_modes.iter().any(|mode| fits(mode, named)) {
            let shown: String = named.chars().take(100).collect();
            let taken = settings.input_modes.join(", ");
            let text = format!("`{path}.parts[{at}]` is of the type {shown}; the agent takes {taken}");
            return Err(A2aFailure::new(FailureKind::ContentTypeNotSupported, text).with("mediaType", named));
        }
    }
    Ok(())
}

/// Refuses a client that accepts nothing that the agent gives.
pub(crate) fn check_accepted(settings: &A2aSettings, accepted: &[String]) -> Result<(), A2aFailure> {
    let given = &settings.output_modes;
    let is_any = |accepted: &String| given.iter().any(|mode| fits(accepted, mode) || fits(mode, accepted));
    if accepted.is_empty() || given.is_empty() || accepted.iter().any(is_any) {
        return Ok(());
    }
    let text = format!("the agent gives {}, none of which is accepted", given.join(", "));
    Err(A2aFailure::new(FailureKind::ContentTypeNotSupported, text))
}

/// Whether a media type is one of a mode, which may be a range. Parameters do not count.
fn fits(mode: &str, named: &str) -> bool {
    let bare = |text: &str| {
        let text = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        // A word that clients of 0.3 use.
        if text == "text" { "text/plain".to_owned() } else { text }
    };
    let (mode, named) = (bare(mode), bare(named));
    match mode.split_once('/') {
        Some(("*", "*")) => true,
        Some((kind, "*")) => named.split_once('/').is_some_and(|(named, _)| named == kind),
        _ => mode == named,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_a_type_or_a_range_of_types_and_parameters_do_not_count() {
        for (mode, named) in [
            ("text/plain", "text/plain"),
            ("text/plain", "TEXT/Plain; charset=utf-8"),
            ("text", "text/plain"),
            ("image/*", "image/png"),
            ("*/*", "x/y"),
        ] {
            assert!(fits(mode, named), "{mode} {named}");
        }
        for (mode, named) in
            [("text/plain", "text/html"), ("image/*", "text/plain"), ("image/*", "image"), ("", "x/y")]
        {
            assert!(!fits(mode, named), "{mode} {named}");
        }
    }
}
