//! The rule for ids that become names of files and folders.

use crate::files::error::FileError;
use crate::files::name::is_whole_on_windows;

/// The bytes of an id at most: file systems take names of 255, an ending included.
const ID_BYTES_MAX: usize = 250;

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
    /// Checks an id, so that it names nothing but itself.
    pub(super) fn check(self, what: &'static str, value: &str) -> Result<(), FileError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let has_characters = match self {
            Self::Plain => value.bytes().all(plain),
            Self::Names => !value.contains(['/', '\0']),
        };
        let is_name = !matches!(value, "" | "." | "..") && (cfg!(not(windows)) || is_whole_on_windows(value));
        if !has_characters || !is_name {
            return Err(FileError::Identifier { what, value: value.to_owned() });
        }
        let bytes = value.len();
        if bytes > ID_BYTES_MAX {
            return Err(FileError::LongIdentifier { what, bytes, limit: ID_BYTES_MAX });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_one_file() {
        let (longest, long) = ("a".repeat(250), "a".repeat(251));
        for ids in [Ids::Plain, Ids::Names] {
            for id in ["a", "..a", ".hidden", "A-1_b.c", &longest] {
                assert!(ids.check("task id", id).is_ok(), "{id}");
            }
            for id in ["", ".", "..", "a/b", "../a", "a\0", &long] {
                assert!(ids.check("task id", id).is_err(), "{id}");
            }
        }
        assert!(Ids::Plain.check("task id", "a:b").is_err() && Ids::Plain.check("task id", "é").is_err());
        assert!(Ids::Names.check("task id", "é b").is_ok());
    }
}
