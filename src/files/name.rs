//! Names of files that somebody else chose, made harmless.

/// The bytes of a name at most: file systems take 255, and a part of a digest may be added.
const NAME_BYTES_MAX: usize = 200;

/// The bytes of an ending that a shortened name keeps.
const ENDING_BYTES_MAX: usize = 20;

/// Characters with a meaning of their own in names on Windows.
const WINDOWS_CHARACTERS: [char; 8] = ['\\', ':', '*', '?', '"', '<', '>', '|'];

/// Returns the name under which part number `index` is saved: the last component of the name that was given, without
/// `..`, leading dots and control characters, and not longer than file systems take.
pub(super) fn cleaned(given: Option<&str>, index: usize) -> String {
    let given = given.unwrap_or_default();
    // Python's paths drop trailing slashes, and components that are a single dot.
    let last = given.split('/').rfind(|part| !matches!(*part, "" | "."));
    // Control characters go first: what stands behind one may be a dot.
    let name: String = last.unwrap_or_default().chars().filter(|char| !char.is_control()).collect();
    let name = name.replace("..", "");
    let name = shortened(name.trim_start_matches('.'));
    let name = if cfg!(windows) { for_windows(&name) } else { name };
    if name.is_empty() { format!("file_{index}") } else { name }
}

/// The digits of a content's digest that distinguish a name which another content has. The second is for a caller that takes the
/// first name too.
const DISTINGUISHING_DIGITS: [usize; 2] = [16, 32];

/// Returns the names of a content whose own name is taken by another one, in the order in which they are tried: the
/// beginning of its SHA-256 stands before the ending. The same content has the same names however many files there are.
pub(super) fn distinguished(name: &str, sha256: &str) -> [String; 2] {
    DISTINGUISHING_DIGITS.map(|digits| {
        let digits = sha256.get(..digits).unwrap_or(sha256);
        match name.rsplit_once('.') {
            Some((stem, ending)) if !stem.is_empty() => format!("{stem}-{digits}.{ending}"),
            _ => format!("{name}-{digits}"),
        }
    })
}

/// Cuts a name that is too long before its ending.
fn shortened(name: &str) -> String {
    if name.len() <= NAME_BYTES_MAX {
        return name.to_owned();
    }
    let ending =
        name.rfind('.').and_then(|at| name.get(at..)).filter(|ending| ending.len() <= ENDING_BYTES_MAX);
    let ending = ending.unwrap_or_default();
    let most = NAME_BYTES_MAX - ending.len();
    let stem = (0..=most).rev().find_map(|end| name.get(..end)).unwrap_or_default();
    format!("{stem}{ending}")
}

/// Returns a name that Windows takes as that of one file: no character with a meaning of its own, no dot or space at the end,
/// not the name of a device.
fn for_windows(name: &str) -> String {
    let plain: String =
        name.chars().map(|char| if WINDOWS_CHARACTERS.contains(&char) { '_' } else { char }).collect();
    let plain = plain.trim_end_matches(['.', ' ']);
    if is_device(plain) { format!("_{plain}") } else { plain.to_owned() }
}

/// Whether Windows reads a name, which may have an ending, as that of a device.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let numbered =
        |port: &str| stem.strip_prefix(port).is_some_and(|rest| matches!(rest.as_bytes(), [b'0'..=b'9']));
    matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL") || numbered("COM") || numbered("LPT")
}

/// Whether Windows takes a name as that of one file or folder, as it stands.
pub(super) fn is_whole_on_windows(name: &str) -> bool {
    for_windows(name) == name
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
            ("a\u{0}b", "ab"),
            ("\u{0}", "file_3"),
            ("\u{1}.bashrc", "bashrc"),
            ("\u{1}.\u{1}.", "file_3"),
            (".\u{1}.", "file_3"),
        ] {
            assert_eq!(cleaned(Some(given), 3), name, "{given}");
        }
        #[cfg(unix)]
        assert_eq!(cleaned(Some("..\\..\\win.ini"), 3), "\\\\win.ini");
        assert_eq!(cleaned(None, 0), "file_0");
        let digest = "0123456789abcdef".repeat(4);
        let [short, long] = distinguished("a.tar.gz", &digest);
        assert_eq!(short, "a.tar-0123456789abcdef.gz");
        assert_eq!(long, "a.tar-0123456789abcdef0123456789abcdef.gz");
        assert_eq!(distinguished("a", &digest)[0], "a-0123456789abcdef");
    }

    #[test]
    fn a_long_name_is_cut_before_its_ending() {
        for (given, length, ending) in [
            ("a".repeat(5_000), 200, "aaa"),
            (format!("{}.txt", "é".repeat(3_000)), 200, "é.txt"),
            (format!("x{}.txt", "é".repeat(3_000)), 199, "é.txt"),
            (format!("a.{}", "b".repeat(3_000)), 200, "bbb"),
            (format!("{}.pdf", "日".repeat(1_000)), 199, "日.pdf"),
        ] {
            let name = cleaned(Some(&given), 0);
            assert!(name.len() == length && name.ends_with(ending), "{name}");
            assert!(distinguished(&name, &"a".repeat(64)).iter().all(|name| name.len() <= 255));
        }
    }

    #[test]
    fn a_name_means_one_file_on_windows_too() {
        for (given, name) in [
            ("..\\win.ini", ".._win.ini"),
            ("c:x", "c_x"),
            ("file.txt:stream", "file.txt_stream"),
            ("a. .", "a"),
            ("...", ""),
            ("nul", "_nul"),
            ("Com1.txt", "_Com1.txt"),
            ("COM", "COM"),
            ("console.txt", "console.txt"),
            ("a*?\"<>|b", "a______b"),
        ] {
            assert_eq!(for_windows(given), name, "{given}");
            assert_eq!(is_whole_on_windows(given), given == name, "{given}");
        }
    }
}
