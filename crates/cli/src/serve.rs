//! `serve`: the demo's tools over HTTP, until a signal.

pub(crate) mod access;
pub(crate) mod notify;
pub(crate) mod ports;
pub(crate) mod registry_entries;
pub(crate) mod reopen;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use taskreel::System;
use taskreel_http::protolink::Registration;
use taskreel_http::{Access, Server};

use crate::args::Global;
use crate::args::serve::ServeArgs;
use crate::dirs::LOG_DIR;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_NO, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, count, note};
use crate::run::read_script;
use crate::serve::notify::Notify;
use crate::serve::ports::{Addresses, Ports};
use crate::serve::registry_entries::RegistryEntries;
use crate::serve::reopen::kept_open;
use crate::signals::{Interrupts, runtime};
use crate::{dirs, tools};

/// The least time that calls in flight have once the last request has ended.
const CALLS_WITHIN: Duration = Duration::from_millis(500);

/// The advice after a signal that came before the server was ready.
const NOT_BEGUN: &str = "run the same command again: nothing was served";

pub(crate) fn serve(args: &ServeArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let addresses = Addresses::from_args(args)?;
    let access = access::access_rules(args, &addresses)?;
    let registering = RegistryEntries::new(args, &addresses.agents)?;
    let script = args.script.as_deref().map(read_script).transpose()?;
    let server = server(args)?;
    let runtime = runtime()?;
    let interrupts = Interrupts::take_over();
    Interrupts::tell_ignored();
    let dir = dirs::to_write(global, LOG_DIR);
    let store = Arc::new(dirs::open_or_make(&dir, args.log)?);
    let done = runtime.block_on(async {
        let mut builder = System::builder(&dir).log(store);
        if let Some(script) = script {
            builder = builder.infer(script);
        }
        if args.stateless {
            builder = builder.stateless();
        }
        let builder = tools::register(builder, Duration::ZERO, &dir);
        let system = builder.start().await.map_err(|error| Problem::system(&error, None))?;
        let ended = serve_until_signal(
            &system,
            (access, registering),
            server,
            (args, &addresses),
            &interrupts,
            screen,
        )
        .await;
        let left = ended.as_ref().map_or(CALLS_WITHIN, End::calls_within);
        let stopped = stop(system, left).await;
        ended?;
        stopped
    });
    runtime.shutdown_background();
    done.map(|()| Answer::Yes)
}

/// The end of serving: the moment until which calls in flight may go on.
struct End(Instant);

impl End {
    fn calls_within(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now()).max(CALLS_WITHIN)
    }
}

async fn serve_until_signal(
    system: &System,
    (access, registering): (Access, RegistryEntries),
    server: Server,
    (args, addresses): (&ServeArgs, &Addresses),
    interrupts: &Interrupts,
    screen: &mut Screen,
) -> Result<End, Problem> {
    if let Some(problem) = interrupts.now(NOT_BEGUN) {
        return Err(problem);
    }
    let mut ports = Ports::open(system, access, &server.grace(args.grace), addresses, args).await?;
    let notify = Notify::from_env();
    if let Err(problem) = ports.announce(is_tls(args), screen) {
        // Without a reader of the address nobody can be served.
        let _ = ports.stop().await;
        return Err(problem);
    }
    let scheme = if is_tls(args) { "https" } else { "http" };
    let registrations = registering.start(args, &ports, &format!("{scheme}://{}", ports.address()))?;
    notify.ready(&ports.address().to_string());
    let is_reopening = AtomicBool::new(false);
    tokio::select! {
        _signal = interrupts.first("") => {}
        why = ports.wait_ended() => {
            return Err(Problem::new(EXIT_NO, "the server has ended", why, "run the same command again"));
        }
        () = notify.watch(system, &is_reopening) => {}
        () = kept_open(system, &is_reopening) => {}
    }
    let end = End(Instant::now() + args.grace);
    ports.start_stopping();
    notify.stopping();
    // Clients are told to go elsewhere while those that are here are answered.
    let leaving = futures_util::future::join_all(registrations.into_iter().map(Registration::stop));
    let (stopped, _) = tokio::join!(ports.stop(), leaving);
    stopped?;
    Ok(end)
}

/// Stops the system in order: the log ends with `Stopped`.
async fn stop(system: System, within: Duration) -> Result<(), Problem> {
    let left = system.shutdown_within(within).await.map_err(|error| Problem::system(&error, None))?;
    if !left.interrupted.is_empty() {
        let calls = count(left.interrupted.len() as u64, "call", "calls");
        note(&format!("{calls} in flight did not end in time; the next start handles them as after a crash"));
    }
    Ok(())
}

#[cfg(feature = "tls")]
fn server(args: &ServeArgs) -> Result<Server, Problem> {
    let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(Server::new()) };
    let config = taskreel_http::server_config(certificate, key).map_err(|error| {
        let hint = "give a certificate chain and its key, both as PEM files that this user can read";
        Problem::new(EXIT_USAGE, "TLS cannot be used", error.to_string(), hint)
    })?;
    Ok(Server::new().tls(config))
}

#[cfg(not(feature = "tls"))]
fn server(_: &ServeArgs) -> Result<Server, Problem> {
    Ok(Server::new())
}

#[cfg(feature = "tls")]
fn is_tls(args: &ServeArgs) -> bool {
    args.tls_cert.is_some()
}

#[cfg(not(feature = "tls"))]
fn is_tls(_: &ServeArgs) -> bool {
    false
}
