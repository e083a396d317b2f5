//! The book: the pages of `docs`, and a page with the help of each command, which is made from the program.

use std::fs;
use std::path::Path;

use crate::command::{Failure, cargo, program, root, target};

/// The line of the summary behind which the made page stands.
const BEHIND: &str = "- [The command line](command-line.md)\n";

/// Makes the book.
///
/// # Errors
/// [`Failure`] if a page cannot be copied, or the program or `mdbook` fails.
pub(crate) fn make() -> Result<(), Failure> {
    let pages = target().join("book-src");
    copy(&root().join("docs"), &pages)?;
    let help = pages.join("help.md");
    let making = "test --locked -p taskreel-cli --test cli_about the_book_names_each_command";
    cargo(making).variable("TASKREEL_WRITE_DOCS", &help).run()?;
    let summary = pages.join("SUMMARY.md");
    let text = fs::read_to_string(&summary).map_err(Failure::of_file("read", &summary))?;
    let with_help = text.replace(BEHIND, &format!("{BEHIND}- [The help of each command](help.md)\n"));
    fs::write(&summary, with_help).map_err(Failure::of_file("write", &summary))?;
    println!("the pages stand in {}", pages.display());
    if program("mdbook", ["--version"]).exists() {
        program("mdbook", [Path::new("build"), &pages]).run()?;
    } else {
        println!("`cargo install mdbook` and this command again make pages for a browser");
    }
    Ok(())
}

/// Copies a folder with all that it holds.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to).map_err(Failure::of_file("create", to))?;
    for entry in fs::read_dir(from).map_err(Failure::of_file("read", from))? {
        let path = entry.map_err(Failure::of_file("read", from))?.path();
        let there = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &there)?;
        } else {
            fs::copy(&path, &there).map_err(Failure::of_file("copy", &path))?;
        }
    }
    Ok(())
}
