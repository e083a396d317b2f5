//! The documents name source files that exist.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns the files below a folder, without what is built and what is hidden.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_file() {
            found.push(path);
        } else if name != "target" && name != "node_modules" && !name.starts_with('.') {
            found.extend(files_below(&path));
        }
    }
    found
}

/// Returns the source files that a text names in backticks: `a/b.rs`, and each of `a/{b,c}.rs`.
fn named_in(text: &str) -> BTreeSet<String> {
    let quoted = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_source = |path: &str| Path::new(path).extension().is_some_and(|ending| ending == "rs");
    let paths = quoted.filter(|path| is_source(path) && !path.contains([' ', '*', ':', '<']));
    let each = paths.flat_map(|path| match (path.split_once('{'), path.split_once('}')) {
        (Some((before, list)), Some((_, after))) => {
            let list = list.split('}').next().unwrap_or_default();
            list.split(',').map(|name| format!("{before}{name}{after}")).collect()
        }
        _ => vec![path.trim_start_matches("…/").to_owned()],
    });
    each.collect()
}

#[test]
fn a_source_file_that_a_document_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = files_below(root);
    let exists = |path: &String| files.iter().any(|file| file.ends_with(path));
    let documents = files.iter().filter(|file| {
        let is_of_root = file.parent() == Some(root) || file.starts_with(root.join("docs"));
        is_of_root && file.extension().is_some_and(|ending| ending == "md")
    });
    let mut missing = Vec::new();
    for document in documents {
        let named = named_in(&std::fs::read_to_string(document).unwrap());
        let absent = named.into_iter().filter(|path| !exists(path));
        missing.extend(absent.map(|path| format!("{}: {path}", document.display())));
    }
    assert!(missing.is_empty(), "these files do not exist:\n{}", missing.join("\n"));
}

#[test]
fn every_file_of_a_list_is_looked_for() {
    let named = named_in("`a/{b,c}.rs`, `d.rs` and `e/*.rs`\n`f` of `g/h.rs`");
    assert_eq!(named.into_iter().collect::<Vec<_>>(), ["a/b.rs", "a/c.rs", "d.rs", "g/h.rs"]);
}
