//! Text from the log made safe for a terminal.

/// Replaces control characters by blanks, so that no text from a log or an input moves the cursor.
pub(crate) fn strip_control_chars(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
