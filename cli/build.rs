//! Gives the binary the revision that it is built from, where there is one. It never fails: a build without git or from a
//! package has the revision `unknown`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=TASKREEL_REVISION");
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["HEAD", "logs/HEAD"] {
        let file = Path::new("../.git").join(name);
        if file.exists() {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    let revision = std::env::var("TASKREEL_REVISION").ok().or_else(of_git);
    let revision = revision.filter(|revision| is_revision(revision)).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=TASKREEL_REVISION={revision}");
}

/// Returns the commit of the work tree that this package stands in, if it is the project's own.
fn of_git() -> Option<String> {
    if !Path::new("../.git").exists() {
        return None;
    }
    let asked = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let said = asked.status.success().then(|| String::from_utf8(asked.stdout).ok()).flatten()?;
    Some(said.trim().to_owned())
}

/// Whether the text is one word, which a line of output can hold.
fn is_revision(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}
