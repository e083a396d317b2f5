//! Gives the binary the revision that it is built from, where there is one, and says if the sources are others than that
//! revision's. It never fails: a build without git or from a package has the revision `unknown`.

use std::path::Path;
use std::process::Command;

/// The sources of the binary, from the root of the project.
const SOURCES: [&str; 11] = [
    "Cargo.toml",
    "Cargo.lock",
    "src",
    "proto-events/src",
    "crates/log/src",
    "crates/cli/src",
    "crates/cli/build.rs",
    "crates/cli/Cargo.toml",
    "crates/log/Cargo.toml",
    "crates/http/src",
    "crates/http/Cargo.toml",
];

fn main() {
    println!("cargo::rerun-if-env-changed=TASKREEL_REVISION");
    println!("cargo::rerun-if-changed=build.rs");
    // A file in a linked work tree, which names the directory; a directory elsewhere.
    if Path::new("../../.git").exists() {
        for name in ["HEAD", "logs/HEAD"] {
            watch(git(&["rev-parse", "--git-path", name]).as_deref());
        }
        for source in SOURCES {
            watch(Some(&format!("../../{source}")));
        }
    }
    let revision = std::env::var("TASKREEL_REVISION").ok().or_else(of_git);
    let revision = revision.filter(|revision| is_revision(revision)).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=TASKREEL_REVISION={revision}");
}

/// Asks for another build when this file changes. One that does not exist would ask for one each time.
fn watch(path: Option<&str>) {
    if let Some(path) = path.filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
}

/// Returns the commit of the work tree that this package stands in, if it is the project's own, and whether the sources
/// differ from it.
fn of_git() -> Option<String> {
    if !Path::new("../../.git").exists() {
        return None;
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let sources: Vec<String> = SOURCES.iter().map(|source| format!(":/{source}")).collect();
    let status = ["status", "--porcelain", "--"].into_iter().chain(sources.iter().map(String::as_str));
    let changed = git(&status.collect::<Vec<_>>())?;
    Some(if changed.is_empty() { commit } else { format!("{commit}-dirty") })
}

/// Returns what git says.
fn git(args: &[&str]) -> Option<String> {
    let asked = Command::new("git").args(args).output().ok()?;
    let said = asked.status.success().then(|| String::from_utf8(asked.stdout).ok()).flatten()?;
    Some(said.trim().to_owned())
}

/// Whether the text is one word, which a line of output can hold.
fn is_revision(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}
