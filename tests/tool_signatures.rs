//! The compiler's messages about functions that cannot be tools: they lead to the mistake.
//!
//! The texts are those of one compiler. `TASKREEL_WRITE_MESSAGES=1 cargo test --test tool_signatures` rewrites them; then raise
//! `COMPILER`, and read the new texts as a person who has made the mistake.
//!
//! The library is checked once more for it, without features, as an embedder has it: the compiler names every type that could
//! have been meant.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests: what is wrong ends the test"
)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The compiler whose messages are in `compile_fail/*.stderr`.
const COMPILER: &str = "rustc 1.95";

/// The crates that a case may use.
const CRATES: [&str; 3] = ["schemars", "serde", "taskreel"];

#[test]
fn a_wrong_signature_is_told_in_words_that_lead_to_the_mistake() {
    let version = Command::new(rustc()).arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.starts_with(COMPILER) {
        eprintln!("not checked: the words are those of {COMPILER}, this is {version}");
        return;
    }
    let library = library();
    let cases: BTreeSet<PathBuf> =
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_fail"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
            .collect();
    assert!(cases.len() >= 8, "{cases:?}");
    let mut others = String::new();
    for case in &cases {
        let name = case.file_name().unwrap().to_str().unwrap();
        let said = messages(&library, &format!("tests/compile_fail/{name}"));
        let file = case.with_extension("stderr");
        if std::env::var_os("TASKREEL_WRITE_MESSAGES").is_some() {
            std::fs::write(&file, &said).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        if said != expected {
            let _ = writeln!(others, "{name}: expected\n\n{expected}\nthe compiler says\n\n{said}");
        }
    }
    assert!(others.is_empty(), "{others}");
}

/// The library and what it is made of, as arguments of the compiler.
struct Library {
    arguments: Vec<String>,
}

/// Checks the library, without features, where the builds of this test are.
fn library() -> Library {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let checked = Command::new(cargo)
        .args(["check", "--locked", "--package", "taskreel", "--lib", "--message-format", "json"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(checked.status.success(), "the library cannot be checked");
    let mut arguments = BTreeSet::new();
    for line in String::from_utf8(checked.stdout).unwrap().lines() {
        let told: serde_json::Value = serde_json::from_str(line).unwrap();
        let name = told["target"]["name"].as_str().unwrap_or_default();
        for file in told["filenames"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str) {
            let folder = Path::new(file).parent().unwrap().display();
            arguments.insert(format!("-Ldependency={folder}"));
            if CRATES.contains(&name) && Path::new(file).extension().is_some_and(|ending| ending == "rmeta") {
                arguments.insert(format!("--extern={name}={file}"));
            }
        }
    }
    let found = arguments.iter().filter(|argument| argument.starts_with("--extern")).count();
    assert_eq!(found, CRATES.len(), "{arguments:?}");
    Library { arguments: arguments.into_iter().collect() }
}

/// Returns what the compiler says about a case that it must not accept.
fn messages(library: &Library, case: &str) -> String {
    let scratch = tempfile::tempdir().unwrap();
    let compiled = Command::new(rustc())
        .args([
            "--edition=2024",
            "--crate-type=bin",
            "--emit=metadata",
            "--verbose",
            "--diagnostic-width=140",
        ])
        .arg("--out-dir")
        .arg(scratch.path())
        .args(&library.arguments)
        .arg(case)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(!compiled.status.success(), "{case} is accepted");
    without_places(&String::from_utf8(compiled.stderr).unwrap(), case)
}

/// Returns the messages without what says nothing about the case: the lines and places in files of the library, which move, and
/// the lists of types that have a trait. The margin is as wide as the largest number of a line, of those that are left out too.
fn without_places(said: &str, case: &str) -> String {
    let mut kept = Vec::new();
    let (mut is_elsewhere, mut is_list) = (false, false);
    for line in said.lines() {
        let behind_margin = line.trim_start_matches(|letter: char| letter == ' ' || letter.is_ascii_digit());
        let number = line[..line.len() - behind_margin.len()].trim();
        if let Some(place) = behind_margin.strip_prefix("--> ") {
            is_elsewhere = !place.starts_with(case);
            let end = if is_elsewhere { place.find(':') } else { None };
            kept.push(format!("  --> {}", &place[..end.unwrap_or(place.len())]));
        } else if is_elsewhere && (behind_margin.starts_with('|') || line == "...") {
            // A line of another file.
        } else if is_list && line.starts_with("      ") {
            // A type of a list.
        } else if !["error: aborting", "Some errors have", "For more information"]
            .iter()
            .any(|end| line.starts_with(end))
        {
            is_elsewhere = false;
            is_list = line.contains("the following other types implement trait");
            let has_margin = behind_margin.starts_with(['|', '=']);
            let goes_on = line.starts_with("     ");
            kept.push(match (has_margin, goes_on) {
                (true, _) => format!("{number:>2} {behind_margin}"),
                (false, true) => format!("           {behind_margin}"),
                (false, false) => line.to_owned(),
            });
        }
    }
    format!("{}\n", kept.join("\n").trim_end())
}

fn rustc() -> std::ffi::OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}
