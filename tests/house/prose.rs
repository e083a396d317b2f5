//! The first line of every doc comment names its subject: it never begins with a pronoun or a question word,
//! since docs.rs and editors show that line alone. "Whether" may begin the doc of a boolean.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::{Path, PathBuf};

/// Words that point at a subject instead of naming it.
const POINTING: &[&str] = &[
    "Anybody",
    "Anyone",
    "Anything",
    "Both",
    "Everybody",
    "Everyone",
    "Everything",
    "He",
    "Her",
    "Here",
    "His",
    "How",
    "However",
    "I",
    "It",
    "Its",
    "My",
    "Nobody",
    "None",
    "Nothing",
    "One",
    "Our",
    "Ours",
    "She",
    "Somebody",
    "Someone",
    "Something",
    "Such",
    "That",
    "Their",
    "Theirs",
    "Them",
    "There",
    "These",
    "They",
    "This",
    "Those",
    "We",
    "What",
    "Whatever",
    "When",
    "Whenever",
    "Where",
    "Wherever",
    "Which",
    "Whichever",
    "Who",
    "Whoever",
    "Whom",
    "Whose",
    "Why",
    "You",
    "Your",
];

/// The source files below the folders that hold Rust of ours.
fn sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders: Vec<PathBuf> =
        ["benches", "cli", "event-log", "examples", "http", "proto-events", "src", "tests"]
            .map(|name| root.join(name))
            .into();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// The text of a line of a doc comment, if it is one.
fn doc(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    (!text.starts_with('/')).then(|| text.trim_start())
}

/// The first lines that point at their subject, with their line numbers.
fn pointing(text: &str) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| lines.get(before));
        let begins = before.is_none_or(|before| doc(before).is_none());
        let Some(first) = doc(line).filter(|_| begins) else { continue };
        let word = first.split(|char: char| !char.is_alphanumeric()).next().unwrap_or_default();
        let of_a_boolean = || {
            let item = lines.iter().skip(at).skip_while(|line| {
                let line = line.trim_start();
                line.starts_with("//") || line.starts_with("#[")
            });
            item.take(8).any(|line| line.contains("bool"))
        };
        let same = first.starts_with("The same ");
        if same || POINTING.contains(&word) || (word == "Whether" && !of_a_boolean()) {
            found.push((at + 1, *line));
        }
    }
    found
}

#[test]
fn every_doc_comment_names_its_subject_first() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        seen += text.lines().filter(|line| doc(line).is_some()).count();
        wrong.extend(
            pointing(&text).into_iter().map(|(line, text)| format!("{}:{line}: {text}", path.display())),
        );
    }
    assert!(seen > 5_000, "only {seen} lines of docs were found");
    assert!(wrong.is_empty(), "these doc comments do not name their subject first:\n{}", wrong.join("\n"));
}

#[test]
fn a_doc_comment_that_points_at_its_subject_is_noticed() {
    assert_eq!(pointing("/// It failed.\nfn a() {}\n").len(), 1);
    assert_eq!(pointing("/// Whether it failed.\nfn a() -> u8 { 1 }\n").len(), 1);
    assert_eq!(pointing("/// Whether it failed.\nfn a() -> bool { true }\n"), []);
    assert_eq!(pointing("/// The call failed.\n/// It may be repeated.\nfn a() {}\n"), []);
}
