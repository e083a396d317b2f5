//! The ports of `serve`: the one of the agents, and the ports of gRPC and of the registry if they have one of their own. All check
//! their callers by the same rules.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::AgentCard;
use taskreel::System;
#[cfg(feature = "a2a")]
use taskreel_http::A2a;
#[cfg(feature = "a2a")]
use taskreel_http::a2a::CardKey;
use taskreel_http::protolink::Registration;
use taskreel_http::{
    Access, CountedHandler, Guard, HttpHandler, LiveApi, Mounted, Ops, Protolink, Refusals, Registry,
    RegistryHandler, Requests, RunningServer, ServeError, Server,
};

use crate::args::serve::ServeArgs;
use crate::print::problem::{EXIT_NO, EXIT_USAGE, Problem};
use crate::print::screen::Screen;

/// The deliveries to webhooks.
#[cfg(feature = "a2a")]
type Push = taskreel_http::a2a::PushDeliveries;

/// The deliveries to webhooks, which do not exist here.
#[cfg(not(feature = "a2a"))]
type Push = std::convert::Infallible;

/// The name of the registry of agents.
const REGISTRY: &str = "main";

/// The option with the address of the agents.
const LISTEN: &str = "--listen";

/// The option with the address of the registry.
const REGISTRY_LISTEN: &str = "--registry-listen";

/// The option with the address of gRPC.
#[cfg(feature = "grpc")]
const GRPC_LISTEN: &str = "--grpc-listen";

/// The addresses at which a server listens.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// The addresses of the agents.
    pub(crate) agents: Vec<SocketAddr>,
    /// The addresses of the registry; none if it has no port of its own.
    pub(crate) registry: Vec<SocketAddr>,
    /// The addresses of gRPC; none if it is not served.
    pub(crate) grpc: Vec<SocketAddr>,
}

impl Addresses {
    /// Returns the addresses that the arguments name.
    ///
    /// # Errors
    /// [`Problem`] if one is not valid.
    pub(crate) fn from_args(args: &ServeArgs) -> Result<Self, Problem> {
        let agents = resolved(&args.listen)?;
        let registry = args.registry_listen.as_deref().map(resolved).transpose()?.unwrap_or_default();
        #[cfg(feature = "grpc")]
        let grpc = args.grpc_listen.as_deref().map(resolved).transpose()?.unwrap_or_default();
        #[cfg(not(feature = "grpc"))]
        let grpc = Vec::new();
        Ok(Self { agents, registry, grpc })
    }

    /// Returns an address that other machines reach, if there is one.
    pub(crate) fn open(&self) -> Option<&SocketAddr> {
        self.agents.iter().chain(&self.registry).chain(&self.grpc).find(|address| !address.ip().is_loopback())
    }
}

/// Whether only this machine reaches these addresses.
fn are_local(addresses: &[SocketAddr]) -> bool {
    addresses.iter().all(|address| address.ip().is_loopback())
}

fn resolved(listen: &str) -> Result<Vec<SocketAddr>, Problem> {
    let wrong = |why: String| {
        let hint = "use an address and a port, such as 127.0.0.1:8080 or [::1]:8080";
        Problem::new(EXIT_USAGE, format!("cannot listen at {listen}"), why, hint)
    };
    let found: Vec<SocketAddr> =
        listen.to_socket_addrs().map_err(|error| wrong(error.to_string()))?.collect();
    if found.is_empty() { Err(wrong("the name has no address".to_owned())) } else { Ok(found) }
}

/// The ports that answer.
#[derive(Debug)]
pub(crate) struct Ports {
    agents: RunningServer,
    registry: Option<RunningServer>,
    grpc: Option<RunningServer>,
    ops: Ops,
    protolink: Protolink,
    push: Option<Push>,
}

impl Ports {
    /// Begins to answer. `server` has the settings of each port.
    ///
    /// # Errors
    /// [`Problem`] if a port cannot be had; none answers then.
    pub(crate) async fn open(
        system: &System,
        access: Access,
        server: &Server,
        addresses: &Addresses,
        args: &ServeArgs,
    ) -> Result<Self, Problem> {
        let (requests, refusals) = (Arc::<Requests>::default(), Arc::<Refusals>::default());
        let ops = Ops::new(system.clone(), Arc::clone(&requests), Arc::clone(&refusals));
        let registry = Registry::new(system, REGISTRY).map_err(|error| Problem::system(&error, None))?;
        let protolink = Protolink::new(system.clone());
        let protolink = match args.public_url.as_deref() {
            Some(url) => protolink.url(url),
            None => protolink,
        };
        let handlers = Mounted::new()
            .mount("/", Arc::new(ops.clone()))
            .mount("/api", Arc::new(LiveApi::new(system)))
            .mount("/", Arc::new(RegistryHandler::new(registry.clone())));
        let handlers = with_inspector(handlers, system, args);
        #[cfg(feature = "a2a")]
        let (a2a, push) = a2a(system, args, &access)?;
        #[cfg(not(feature = "a2a"))]
        let push = None;
        #[cfg(feature = "a2a")]
        let handlers = match &a2a {
            Some(handler) => handlers.mount("/", Arc::new(handler.clone())),
            None => handlers,
        };
        let handlers = handlers.mount("/", Arc::new(protolink.clone()));
        // The rules are put together for the agents' port; that of the registry is beside it.
        let access = if are_local(&addresses.agents) { access.only_local_hosts() } else { access };
        let guard = Guard::counting(access, Arc::new(handlers), refusals);
        let alone = Mounted::new()
            .mount("/", Arc::new(ops.clone()))
            .mount("/", Arc::new(RegistryHandler::alone(registry)));
        let alone = guard.beside(Arc::new(alone), are_local(&addresses.registry));
        let counted = |guard: Guard| -> Arc<dyn HttpHandler> {
            Arc::new(CountedHandler::new(Arc::new(guard), Arc::clone(&requests)))
        };
        #[cfg(feature = "grpc")]
        let grpc = match a2a.filter(|_| !addresses.grpc.is_empty()) {
            Some(a2a) => {
                let handler = counted(guard.beside(Arc::new(a2a.grpc()), are_local(&addresses.grpc)));
                Some(started_grpc(server, handler, &addresses.grpc, &a2a, args).await?)
            }
            None => None,
        };
        #[cfg(not(feature = "grpc"))]
        let grpc = None;
        // What has begun is dropped with the reason why another port is not there: nothing was asked of it.
        let agents = started(server, counted(guard), &addresses.agents, LISTEN).await?;
        let registry = match addresses.registry.as_slice() {
            [] => None,
            own => match started(server, counted(alone), own, REGISTRY_LISTEN).await {
                Ok(serving) => Some(serving),
                Err(problem) => {
                    // The reason why the other port is not there counts more than how this one ends.
                    let _ = agents.stop().await;
                    return Err(problem);
                }
            },
        };
        Ok(Self { agents, registry, grpc, ops, protolink, push })
    }

    /// Returns the cards of the agents, which clients reach at this address unless another one is public.
    pub(crate) fn cards(&self, url: &str) -> Vec<AgentCard> {
        self.protolink.cards(url)
    }

    /// Shows the figures of a registration.
    pub(crate) fn show(&self, registration: &Registration) {
        self.ops.show(registration.watch());
    }

    /// Returns the address of the agents: the first one, if they have several.
    pub(crate) fn address(&self) -> SocketAddr {
        self.agents.address()
    }

    /// Prints where the ports are, so that a program can wait for it.
    ///
    /// # Errors
    /// [`Problem`] if nobody reads it.
    pub(crate) fn announce<'a>(&'a self, is_tls: bool, screen: &mut Screen) -> Result<(), Problem> {
        let scheme = if is_tls { "https" } else { "http" };
        let of_agents = self.agents.addresses().iter().map(|address| (address, "agents"));
        let of = |serving: &'a Option<RunningServer>, handler: &'static str| {
            serving.iter().flat_map(RunningServer::addresses).map(move |address| (address, handler))
        };
        for (address, handler) in
            of_agents.chain(of(&self.registry, "registry")).chain(of(&self.grpc, "grpc"))
        {
            let url = format!("{scheme}://{address}");
            if screen.json {
                let line = json!({
                    "schema": "taskreel.serve/1",
                    "url": url,
                    "address": address.ip().to_string(),
                    "port": u64::from(address.port()),
                    "face": handler,
                });
                screen.json_line(&JsonText::from(line))?;
                continue;
            }
            screen.line(&match handler {
                "agents" => format!("listening at {url}"),
                // Clients of gRPC take a host and a port.
                "grpc" => format!("gRPC at {address}"),
                _ => format!("{handler} at {url}"),
            })?;
        }
        screen.flush()
    }

    /// Waits until a port has ended by itself, and returns the reason. Cancel-safe.
    pub(crate) async fn wait_ended<'a>(&'a mut self) -> String {
        let of = |serving: &'a mut Option<RunningServer>| async {
            match serving {
                Some(serving) => serving.wait_ended().await,
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            ended = self.agents.wait_ended() => ended,
            ended = of(&mut self.registry) => ended,
            ended = of(&mut self.grpc) => ended,
        };
        ended.map_or_else(|error| error.to_string(), |()| "it ended by itself".to_owned())
    }

    /// Notes that the ports are about to end: `/readyz` says so from now on.
    pub(crate) fn start_stopping(&self) {
        self.ops.start_stopping();
    }

    /// Stops the ports in order, all within one grace time.
    ///
    /// # Errors
    /// [`Problem`] if one had failed before.
    pub(crate) async fn stop(self) -> Result<(), Problem> {
        let of = |serving: Option<RunningServer>| async {
            match serving {
                Some(serving) => serving.stop().await,
                None => Ok(()),
            }
        };
        let (agents, registry, grpc) = tokio::join!(self.agents.stop(), of(self.registry), of(self.grpc));
        if let Some(push) = self.push {
            stop_push(push).await;
        }
        agents.and(registry).and(grpc).map_err(|error| not_served(&error, LISTEN))
    }
}

#[cfg(feature = "inspector")]
fn with_inspector(handlers: Mounted, system: &System, args: &ServeArgs) -> Mounted {
    if args.no_inspector {
        return handlers;
    }
    let pages = taskreel_http::Inspector::from_system(system);
    let pages = if args.allow_control { pages.allow_control(Arc::new(system.clone())) } else { pages };
    handlers.mount("/inspect", Arc::new(pages))
}

#[cfg(not(feature = "inspector"))]
fn with_inspector(handlers: Mounted, _: &System, _: &ServeArgs) -> Mounted {
    handlers
}

#[cfg(feature = "a2a")]
fn a2a(system: &System, args: &ServeArgs, access: &Access) -> Result<(Option<A2a>, Option<Push>), Problem> {
    if !args.a2a {
        return Ok((None, None));
    }
    let push = match (args.no_push, args.push_loopback) {
        (true, _) => None,
        (false, is_local) => {
            let settings = taskreel_http::a2a::Push::new();
            let settings = if is_local { settings.allow_loopback() } else { settings };
            let hint = "check the certificates of this system, or give --no-push";
            let problem = |error: taskreel_http::protolink::ClientError| {
                Problem::new(EXIT_NO, "webhooks cannot be called", error.to_string(), hint)
            };
            Some(settings.start(system).map_err(problem)?)
        }
    };
    let handler = A2a::new(system.clone());
    let handler = match &push {
        Some(push) => handler.push(push),
        None => handler,
    };
    let handler = match args.public_url.as_deref() {
        Some(url) => handler.url(url),
        None => handler,
    };
    let mut handler = handler.access(access);
    if !args.a2a_public_skill.is_empty() {
        handler = handler.public_skills(args.a2a_public_skill.clone());
    }
    if let Some(path) = &args.a2a_card_key {
        let key = CardKey::from_file(path).map_err(|error| {
            let hint =
                "give a private key in PEM, such as `openssl genpkey -algorithm ed25519` makes".to_owned();
            Problem::new(EXIT_USAGE, "the cards cannot be signed", error.to_string(), hint)
        })?;
        handler = handler.card_key(match &args.a2a_card_jku {
            Some(url) => key.jku(url),
            None => key,
        });
    }
    Ok((Some(handler), push))
}

/// Begins to answer over gRPC, and names the port in the agents' cards.
#[cfg(feature = "grpc")]
async fn started_grpc(
    server: &Server,
    handler: Arc<dyn HttpHandler>,
    addresses: &[SocketAddr],
    a2a: &A2a,
    args: &ServeArgs,
) -> Result<RunningServer, Problem> {
    let serving = server.clone().mount("/", handler).start_grpc(addresses).await;
    let serving = serving.map_err(|error| not_served(&error, GRPC_LISTEN))?;
    let bound = serving.address();
    // A host of the public address is the one that clients reach.
    let is_public = args.public_url.is_some();
    a2a.grpc_at(&if is_public { format!("0.0.0.0:{}", bound.port()) } else { bound.to_string() });
    Ok(serving)
}

/// Ends the deliveries to webhooks.
#[cfg(feature = "a2a")]
async fn stop_push(push: Push) {
    push.stop().await;
}

/// Ends the deliveries to webhooks, which do not exist here.
#[cfg(not(feature = "a2a"))]
async fn stop_push(push: Push) {
    match push {}
}

async fn started(
    server: &Server,
    handler: Arc<dyn HttpHandler>,
    addresses: &[SocketAddr],
    option: &str,
) -> Result<RunningServer, Problem> {
    let serving = server.clone().mount("/", handler).start(addresses).await;
    serving.map_err(|error| not_served(&error, option))
}

fn not_served(error: &ServeError, option: &str) -> Problem {
    let hint = match error {
        ServeError::Bind { .. } => {
            format!("stop the program that has the port, or give another one with {option}")
        }
        _ => "check the limits of this user (ulimit -a), then run the same command again".to_owned(),
    };
    Problem::new(EXIT_NO, "the log could not be served", error.to_string(), hint)
}
