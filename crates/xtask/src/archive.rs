//! The archive of a release: the program, its manual pages, completions and licences, and the checksum of it all.

use std::fs;
use std::path::Path;

use crate::command::{Failure, cargo, program, root, target};

/// The files at the root of the repository that stand in the archive.
const BESIDE: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Makes `taskreel-VERSION-TARGET.tar.gz` and its `.sha256`. The same commit and compiler make the same archive.
///
/// # Errors
/// [`Failure`] if the program cannot be built, or a file cannot be written.
pub(crate) fn make() -> Result<(), Failure> {
    cargo("build --locked --profile dist -p taskreel-cli").run()?;
    let built = target().join("dist").join(format!("taskreel{}", std::env::consts::EXE_SUFFIX));
    let name = format!("taskreel-{}-{}", env!("CARGO_PKG_VERSION"), host()?);
    let archives = target().join("archives");
    let folder = archives.join(&name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(Failure::of_file("remove", &folder))?;
    }
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    for made in [&man, &completions] {
        fs::create_dir_all(made).map_err(Failure::of_file("create", made))?;
    }
    copy(&built, &folder)?;
    for file in BESIDE {
        copy(&root().join(file), &folder)?;
    }
    program(&built, [Path::new("man"), &man]).run()?;
    for shell in ["bash", "zsh", "fish"] {
        let script = program(&built, ["completions", shell]).output()?;
        let file = completions.join(format!("taskreel.{shell}"));
        fs::write(&file, script).map_err(Failure::of_file("write", &file))?;
    }
    let archive = format!("{name}.tar.gz");
    let time = program("git", ["log", "-1", "--format=@%ct"]).output()?;
    let time = format!("--mtime={}", String::from_utf8_lossy(&time).trim());
    let there = archives.display().to_string();
    let same_for_all = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", &time];
    let pack = ["-I", "gzip -n", "-C", &there, "-cf", &format!("{there}/{archive}"), &name];
    program("tar", same_for_all.into_iter().chain(pack)).run()?;
    let sums = ["-c", "cd \"$1\" && sha256sum \"$2\"", "sh", &there, &archive];
    let sum = program("sh", sums).output()?;
    let file = archives.join(format!("{archive}.sha256"));
    fs::write(&file, sum).map_err(Failure::of_file("write", &file))?;
    println!("{}\n{}", archives.join(&archive).display(), file.display());
    Ok(())
}

/// Returns the target for which this compiler builds.
fn host() -> Result<String, Failure> {
    let said = program("rustc", ["-vV"]).output()?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let line = said.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.unwrap_or("unknown").to_owned())
}

/// Copies a file into a folder under its own name.
fn copy(file: &Path, folder: &Path) -> Result<(), Failure> {
    let to = folder.join(file.file_name().unwrap_or_default());
    fs::copy(file, &to).map(|_| ()).map_err(Failure::of_file("copy", file))
}
