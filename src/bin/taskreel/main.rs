//! The command line: parse, call, exit code. Commands that only read stand in `taskreel::inspect::cli`; those that
//! need a running system are here.

mod args;
mod decide;
mod demo;
mod dirs;
mod doctor;
mod import;
mod logging;
mod look;
mod run;
mod running;
mod tools;

use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _};
use taskreel::inspect::cli::problem::EXIT_USAGE;
use taskreel::inspect::cli::screen::note;
use taskreel::inspect::cli::{Problem, Screen, Verdict};

use crate::args::{Cli, Command, FROM_FILE};

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(asked) => return answer_usage(&asked),
    };
    if let Err(problem) = logging::start(&cli.global) {
        note(&problem.to_string());
        return ExitCode::from(problem.code);
    }
    match carry_out(&cli) {
        Ok(Verdict::Yes) => ExitCode::SUCCESS,
        Ok(Verdict::No) => ExitCode::from(taskreel::inspect::cli::problem::EXIT_NO),
        Err(problem) => {
            if !problem.quiet {
                note(&problem.to_string());
            }
            ExitCode::from(problem.code)
        }
    }
}

/// Reads the command line. `--file` and `--data-dir` exclude each other where both are typed; a directory that the
/// environment names is only what is read where nothing is typed.
fn parse() -> Result<Cli, clap::Error> {
    let matches = Cli::command().try_get_matches()?;
    if let Some((_, sub)) = matches.subcommand() {
        let file = sub.try_get_one::<std::path::PathBuf>(FROM_FILE).ok().flatten();
        if file.is_some() && sub.value_source("data_dir") == Some(ValueSource::CommandLine) {
            let what = "the argument '--file <FILE>' cannot be used with '--data-dir <DIR>'";
            return Err(Cli::command().error(clap::error::ErrorKind::ArgumentConflict, what));
        }
    }
    Cli::from_arg_matches(&matches)
}

/// Help and version go to stdout as they are; wrong usage is told in the same three lines as any other error.
fn answer_usage(asked: &clap::Error) -> ExitCode {
    if !asked.use_stderr() || asked.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    {
        // A closed pipe has had enough.
        let _nobody_reads_on = asked.print();
        return ExitCode::from(u8::try_from(asked.exit_code()).unwrap_or(EXIT_USAGE));
    }
    let text = asked.to_string();
    let mut said = text.split("\n\n").map(|piece| piece.split_whitespace().collect::<Vec<_>>().join(" "));
    let why = said.next().unwrap_or_default();
    let usage = said.find_map(|piece| piece.strip_prefix("Usage: ").map(str::to_owned));
    let hint = usage
        .map_or_else(|| "`taskreel --help`".to_owned(), |usage| format!("{usage}   (--help tells more)"));
    let why = why.strip_prefix("error: ").unwrap_or(&why);
    note(&Problem::new(EXIT_USAGE, "this cannot be understood", why, hint).to_string());
    ExitCode::from(EXIT_USAGE)
}

fn carry_out(cli: &Cli) -> Result<Verdict, Problem> {
    let global = &cli.global;
    let screen = |full| Screen::stdout(global.json, full, global.color.into());
    match &cli.command {
        Command::Demo(args) => demo::demo(args, global, &mut screen(false)),
        Command::Run(args) => run::run(args, global, &mut screen(true)),
        Command::Ls(args) => look::ls(args, global, &mut screen(false)),
        Command::Show(args) => look::show(args, global, &mut screen(args.full)),
        Command::Events(args) => look::events(args, global, &mut screen(args.full)),
        Command::State(args) => look::state(args, global, &mut screen(true)),
        Command::Replay(args) => look::replay(args, global, &mut screen(true)),
        Command::Doctor => doctor::doctor(global, &mut screen(true)),
        Command::Verify(args) => look::verify(args, global, &mut screen(true)),
        Command::Diff(args) => look::diff(args, global, &mut screen(args.full)),
        Command::Explain(args) => look::explain(args, global, &mut screen(true)),
        Command::Calls(args) => look::calls(args, global, &mut screen(args.full)),
        Command::Approve(args) => decide::approve(args, global, &mut screen(true)),
        Command::Deny(args) => decide::deny(args, global, &mut screen(true)),
        Command::Reconcile(args) => decide::reconcile(args, global, &mut screen(true)),
        Command::Abandon(args) => decide::abandon(args, global, &mut screen(true)),
        Command::Stats(args) => look::stats(args, global, &mut screen(false)),
        Command::Export(args) => look::export(args, global, &mut screen(true)),
        Command::Import(args) => import::import(args, global, &mut screen(true)),
    }
}
