//! Keys as segments of a path.

/// Writes a key as a segment of a path: its dots and backslashes are escaped.
pub(super) fn escaped(key: &str) -> String {
    key.replace('\\', "\\\\").replace('.', "\\.")
}
