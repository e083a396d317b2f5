//! Names of files that somebody else chose, made harmless.

/// Returns the name under which part number `index` is saved: the last component of the name that was given, without
/// `..`, leading dots and control characters.
pub(super) fn cleaned(given: Option<&str>, index: usize) -> String {
    let given = given.unwrap_or_default();
    // Python's paths drop trailing slashes, and components that are a single dot.
    let last = given.split('/').rfind(|part| !matches!(*part, "" | "."));
    // Control characters go first: what stands behind one may be a dot.
    let name: String = last.unwrap_or_default().chars().filter(|char| !char.is_control()).collect();
    let name = name.replace("..", "");
    let name = name.trim_start_matches('.');
    if name.is_empty() { format!("file_{index}") } else { name.to_owned() }
}

/// Returns the name of the copy number `copy` of a file whose name is taken: the number stands before the ending.
pub(super) fn numbered(name: &str, copy: usize) -> String {
    match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => format!("{stem}-{copy}.{ending}"),
        _ => format!("{name}-{copy}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_visible_component() {
        for (given, name) in [
            ("../../etc/passwd", "passwd"),
            ("dir/", "dir"),
            ("..", "file_3"),
            ("/", "file_3"),
            (".bashrc", "bashrc"),
            ("a..b.txt", "ab.txt"),
            ("..\\..\\win.ini", "\\\\win.ini"),
            ("a\u{0}b", "ab"),
            ("\u{0}", "file_3"),
            ("\u{1}.bashrc", "bashrc"),
            ("\u{1}.\u{1}.", "file_3"),
            (".\u{1}.", "file_3"),
        ] {
            assert_eq!(cleaned(Some(given), 3), name, "{given}");
        }
        assert_eq!(cleaned(None, 0), "file_0");
        assert_eq!(numbered("a.tar.gz", 2), "a.tar-2.gz");
        assert_eq!(numbered("a", 2), "a-2");
    }
}
