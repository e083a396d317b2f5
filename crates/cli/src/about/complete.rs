//! `completions`: the script that makes a shell ask this program what may follow.

use std::io::Write as _;

use clap_complete::env::Shells;

use crate::args::about::{CompletionsArgs, Shell};
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_USAGE, Problem};
use crate::print::screen::Screen;

/// The variable by which the shell's script asks for completions.
const VARIABLE: &str = "COMPLETE";

/// Whether a shell asks for completions.
pub(crate) fn is_asked() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Answers a shell that asks for completions, and ends the process then.
pub(crate) fn answer_shell() {
    clap_complete::CompleteEnv::with_factory(super::command).var(VARIABLE).bin("taskreel").complete();
}

/// Prints the script for a shell.
///
/// # Errors
/// [`Problem`] if the output cannot be written.
pub(crate) fn completions(args: &CompletionsArgs, screen: &mut Screen) -> Result<Answer, Problem> {
    let name = match args.shell {
        Shell::Bash => "bash",
        Shell::Zsh => "zsh",
        Shell::Fish => "fish",
    };
    let failed = |why: String| {
        Problem::new(EXIT_USAGE, format!("there are no completions for {name}"), why, "use bash, zsh or fish")
    };
    let shells = Shells::builtins();
    let shell = shells.completer(name).ok_or_else(|| failed("the shell is not known".to_owned()))?;
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, "taskreel", "taskreel", "taskreel", &mut script)
        .and_then(|()| script.flush())
        .map_err(|error| failed(error.to_string()))?;
    String::from_utf8_lossy(&script).lines().try_for_each(|line| screen.line(line))?;
    screen.flush()?;
    Ok(Answer::Yes)
}
