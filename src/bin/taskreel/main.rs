//! The command line: parse, call, exit code. Commands that only read stand in `taskreel::inspect::cli`; those that
//! need a running system are here.

mod args;
mod demo;
mod dirs;
mod look;
mod run;
mod running;
mod tools;

use std::process::ExitCode;

use clap::Parser;
use taskreel::inspect::cli::screen::note;
use taskreel::inspect::cli::{Problem, Screen, Verdict};

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    tell_traces();
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
        Command::Verify => look::verify(global, &mut screen(true)),
        Command::Export => look::export(global, &mut screen(true)),
    }
}

/// What the library traces goes to stderr if `RUST_LOG` asks for it.
fn tell_traces() {
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_writer(std::io::stderr)
            .init();
    }
}
