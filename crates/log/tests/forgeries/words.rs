//! The words of the verifier's findings, as they stand in its source.

use std::fs;
use std::path::Path;

/// The least number of spaces in the words of a finding; what has fewer is a part of one.
const SPACES: usize = 3;

/// The files with findings about the index, `HEAD` and roots, which this log does not have, and with what is not checked.
const NOT_OF_EVENTS: [&str; 4] = ["ends.rs", "head.rs", "report.rs", "root.rs"];

/// Returns the words of each finding about records and events, as the pieces between what is filled in.
pub(crate) fn of_findings() -> Vec<Vec<String>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/audit/verify");
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if NOT_OF_EVENTS.contains(&path.file_name().unwrap().to_str().unwrap()) {
            continue;
        }
        let source = fs::read_to_string(path).unwrap();
        let code = source.split("#[cfg(test)]").next().unwrap();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        all.extend(literals(&lines.collect::<Vec<_>>().join("\n")));
    }
    let mut all: Vec<Vec<String>> =
        all.iter().filter(|text| is_words(text)).map(|text| pieces(text)).collect();
    all.sort();
    all.dedup();
    all
}

fn is_words(text: &str) -> bool {
    text.matches(' ').count() >= SPACES
}

/// Returns the texts between quotes, with continued lines joined.
fn literals(code: &str) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), code);
    while let Some((_, after)) = rest.split_once('"') {
        let (mut text, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next().expect("a text ends") {
                (at, '"') => break at,
                (_, '\\') => match chars.next().expect("a text ends").1 {
                    // The next line goes on behind its indentation.
                    '\n' => {
                        while after[chars.offset()..].starts_with(' ') {
                            chars.next();
                        }
                    }
                    other => text.push(other),
                },
                (_, char) => text.push(char),
            }
        };
        found.push(text);
        rest = &after[end + 1..];
    }
    found
}

/// Returns what stands between the places that are filled in.
fn pieces(text: &str) -> Vec<String> {
    let after_hole = |piece: &str| piece.split_once('}').map_or(piece, |(_, after)| after).to_owned();
    text.split('{')
        .enumerate()
        .map(|(at, piece)| if at == 0 { piece.to_owned() } else { after_hole(piece) })
        .collect()
}

/// Whether a finding has these words, in this order.
pub(crate) fn has(finding: &str, pieces: &[String]) -> bool {
    let mut rest = finding;
    pieces.iter().all(|piece| match rest.split_once(piece.as_str()) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}
