//! The rule for ids that become names of files and folders.

use crate::files::error::FileError;

/// Checks that an id has the characters of a2a-utils only, so that it names nothing but itself.
fn check(what: &'static str, value: &str) -> Result<(), FileError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if value.is_empty() || matches!(value, "." | "..") || !value.bytes().all(plain) {
        return Err(FileError::Identifier { what, value: value.to_owned() });
    }
    Ok(())
}

/// The ids that a store takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Ids {
    /// Letters, digits, `.`, `_` and `-`, as a2a-utils takes them since 0.7.
    #[default]
    Plain,
    /// Every id that is the name of one file or folder, as a2a-utils 0.2.0 took them.
    Names,
}

impl Ids {
    /// Checks an id.
    pub(super) fn check(self, what: &'static str, value: &str) -> Result<(), FileError> {
        // A file system takes names of up to 255 bytes, an ending included.
        let is_name = !matches!(value, "" | "." | "..") && !value.contains(['/', '\0']) && value.len() <= 200;
        if self == Self::Names && is_name { Ok(()) } else { check(what, value) }
    }
}
