//! The documents name source files that exist, and their links lead somewhere.
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

/// Returns the pages: those at the root, and the book.
fn pages(root: &Path) -> Vec<PathBuf> {
    let is_page = |file: &PathBuf| file.extension().is_some_and(|ending| ending == "md");
    let is_read = |file: &PathBuf| file.parent() == Some(root) || file.starts_with(root.join("docs"));
    files_below(root).into_iter().filter(|file| is_page(file) && is_read(file)).collect()
}

/// Returns the lines of a page outside of its blocks of code.
fn prose(page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap();
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// Returns the targets of the links of a line, without what stands in backticks.
fn links(line: &str) -> Vec<String> {
    let text: String = line.split('`').step_by(2).collect();
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(str::to_owned).collect()
}

/// Returns the anchors of a page's headings, as they are made of their texts.
fn anchors(page: &Path) -> BTreeSet<String> {
    let headings = prose(page).into_iter().filter(|line| line.starts_with('#'));
    let anchor = |line: String| {
        let text = line.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn each_link_of_a_document_leads_to_a_file_and_a_heading_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for page in pages(root) {
        for target in prose(&page).iter().flat_map(|line| links(line)) {
            let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
            if target.contains("://") {
                continue;
            }
            seen += 1;
            let path = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            if !path.exists() || !(heading.is_empty() || anchors(&path).contains(heading)) {
                wrong.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(seen > 80, "{seen} links were found");
    assert!(wrong.is_empty(), "these links lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn the_summary_of_the_book_names_each_page_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = root.join("docs");
    let named: Vec<PathBuf> =
        prose(&docs.join("SUMMARY.md")).iter().flat_map(|line| links(line)).map(|to| docs.join(to)).collect();
    for page in pages(root).into_iter().filter(|page| page.starts_with(&docs)) {
        if !page.ends_with("SUMMARY.md") {
            assert_eq!(named.iter().filter(|other| **other == page).count(), 1, "{}", page.display());
        }
    }
}
