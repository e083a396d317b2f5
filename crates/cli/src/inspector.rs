//! `inspect`: the pages of a log for a browser, until a signal; and `report`, which writes some of them into a file.

pub(crate) mod backend;
pub(crate) mod report;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use proto_events::json;
use proto_events::json::JsonText;
use taskreel_http::{Access, AccessError, Guard, HeadFile, InspectedLog, Inspector, Mounted, Server};

use crate::args::Global;
use crate::args::inspect::InspectArgs;
use crate::dirs;
use crate::opened_log::{LogLocation, OpenedLog};
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_NO, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, note};
use crate::signals::{Interrupts, runtime};
use crate::watch::{LogWatch, Shared};

/// The time within which the look at the end of the log ends.
const WATCH_ENDS_WITHIN: Duration = Duration::from_secs(1);

/// The place of the pages.
const PLACE: &str = "/inspect";

pub(crate) fn inspect(args: &InspectArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let addresses = addresses(args)?;
    let access = access(args, &addresses)?;
    // Held to the end of the command, with the control backend: what reads a server may not be dropped on a thread of the pages, which must not
    // wait.
    let opened = OpenedLog::new(&args.from, global)?;
    let backend = args
        .allow_control
        .then(|| backend::open_backend(&args.from.server, &dirs::to_read(global)))
        .transpose()?;
    let _held = backend.clone();
    let other = args.with.as_ref().map(|path| OpenedLog::file(path)).transpose()?;
    let runtime = runtime()?;
    let interrupts = Interrupts::take_over();
    Interrupts::tell_ignored();
    let followed = FollowedLog::start(&opened, global);
    let done = runtime.block_on(async {
        let mut pages = Inspector::new(followed.inspected(&opened));
        if let Some(backend) = backend {
            pages = pages.allow_control(backend);
        }
        if let Some(other) = &other {
            pages = pages.beside(inspected(other));
        }
        let handlers = Mounted::new().mount(PLACE, Arc::new(pages));
        let guard = Guard::new(access, Arc::new(handlers));
        let serving = Server::new().workers(2).mount("/", Arc::new(guard)).start(addresses.as_slice()).await;
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
    drop(followed);
    done.map(|()| Answer::Yes)
}

/// The log of the pages, which go on by themselves when the program that writes it ends, and when one opens it.
struct FollowedLog {
    shared: Shared,
    is_over: Arc<AtomicBool>,
    watching: Option<JoinHandle<()>>,
}

impl FollowedLog {
    fn start(opened: &OpenedLog, global: &Global) -> Self {
        let mut followed = Self { shared: Shared::new(opened), is_over: Arc::default(), watching: None };
        let watch = LogWatch::new(followed.shared.clone(), opened.clone(), global.clone(), Instant::now());
        let is_over = Arc::clone(&followed.is_over);
        let started =
            Builder::new().name("inspect-watch".to_owned()).spawn(move || watch.run_until(&is_over));
        match started {
            Ok(watching) => followed.watching = Some(watching),
            Err(error) => {
                note(&format!("note: the pages stay with the program that has the log open now: {error}"));
            }
        }
        followed
    }

    fn inspected(&self, opened: &OpenedLog) -> InspectedLog {
        let shared = self.shared.clone();
        let log = InspectedLog::new(Arc::new(self.shared.clone()), opened.name.clone());
        let log = with_commands(log, opened);
        match &opened.place {
            LogLocation::Dir(_, Some(_)) => log.used_now(move || shared.now().1),
            _ => log.used(opened.used),
        }
    }
}

impl Drop for FollowedLog {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        let Some(watching) = self.watching.take() else { return };
        watching.thread().unpark();
        // Its private copy is removed when it ends; one that is being made of a large log is not waited for.
        let began = Instant::now();
        while !watching.is_finished() && began.elapsed() < WATCH_ENDS_WITHIN {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
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

/// Returns a log as it is, for a report or beside another one.
fn inspected(opened: &OpenedLog) -> InspectedLog {
    let log = InspectedLog::new(Arc::clone(&opened.reader), opened.name.clone());
    with_commands(log.used(opened.used), opened)
}

/// Returns the log with the way to type commands about it, and with what is to be known of it.
fn with_commands(log: InspectedLog, opened: &OpenedLog) -> InspectedLog {
    let typed = Arc::clone(&opened.typed);
    let log = log.typed(move |command| typed(command));
    let log = match (&opened.place, opened.server.clone()) {
        (LogLocation::Dir(dir, _), _) => log.in_directory(dir),
        (_, Some(server)) => log.with_head(move || {
            let about = server.about_now().map_err(|error| error.to_string())?;
            Ok(about.head.map(|head| HeadFile { head, written: None }))
        }),
        _ => log,
    };
    match &opened.note {
        Some(note) => log.noted(note.clone()),
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
