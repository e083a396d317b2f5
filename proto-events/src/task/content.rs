//! The content of a command as bytes, which distinguishes a repeated command from another one.

/// Returns a word and fields as bytes, each after its length, so that no two lists have the same bytes.
pub fn fields(word: &str, fields: &[&str]) -> Vec<u8> {
    let all = || std::iter::once(word).chain(fields.iter().copied());
    let mut content = Vec::with_capacity(all().map(|field| 8 + field.len()).sum());
    for field in all() {
        content.extend_from_slice(&(field.len() as u64).to_be_bytes());
        content.extend_from_slice(field.as_bytes());
    }
    content
}
