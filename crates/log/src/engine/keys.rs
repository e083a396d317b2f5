//! Keys of the tree `log`: the ordinal of a value (u64, big-endian), then one byte: 0 for the value itself, 1
//! to 9 for the spacers after it.

/// Bytes of every key.
const KEY_BYTES: usize = 9;

/// End of the ordinals: no log comes near it. A key beyond it is damage, and nothing may count up to it.
pub(crate) const ORDINALS_END: u64 = 1 << 56;

/// Spacers after the first value of each stride.
pub(crate) const SPACERS: u8 = 9;

/// The entry that a key of the tree names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// The value with this ordinal.
    Value(u64),
    /// A spacer after the value with this ordinal.
    Spacer(u64),
}

/// Returns the key of a value.
pub(crate) fn value_key(ordinal: u64) -> [u8; KEY_BYTES] {
    key(ordinal, 0)
}

/// Returns the key of a spacer, numbered from 1.
pub(crate) fn spacer_key(ordinal: u64, number: u8) -> [u8; KEY_BYTES] {
    key(ordinal, number)
}

fn key(ordinal: u64, last: u8) -> [u8; KEY_BYTES] {
    let mut key = [last; KEY_BYTES];
    if let Some(prefix) = key.first_chunk_mut::<8>() {
        *prefix = ordinal.to_be_bytes();
    }
    key
}

/// Reads a key; `None` if this release writes no such key.
pub(crate) fn parse(bytes: &[u8]) -> Option<Key> {
    let (ordinal, last) = bytes.split_first_chunk::<8>()?;
    let ordinal = Some(u64::from_be_bytes(*ordinal)).filter(|ordinal| *ordinal < ORDINALS_END)?;
    match last {
        [0] => Some(Key::Value(ordinal)),
        [1..=SPACERS] => Some(Key::Spacer(ordinal)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_ordinal_and_a_value_before_its_spacers() {
        assert!(value_key(255) < spacer_key(255, 1));
        assert!(spacer_key(255, 9) < value_key(256));
        assert_eq!(parse(&value_key(7)), Some(Key::Value(7)));
        assert_eq!(parse(&spacer_key(7, 9)), Some(Key::Spacer(7)));
    }

    #[test]
    fn a_key_of_another_length_or_ending_or_beyond_all_ordinals_is_none_of_ours() {
        assert_eq!(parse(&key(7, 10)), None);
        assert_eq!(parse(b"short"), None);
        assert_eq!(parse(&[0; 10]), None);
        assert_eq!(parse(&value_key(ORDINALS_END)), None);
        assert_eq!(parse(&value_key(ORDINALS_END - 1)), Some(Key::Value(ORDINALS_END - 1)));
    }
}
