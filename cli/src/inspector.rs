//! `inspect`: the pages of a log for a browser, until a signal; and `report`, which writes some of them into a file.

pub(crate) mod desk;
pub(crate) mod report;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;

use proto_events::json;
use proto_events::json::JsonText;
use taskreel_http::{Access, AccessError, Guard, InspectedLog, Inspector, Mounted, Server};
use taskreel_log::api::EventReader;
use taskreel_log::jsonl::JsonLines;
use taskreel_log::sled::{SledDamaged, is_held};
use taskreel_log::views::LogUse;

use crate::args::Global;
use crate::args::inspecting::InspectArgs;
use crate::args::source::ReadFrom;
use crate::dirs::{DEMO_DIR, LOG_DIR, ReadLog};
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_LOG, EXIT_NO, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, note};
use crate::running::{Interrupts, runtime};
use crate::{dirs, server};

/// The place of the pages.
const PLACE: &str = "/inspect";

pub(crate) fn inspect(args: &InspectArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let addresses = addresses(args)?;
    let access = access(args, &addresses)?;
    // Held to the end of the command: a reader of a server may not be dropped on a thread of the pages, which must not wait.
    let (log, reader) = opened(&args.from, global)?;
    let desk = args.allow_control.then(|| desk::of(&args.from.server, &dirs::to_read(global))).transpose()?;
    let other = args.with.as_ref().map(|path| exported(path)).transpose()?;
    let runtime = runtime()?;
    let interrupts = Interrupts::take_over();
    let done = runtime.block_on(async {
        let mut pages = Inspector::new(log);
        if let Some(desk) = desk {
            pages = pages.allow_control(desk);
        }
        if let Some((other, _)) = other {
            pages = pages.beside(other);
        }
        let faces = Mounted::new().face(PLACE, Arc::new(pages));
        let guard = Guard::new(access, Arc::new(faces));
        let serving = Server::new().workers(2).face("/", Arc::new(guard)).start(addresses.as_slice()).await;
        let serving = serving.map_err(|error| {
            let hint = "stop the program that has the port, or give another one with --listen";
            Problem::new(EXIT_NO, "the pages could not be served", error.to_string(), hint)
        })?;
        let url = format!("http://{}{PLACE}/", serving.address());
        announce(&url, serving.address(), screen)?;
        if args.open {
            open(&url);
        }
        let _signal = interrupts.first("").await;
        serving.stop().await.map_err(|error| {
            Problem::new(
                EXIT_NO,
                "the pages were not served to the end",
                error.to_string(),
                "run the same command again",
            )
        })
    });
    runtime.shutdown_background();
    drop(reader);
    done.map(|()| Answer::Yes)
}

fn addresses(args: &InspectArgs) -> Result<Vec<SocketAddr>, Problem> {
    let wrong = |why: String| {
        let hint = "use an address and a port, such as 127.0.0.1:8080 or [::1]:8080";
        Problem::new(EXIT_USAGE, format!("cannot listen at {}", args.listen), why, hint)
    };
    let found: Vec<SocketAddr> =
        args.listen.to_socket_addrs().map_err(|error| wrong(error.to_string()))?.collect();
    if found.is_empty() { Err(wrong("the name has no address".to_owned())) } else { Ok(found) }
}

/// Returns the rules by which callers are let in. On a loopback address only names of this machine are answered, so that no web page
/// reads the log under a name of its own.
fn access(args: &InspectArgs, addresses: &[SocketAddr]) -> Result<Access, Problem> {
    let rules = || -> Result<Access, AccessError> {
        let mut access = Access::open();
        if let Some(file) = &args.auth_file {
            access = access.with_file(file)?;
        }
        for host in &args.allow_host {
            access = access.allow_host(host)?;
        }
        Ok(access)
    };
    let access = rules().map_err(|error| {
        let hint = "`taskreel serve --help` describes the file";
        Problem::new(EXIT_USAGE, "callers cannot be checked", error.to_string(), hint)
    })?;
    match addresses.iter().find(|address| !address.ip().is_loopback()) {
        None => Ok(access.only_local_hosts()),
        Some(_) if access.authenticates() => Ok(access),
        Some(address) => Err(Problem::new(
            EXIT_USAGE,
            format!("refused to listen at {address}; nothing was started"),
            "other machines reach this address, and no credential is asked for",
            "give --auth-file, or listen at 127.0.0.1",
        )),
    }
}

/// Opens the log, a damaged one as far as it can be read. Returns its reader too.
fn opened(from: &ReadFrom, global: &Global) -> Result<(InspectedLog, Arc<dyn EventReader>), Problem> {
    if let Some(log) = server::connect(&from.server)? {
        let (name, options) = (log.url().to_owned(), server::options(&from.server));
        let typed = move |command: &str| format!("{} {command}{options}", dirs::program());
        let log: Arc<dyn EventReader> = Arc::new(log);
        return Ok((InspectedLog::new(Arc::clone(&log), name).typed(typed), log));
    }
    if let Some(path) = &from.file {
        return exported(path);
    }
    let dir = dirs::to_read(global);
    let used = if is_held(&dir) { LogUse::Open } else { LogUse::Closed };
    let mut told = None;
    let reader: Arc<dyn EventReader> = match dirs::open_to_read(&dir, global) {
        Ok(ReadLog::Copy(log)) => Arc::from(log as Box<dyn EventReader>),
        #[cfg(unix)]
        Ok(ReadLog::Door(log)) => Arc::from(log as Box<dyn EventReader>),
        Err(refused) if refused.code == EXIT_LOG => {
            let Ok(log) = SledDamaged::open_with(&dir, &dirs::reading(global)) else { return Err(refused) };
            told = Some(only_a_part(&refused.why));
            Arc::new(log)
        }
        Err(refused) => return Err(refused),
    };
    // Without `--data-dir` it was the first default that exists.
    let default = if Path::new(LOG_DIR).exists() { LOG_DIR } else { DEMO_DIR };
    let name = dir.display().to_string();
    let log = InspectedLog::new(Arc::clone(&reader), name).used(used);
    let log = log.typed(move |command| dirs::typed(command, &dir, default));
    Ok((noted(log, told), reader))
}

/// Opens an export, a damaged one as far as it can be read.
fn exported(path: &Path) -> Result<(InspectedLog, Arc<dyn EventReader>), Problem> {
    let mut note = None;
    let log = JsonLines::open(path).or_else(|refused| {
        // A file that is none, or is missing, cannot be read in part either.
        let log = JsonLines::open_damaged(path)?;
        note = Some(only_a_part(&refused.to_string()));
        Ok(log)
    });
    let log: Arc<dyn EventReader> = Arc::new(log.map_err(|error| Problem::export(&error, path))?);
    let (name, path) = (path.display().to_string(), path.to_owned());
    let typed = move |command: &str| dirs::typed_with(command, "--file", &path);
    let shown = InspectedLog::new(Arc::clone(&log), name).used(LogUse::Exported).typed(typed);
    Ok((noted(shown, note), log))
}

/// Says on stderr why only a part of a log is shown, and returns the words for the pages.
fn only_a_part(why: &str) -> String {
    let told = format!("The log is damaged; what can be read of it is shown: {why}");
    note(&format!("note: {told}"));
    told
}

fn noted(log: InspectedLog, note: Option<String>) -> InspectedLog {
    match note {
        Some(note) => log.noted(note),
        None => log,
    }
}

/// Prints the address, so that a person can open it and a program can wait for it.
fn announce(url: &str, address: SocketAddr, screen: &mut Screen) -> Result<(), Problem> {
    if screen.json {
        let line = json!({
            "schema": "taskreel.serve/1",
            "url": url,
            "address": address.ip().to_string(),
            "port": u64::from(address.port()),
            "face": "inspector",
        });
        screen.json_line(&JsonText::from(line))?;
    } else {
        screen.line(&format!("pages at {url}"))?;
    }
    screen.flush()
}

/// Opens an address in the browser of the user; without one, the address is printed already.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        "xdg-open"
    };
    if let Err(error) = std::process::Command::new(program).arg(url).spawn() {
        note(&format!("note: no browser could be started with {program}: {error}"));
    }
}
