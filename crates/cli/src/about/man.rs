//! `man`: the manual pages, one for the program and one for each command.

use std::path::Path;

use clap_mangen::Man;

use crate::args::about::ManArgs;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_USAGE, Problem};
use crate::print::screen::{Screen, count, note};

/// Writes all pages into a folder, which is created if it is missing.
///
/// # Errors
/// [`Problem`] if a page cannot be written.
pub(crate) fn man(args: &ManArgs, screen: &mut Screen) -> Result<Answer, Problem> {
    let failed = |path: &Path, error: &std::io::Error| {
        let what = format!("cannot write {}", path.display());
        Problem::new(EXIT_USAGE, what, error.to_string(), "name a folder that can be written")
    };
    std::fs::create_dir_all(&args.dir).map_err(|error| failed(&args.dir, &error))?;
    let mut whole = super::command();
    whole.build();
    let mut pages = vec![("taskreel".to_owned(), whole.clone())];
    for sub in whole.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        let name = format!("taskreel-{}", sub.get_name());
        pages.push((
            name.clone(),
            sub.clone().display_name(name).bin_name(format!("taskreel {}", sub.get_name())),
        ));
    }
    let number = pages.len() as u64;
    for (name, command) in pages {
        let path = args.dir.join(format!("{name}.1"));
        let mut page = Vec::new();
        Man::new(command.disable_help_subcommand(true))
            .title(name)
            .render(&mut page)
            .and_then(|()| std::fs::write(&path, page))
            .map_err(|error| failed(&path, &error))?;
        screen.line(&path.display().to_string())?;
    }
    screen.flush()?;
    note(&count(number, "page", "pages"));
    Ok(Answer::Yes)
}
