//! Texts from outside: of errors, probes and approval handlers.

use crate::limits::ERROR_TEXT_BYTES;

/// Shortens an error's text, which is stored several times in the log; a cut text says so.
pub(crate) fn short(text: &str) -> String {
    let mut text = text.to_owned();
    shorten(&mut text);
    text
}

/// Shortens a text in place, as [`short`] does.
pub(crate) fn shorten(text: &mut String) {
    shorten_to(text, ERROR_TEXT_BYTES);
}

/// Shortens a text in place to this many bytes; a cut text says so.
pub(crate) fn shorten_to(text: &mut String, most: usize) {
    if text.len() <= most {
        return;
    }
    let note = format!("… ({} bytes in all)", text.len());
    // With its note the text is within the limit: shortened again, it stays as it is.
    let end = (0..=most.saturating_sub(note.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.truncate(end);
    text.push_str(&note);
}
