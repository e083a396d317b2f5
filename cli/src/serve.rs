//! `serve`: the demo's tools over HTTP, until a signal.

pub(crate) mod access;
pub(crate) mod notify;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proto_events::json;
use proto_events::json::JsonText;
use taskreel::System;
#[cfg(feature = "a2a")]
use taskreel_http::A2a;
use taskreel_http::{
    Access, Counted, Guard, LiveApi, Ops, Protolink, Refusals, Registry, RegistryFace, Requests, ServeError,
    Server, Serving,
};
use taskreel_log::api::Durability;

use crate::args::Global;
use crate::args::serving::ServeArgs;
use crate::dirs::LOG_DIR;
use crate::print::answer::Answer;
use crate::print::problem::{EXIT_NO, EXIT_USAGE, Problem};
use crate::print::screen::{Screen, count, note};
use crate::run::read_script;
use crate::running::{Interrupts, runtime};
use crate::serve::notify::Notify;
use crate::{dirs, tools};

/// The least time that calls in flight have once the last request has ended.
const CALLS_WITHIN: Duration = Duration::from_millis(500);

/// The name of the registry of agents.
const REGISTRY: &str = "main";

/// The advice after a signal that came before the server was ready.
const NOT_BEGUN: &str = "run the same command again: nothing was served";

pub(crate) fn serve(args: &ServeArgs, global: &Global, screen: &mut Screen) -> Result<Answer, Problem> {
    let addresses = addresses(&args.listen)?;
    let access = access::of(args, &addresses)?;
    let script = args.script.as_deref().map(read_script).transpose()?;
    let server = server(args)?;
    let runtime = runtime()?;
    let interrupts = Interrupts::take_over();
    let dir = dirs::to_write(global, LOG_DIR);
    let store = Arc::new(dirs::open_or_make(&dir, args.durability.map(Durability::from))?);
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
        let ended =
            serve_until_signal(&system, access, server, (args, &addresses), &interrupts, screen).await;
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
    access: Access,
    server: Server,
    (args, addresses): (&ServeArgs, &[SocketAddr]),
    interrupts: &Interrupts,
    screen: &mut Screen,
) -> Result<End, Problem> {
    if let Some(problem) = interrupts.now(NOT_BEGUN) {
        return Err(problem);
    }
    let (requests, refusals) = (Arc::<Requests>::default(), Arc::<Refusals>::default());
    let ops = Ops::new(system.clone(), Arc::clone(&requests), Arc::clone(&refusals));
    let registry = Registry::new(system, REGISTRY).map_err(|error| Problem::system(&error, None))?;
    let server = server
        .face("/", Arc::new(ops.clone()))
        .face("/api", Arc::new(LiveApi::new(system)))
        .face("/", Arc::new(RegistryFace::new(registry)));
    let server = with_a2a(server, system, args, &access).face("/", Arc::new(Protolink::new(system.clone())));
    let server = server
        .behind(|faces| Arc::new(Guard::counting(access, faces, refusals)))
        .behind(|faces| Arc::new(Counted::new(faces, requests)))
        .grace(args.grace);
    let mut serving = server.start(addresses).await.map_err(|error| not_served(&error))?;
    let notify = Notify::from_env();
    if let Err(problem) = announce(&serving, is_tls(args), screen) {
        // Without a reader of the address nobody can be served.
        let _ = serving.stop().await;
        return Err(problem);
    }
    notify.ready(&serving.address().to_string());
    tokio::select! {
        _signal = interrupts.first("") => {}
        ended = serving.ended() => {
            let why = ended.map_or_else(|error| error.to_string(), |()| "it ended by itself".to_owned());
            return Err(Problem::new(EXIT_NO, "the server has ended", why, "run the same command again"));
        }
        () = notify.watch(system) => {}
    }
    let end = End(Instant::now() + args.grace);
    ops.ends();
    notify.stopping();
    serving.stop().await.map_err(|error| not_served(&error))?;
    Ok(end)
}

/// Prints where the server listens, so that a program can wait for it.
fn announce(serving: &Serving, is_tls: bool, screen: &mut Screen) -> Result<(), Problem> {
    let scheme = if is_tls { "https" } else { "http" };
    for address in serving.addresses() {
        let url = format!("{scheme}://{address}");
        if screen.json {
            let line = json!({
                "schema": "taskreel.serve/1",
                "url": url,
                "address": address.ip().to_string(),
                "port": u64::from(address.port()),
            });
            screen.json_line(&JsonText::from(line))?;
        } else {
            screen.line(&format!("listening at {url}"))?;
        }
    }
    screen.flush()
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

fn addresses(listen: &str) -> Result<Vec<SocketAddr>, Problem> {
    let wrong = |why: String| {
        let hint = "use an address and a port, such as 127.0.0.1:8080 or [::1]:8080";
        Problem::new(EXIT_USAGE, format!("cannot listen at {listen}"), why, hint)
    };
    let found: Vec<SocketAddr> =
        listen.to_socket_addrs().map_err(|error| wrong(error.to_string()))?.collect();
    if found.is_empty() { Err(wrong("the name has no address".to_owned())) } else { Ok(found) }
}

/// Adds A2A where it is asked for.
#[cfg(feature = "a2a")]
fn with_a2a(server: Server, system: &System, args: &ServeArgs, access: &Access) -> Server {
    if !args.a2a {
        return server;
    }
    let face = A2a::new(system.clone());
    server.face("/", Arc::new(if access.authenticates() { face.secured() } else { face }))
}

#[cfg(not(feature = "a2a"))]
fn with_a2a(server: Server, _: &System, _: &ServeArgs, _: &Access) -> Server {
    server
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

fn not_served(error: &ServeError) -> Problem {
    let hint = match error {
        ServeError::Bind { .. } => "stop the program that has the port, or give another one with --listen",
        _ => "check the limits of this user (ulimit -a), then run the same command again",
    };
    Problem::new(EXIT_NO, "the log could not be served", error.to_string(), hint)
}
