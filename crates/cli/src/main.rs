//! The command line `taskreel`: parsing, dispatch and exit codes.
//!
//! | module | holds |
//! |---|---|
//! | [`args`] | the arguments |
//! | [`look`], [`doctor`], [`salvage`] | commands that examine a log; [`mod@print`] prints their results |
//! | [`decide`] | decisions, through the socket of the program that has the log open or in a log that none has |
//! | [`import`] | the making of a log |
//! | `a2a` | agents elsewhere, asked over A2A |
//! | [`demo`], [`run`], [`serve`], [`tools`], [`signals`] | commands that start a system |
//! | `inspector`, `tui` | the pages for a browser, the screen for a terminal; `opened` and `watch` have their log |
//! | [`about`] | what the program says of itself |
//! | [`dirs`], [`server`], [`logs`] | the log's directory, the log behind a server; output of spans |

#[cfg(feature = "a2a")]
pub(crate) mod a2a;
pub(crate) mod about;
pub(crate) mod args;
pub(crate) mod decide;
pub(crate) mod demo;
pub(crate) mod dirs;
pub(crate) mod doctor;
pub(crate) mod import;
#[cfg(feature = "inspector")]
pub(crate) mod inspector;
pub(crate) mod logs;
pub(crate) mod look;
#[cfg(any(feature = "inspector", feature = "tui"))]
pub(crate) mod opened_log;
pub(crate) mod print;
pub(crate) mod run;
pub(crate) mod salvage;
pub(crate) mod serve;
pub(crate) mod server;
pub(crate) mod signals;
pub(crate) mod tools;
#[cfg(feature = "tui")]
pub(crate) mod tui;
#[cfg(any(feature = "inspector", feature = "tui"))]
pub(crate) mod watch;

use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _};
use taskreel_log::sled::remove_private_copies;

use crate::args::source::{AT_URL, FROM_FILE};
use crate::args::{Cli, Command};
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_NEWER, EXIT_NO, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, note};

/// Memory is freed on other threads than it was allocated on, for which the system's allocator often takes a lock. On the raw
/// file, 256 at a time, the bench `command_path` (with this allocator) has twice the lifecycles of the bench `lifecycle` (with
/// the system's). An embedder chooses an allocator of its own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if about::complete::is_asked() {
        signals::listen();
    }
    about::complete::answer_shell();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(asked) => return print_usage(&asked),
    };
    signals::listen();
    if let Err(problem) = logs::start(&cli.global) {
        note(&problem.to_string());
        return ExitCode::from(problem.code);
    }
    let answer = carry_out(&cli).map_err(server::explained);
    signals::await_end();
    // Once more after a command that has removed them: a database that another thread closed meanwhile made its folder again.
    remove_private_copies();
    match answer {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(EXIT_NO),
        Ok(Answer::Newer) => ExitCode::from(EXIT_NEWER),
        Err(problem) => {
            if !problem.quiet {
                note(&problem.to_string());
            }
            ExitCode::from(problem.code)
        }
    }
}

/// Parses the command line. `--data-dir` cannot be typed beside `--file` or `--url`, or where a command names its log itself; a
/// directory from the environment is only a default.
fn parse() -> Result<Cli, clap::Error> {
    let matches = about::command().try_get_matches()?;
    if let Some((name, sub)) = matches.subcommand() {
        let file = sub.try_get_one::<std::path::PathBuf>(FROM_FILE).ok().flatten();
        let url = sub.try_get_one::<String>(AT_URL).ok().flatten();
        let in_place = match (name, file, url) {
            ("salvage", ..) => Some("<DIR>"),
            ("open", ..) => Some("<FILE>"),
            (_, Some(_), _) => Some("--file <FILE>"),
            (_, _, Some(_)) => Some("--url <URL>"),
            _ => None,
        };
        if let Some(source) = in_place
            && sub.value_source("data_dir") == Some(ValueSource::CommandLine)
        {
            let what = format!("the argument '{source}' cannot be used with '--data-dir <DIR>'");
            return Err(Cli::command().error(clap::error::ErrorKind::ArgumentConflict, what));
        }
    }
    Cli::from_arg_matches(&matches)
}

/// Prints help and version to stdout unchanged, and wrong usage in the three lines of any other error.
fn print_usage(asked: &clap::Error) -> ExitCode {
    if !asked.use_stderr() || asked.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    {
        return match asked.print().map_err(|error| Problem::output(&error)) {
            Err(problem) if !problem.quiet => {
                note(&problem.to_string());
                ExitCode::from(problem.code)
            }
            // A closed pipe: its reader had enough.
            _ => ExitCode::from(u8::try_from(asked.exit_code()).unwrap_or(EXIT_USAGE)),
        };
    }
    let text = asked.to_string();
    let mut pieces = text.split("\n\n").map(|piece| piece.split_whitespace().collect::<Vec<_>>().join(" "));
    let why = pieces.next().unwrap_or_default();
    let usage = pieces.find_map(|piece| piece.strip_prefix("Usage: ").map(str::to_owned));
    let hint = usage
        .map_or_else(|| "`taskreel --help`".to_owned(), |usage| format!("{usage}   (--help describes it)"));
    let why = why.strip_prefix("error: ").unwrap_or(&why);
    note(&Problem::new(EXIT_USAGE, "the command line is not valid", why, hint).to_string());
    #[cfg(feature = "a2a")]
    {
        let line = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        a2a::command::told_of_usage(&line.collect::<Vec<_>>(), why);
    }
    ExitCode::from(EXIT_USAGE)
}

fn carry_out(cli: &Cli) -> Result<Answer, Problem> {
    let global = &cli.global;
    let screen = |full| Screen::stdout(global.json, full, global.color.into());
    // Their exit code is an answer, which counts also where the reader of the output has had enough.
    let paged = |full| screen(full).paged(!global.no_pager);
    let answering = |full| screen(full).for_answer();
    match &cli.command {
        #[cfg(feature = "a2a")]
        Command::A2a(args) => match &args.command {
            args::a2a::A2aCommand::Completion(args) => about::complete::completions(args, &mut screen(true)),
            _ => a2a::command::a2a(args, global),
        },
        Command::Demo(args) => demo::demo(args, global, &mut screen(false)),
        Command::Run(args) => run::run(args, global, &mut answering(true)),
        Command::Serve(args) => serve::serve(args, global, &mut screen(true)),
        #[cfg(feature = "inspector")]
        Command::Inspect(args) => inspector::inspect(args, global, &mut screen(true)),
        #[cfg(feature = "inspector")]
        Command::Report(args) => inspector::report::report(args, global, &mut answering(true)),
        #[cfg(feature = "tui")]
        Command::Tui(args) => tui::tui(args, global, &screen(true)),
        Command::Ls(args) => look::ls(args, global, &mut screen(false)),
        Command::Show(args) => look::show(args, global, &mut paged(args.full)),
        #[cfg(unix)]
        Command::Events(args) if args.follow => look::follow::events(args, global, &mut screen(args.full)),
        Command::Events(args) => look::events(args, global, &mut paged(args.full)),
        #[cfg(unix)]
        Command::Tail(args) => look::follow::tail(args, global, &mut screen(args.full)),
        Command::Search(args) => look::search::search(args, global, &mut paged(args.full)),
        Command::Trace(args) => look::draw::trace(args, global, &mut screen(args.full)),
        Command::Seq(args) => look::draw::seq(args, global, &mut screen(true)),
        Command::Graph(args) => look::draw::graph(args, global, &mut screen(true)),
        Command::Transcript(args) => look::transcript::transcript(args, global, &mut paged(args.full)),
        Command::Open(args) => look::open::open(args, &mut screen(true)),
        Command::Event(args) => look::inspect::event(args, global, &mut answering(true)),
        Command::Prompt(args) => look::inspect::prompt(args, global, &mut answering(true)),
        Command::Artifact(args) => look::artifact::artifact(args, global, &mut screen(true)),
        Command::Attention(args) => look::attention::attention(args, global, &mut answering(true)),
        Command::State(args) => look::state(args, global, &mut screen(true)),
        Command::Replay(args) => look::replay(args, global, &mut answering(true)),
        Command::Doctor(args) => doctor::doctor(args, global, &mut answering(true)),
        Command::Verify(args) => look::verify(args, global, &mut answering(true)),
        Command::Diff(args) => look::runs::diff(args, global, &mut answering(args.full)),
        Command::Explain(args) => look::explain(args, global, &mut screen(true)),
        Command::Calls(args) => look::calls(args, global, &mut screen(args.full)),
        Command::Approve(args) => decide::approve(args, global, &mut screen(true)),
        Command::Deny(args) => decide::deny(args, global, &mut screen(true)),
        Command::Reconcile(args) => decide::reconcile(args, global, &mut screen(true)),
        Command::Abandon(args) => decide::abandon(args, global, &mut screen(true)),
        Command::Answer(args) => decide::answer(args, global, &mut screen(true)),
        Command::Cancel(args) => decide::cancel(args, global, &mut screen(true)),
        Command::Stats(args) => look::stats(args, global, &mut screen(false)),
        Command::Export(args) => look::export(args, global, &mut screen(true)),
        Command::Import(args) => import::import(args, global, &mut screen(true)),
        Command::Salvage(args) => salvage::salvage(args, &mut answering(true)),
        Command::Completions(args) => about::complete::completions(args, &mut screen(true)),
        Command::Man(args) => about::man::man(args, &mut screen(true)),
        Command::Schema(args) => about::schema::schema(args, &mut screen(true)),
    }
}
