//! The commands of `a2a`: settings, recording, signals and the end of each.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use taskreel_http::a2a::Observer;
use taskreel_log::views::shell_word;

use crate::a2a::agent::{Agent, find_card};
use crate::a2a::credentials::redactor;
use crate::a2a::failure::Failure;
use crate::a2a::follow::Turn;
use crate::a2a::out::Out;
use crate::a2a::record::Recorder;
use crate::a2a::settings::Settings;
use crate::a2a::wait::Bounds;
use crate::a2a::watch::ExchangeObserver;
use crate::a2a::{cards, check, config, download, login, push, send, tasks};
use crate::args::Global;
use crate::args::a2a::options::OutputFormat;
use crate::args::a2a::{A2aArgs, A2aCommand, AuthCommand, CardCommand, ConfigCommand, TaskCommand};
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_OUTPUT, Problem};
use crate::print::screen::note;
use crate::signals::{Interrupts, runtime};

/// Carries out a command of `a2a`. A failure is printed here, as the specification says.
///
/// # Errors
/// [`Problem`] with the exit code, and nothing more to say.
pub(crate) fn a2a(args: &A2aArgs, global: &Global) -> Result<Answer, Problem> {
    let flags = flags(args, global);
    let settings = Settings::resolve(&flags, args.options.stream, args.options.config.as_deref());
    let mut out = match &settings {
        Ok(settings) => Out::new(settings),
        Err(_) => Out::before_settings(flags.contains(&("output", "json".to_owned())), false),
    };
    let done = settings.and_then(|settings| {
        // What an agent says of a failure may repeat what it was given.
        let clean = |failure: Failure| failure.cleaned(&redactor(&settings));
        carried_out(args, &settings, &mut out).map_err(clean)
    });
    match done {
        Ok(answer) => Ok(answer),
        Err(failure) => {
            let told = if failure.is_quiet { Ok(()) } else { out.failure(&failure) };
            let code = if told.is_err_and(|problem| !problem.quiet) { EXIT_OUTPUT } else { failure.exit };
            Err(Problem { quiet: true, ..Problem::new(code, "", "", "") })
        }
    }
}

/// Tells of a wrong command line where JSON was asked for: the specification wants the object of a failure then.
pub(crate) fn told_of_usage(words: &[String], why: &str) {
    let is_a2a = words.iter().skip(1).find(|word| !word.starts_with('-')).is_some_and(|word| word == "a2a");
    let asks = |pair: &[String]| matches!(pair, [flag, value] if (flag == "-o" || flag == "--output") && value == "json");
    let alone = ["--json", "-ojson", "-o=json", "--output=json"];
    let by_variable = || std::env::var("A2ACLI_OUTPUT").is_ok_and(|format| format == "json");
    let is_json = words.windows(2).any(asks)
        || words.iter().any(|word| alone.contains(&word.as_str()))
        || by_variable();
    if is_a2a && is_json {
        let failure = Failure::usage(why, "`taskreel a2a --help` describes the command line");
        let _nobody_reads = Out::before_settings(true, false).value(&failure.to_json());
    }
}

/// Returns all flags that were given, as settings.
fn flags(args: &A2aArgs, global: &Global) -> Vec<(&'static str, String)> {
    let mut flags = args.options.given_settings();
    if global.json && args.options.output != Some(OutputFormat::Text) {
        flags.push(("output", "json".to_owned()));
    }
    let mut flag = |name, value: Option<String>| flags.extend(value.map(|value| (name, value)));
    let yes = |is_on: bool| is_on.then(|| "true".to_owned());
    let number = |number: Option<u32>| number.map(|number| number.to_string());
    match &args.command {
        A2aCommand::Send(args) => {
            flag("task-id", args.task_id.clone());
            flag("context-id", args.context_id.clone());
            flag("async", yes(args.is_async));
            flag("wait", yes(args.wait));
            flag("metadata", args.metadata.clone());
            flag("history", number(args.history));
        }
        A2aCommand::Check(args) => flag("agent-card", args.url.clone()),
        A2aCommand::Auth(AuthCommand::Login(args)) => flag("client-id", args.client_id.clone()),
        A2aCommand::Task(TaskCommand::Get(args)) => {
            flag("wait", yes(args.wait));
            flag("history", number(args.history));
        }
        A2aCommand::Task(TaskCommand::List(args)) => {
            flag("context-id", args.context_id.clone());
            flag("history", number(args.history));
        }
        _ => {}
    }
    flags
}

fn carried_out(args: &A2aArgs, settings: &Settings, out: &mut Out) -> Result<Answer, Failure> {
    if let A2aCommand::Config(ConfigCommand::Show) = &args.command {
        return config::show(settings, out).map(|()| Answer::Yes);
    }
    if let A2aCommand::Auth(AuthCommand::Logout) = &args.command {
        return login::logout(settings, out).map(|()| Answer::Yes);
    }
    if settings.flag("insecure") {
        note("warning: certificates are NOT verified (--insecure): whoever answers is believed");
    }
    // Made before anything is asked, so that a wrong message asks nothing.
    let message = match &args.command {
        A2aCommand::Send(args) => Some(send::request(args, settings)?),
        _ => None,
    };
    let interrupts = Interrupts::take_over();
    Interrupts::tell_ignored();
    let runtime = runtime()?;
    let answer = runtime.block_on(async {
        let settings = &match &args.command {
            // The token of an earlier login is not shown to get another one.
            A2aCommand::Auth(_) => settings.clone(),
            _ => login::with_kept_token(settings).await?,
        };
        let recorder = match settings.text("record") {
            Some(dir) => Some(Arc::new(Recorder::open(Path::new(dir)).await?)),
            None => None,
        };
        let observer = ExchangeObserver::over(settings, recorder.clone());
        let known = RefCell::new(None);
        let work = worked(args, message, settings, observer, &known, out);
        let done = tokio::select! {
            biased;
            done = work => done.map_err(|failure| failure.cleaned(&redactor(settings))),
            problem = interrupts.first("") => Err(interrupted(&problem, settings, known.borrow().as_deref())),
        };
        let closed = match &recorder {
            Some(recorder) => recorder.close(done.is_ok()).await,
            None => Ok(()),
        };
        let answer = done?;
        closed.map(|()| answer)
    });
    runtime.shutdown_background();
    answer
}

/// The failure of a command that a signal ended.
fn interrupted(problem: &Problem, settings: &Settings, task: Option<&str>) -> Failure {
    let agent = settings.text("agent-card").unwrap_or_default();
    let hint = match task {
        Some(task) => {
            let (agent, task) = (shell_word(agent), shell_word(task));
            format!(
                "the task goes on: `taskreel a2a task get --wait -a {agent} {task}` waits on, `task cancel` ends it"
            )
        }
        None => "run the same command again; a message that was sent may have been taken".to_owned(),
    };
    Failure { exit: problem.code, ..Failure::interrupted(hint) }
}

async fn worked(
    args: &A2aArgs,
    message: Option<taskreel_http::a2a::SendRequest>,
    settings: &Settings,
    observer: Option<Arc<dyn Observer>>,
    known: &RefCell<Option<String>>,
    out: &mut Out,
) -> Result<Answer, Failure> {
    if let A2aCommand::Card(CardCommand::Get(args)) = &args.command {
        return cards::get(args, settings, observer, out).await.map(|()| Answer::Yes);
    }
    if let A2aCommand::Auth(AuthCommand::Login(args)) = &args.command {
        let found = find_card(settings, observer).await?;
        return login::login(args, &found, settings, out).await.map(|()| Answer::Yes);
    }
    if let A2aCommand::Check(args) = &args.command {
        return check::check(args, settings, observer, out).await;
    }
    let agent = Agent::connect(settings, observer).await?;
    let bounds = Bounds::from_settings(settings);
    let turn = Turn { agent: &agent, settings, bounds, known, sends: message.is_some() };
    match (&args.command, message) {
        (A2aCommand::Send(_), Some(message)) => send::send(message, &turn, out).await?,
        (A2aCommand::Task(command), _) => match command {
            TaskCommand::Get(args) => tasks::get(&args.id, &turn, out).await?,
            TaskCommand::Cancel(args) => tasks::cancel(&args.id, &turn, out).await?,
            TaskCommand::List(args) => tasks::list(args, &turn, out).await?,
            TaskCommand::Subscribe(args) => tasks::subscribe(&args.id, &turn, out).await?,
            TaskCommand::Download(args) => download::download(args, &turn, out).await?,
            TaskCommand::PushConfig(command) => push::push(command, &turn, out).await?,
        },
        _ => {}
    }
    Ok(Answer::Yes)
}
