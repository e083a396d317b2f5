//! What developers of taskreel do by one command: `cargo xtask check`, `cargo xtask book`, `cargo xtask dist`.
#![allow(clippy::print_stdout, reason = "it is a program for a terminal")]

mod archive;
mod book;
mod command;

use std::process::ExitCode;
use std::time::Instant;

use command::{Failure, cargo, program};

/// What `cargo xtask` prints without a known task.
const USAGE: &str = "\
Usage: cargo xtask TASK

  check   what a change must pass while you work: formatting, lints, the rules of tasks and calls, the house, the mutants' texts
  book    makes the book with the help of each command in `target/book-src`, and in HTML where `mdbook` is installed
  dist    builds the program as users get it, and makes an archive with manual pages, completions and checksums in `target/archives`
";

fn main() -> ExitCode {
    let task = std::env::args().nth(1);
    let done = match task.as_deref() {
        Some("check") => check(),
        Some("book") => book::make(),
        Some("dist") => archive::make(),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the checks one after another, and prints how long each took.
fn check() -> Result<(), Failure> {
    let clippy = "clippy --locked --workspace --all-targets --all-features -- -D warnings";
    let steps = [
        ("formatting", cargo("fmt --all --check")),
        ("lints", cargo(clippy)),
        ("rules of tasks, sessions and calls", cargo("test --locked -p proto-events --all-features --tests")),
        ("house", cargo("test --locked -p taskreel --test house")),
        ("texts of the mutants", program("tests/mutants/run", ["--check"])),
    ];
    for (name, mut step) in steps {
        let began = Instant::now();
        step.run()?;
        println!("{:>5.0} s  {name}", began.elapsed().as_secs_f32());
    }
    Ok(())
}
