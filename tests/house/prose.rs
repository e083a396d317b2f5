//! Comments, documents and commit subjects say things straight: seven turns of phrase that need a second reading are refused.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the words of a text in lower case, and a bar for each mark between them and for what is quoted.
fn words(text: &str) -> Vec<String> {
    let plain: Vec<&str> = text.split('`').step_by(2).collect();
    let plain = plain.join("|");
    let plain: Vec<&str> = plain.split('"').step_by(2).collect();
    let mut words = vec![String::new()];
    for letter in plain.join("|").chars() {
        let is_letter = letter.is_alphanumeric() || matches!(letter, '\'' | '_' | '-');
        if is_letter && let Some(word) = words.last_mut() {
            word.extend(letter.to_lowercase());
        } else {
            words.extend((!letter.is_whitespace()).then(|| "|".to_owned()));
            words.push(String::new());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the phrase in a text that is refused.
fn refused(text: &str) -> Option<String> {
    let words = words(text);
    let at = |from: usize| words.get(from).map_or("", String::as_str);
    (0..words.len()).find_map(|from| {
        let (first, second, third) = (at(from), at(from + 1), at(from + 2));
        let is_refused = match (first, second, third) {
            ("is" | "are", "none", _)
            | ("those" | "become" | "becomes", "of", _)
            | ("whoever", _, _)
            | ("of", "whose" | "whom", _)
            | ("the", "word" | "words", "of" | "for") => true,
            ("is", "no", noun) => !matches!(noun, "longer" | "more" | "|" | ""),
            _ => false,
        };
        is_refused.then(|| format!("{first} {second} {third}"))
    })
}

/// Returns the source files and documents of this repository. Tests have sentences for names, and are left out.
fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let is_left_out = ["target", "node_modules", "tests", "benches", "examples"].contains(&name.as_str());
        if path.is_dir() && !name.starts_with('.') && !is_left_out {
            texts(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "md") {
            found.push(path);
        }
    }
}

/// Whether a line is prose: a comment of a source file, or any line of a document outside of its blocks of code.
fn prose(path: &Path, text: &str) -> Vec<(usize, String)> {
    let is_source = path.extension().is_some_and(|ending| ending == "rs");
    let mut is_code = false;
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if !is_source && trimmed.starts_with("```") {
            is_code = !is_code;
        } else if if is_source { trimmed.starts_with("//") } else { !is_code } {
            lines.push((at + 1, trimmed.to_owned()));
        }
    }
    lines
}

#[test]
fn comments_and_documents_have_no_phrase_that_needs_a_second_reading() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    texts(root, &mut files);
    assert!(files.len() > 1_000, "{} files were found", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for (line, said) in prose(&file, &text) {
            if let Some(phrase) = refused(&said) {
                wrong.push(format!("{}:{line}: {phrase:?}", file.strip_prefix(root).unwrap().display()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} phrases are refused, such as\n{}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("\n")
    );
}

#[test]
fn the_newest_commits_have_subjects_of_at_most_60_characters_without_such_a_phrase() {
    let root = env!("CARGO_MANIFEST_DIR");
    let Ok(log) =
        Command::new("git").args(["log", "-20", "--no-merges", "--format=%s"]).current_dir(root).output()
    else {
        return;
    };
    for subject in String::from_utf8_lossy(&log.stdout).lines() {
        assert!(subject.chars().count() <= 60, "{subject:?} is longer than 60 characters");
        assert_eq!(refused(subject), None, "{subject:?}");
    }
}

#[test]
fn each_phrase_is_found_and_its_plain_neighbours_are_not() {
    for text in [
        "if it is none",
        "the keys of a list, those of all",
        "Whoever asks",
        "a call of whose end",
        "what becomes of it",
        "the word for it",
        "this is no task",
    ] {
        assert!(refused(text).is_some(), "{text}");
    }
    for text in [
        "it is no longer open",
        "none of them",
        "those that wait",
        "whose end",
        "words of a text",
        "is not a task",
    ] {
        assert_eq!(refused(text), None, "{text}");
    }
}
