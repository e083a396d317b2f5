//! The ports of `serve`: the one of the agents, and that of the registry if it has one of its own. Both check their callers
//! by the same rules.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;

use proto_events::json;
use proto_events::json::JsonText;
use proto_events::model::AgentCard;
use taskreel::System;
#[cfg(feature = "a2a")]
use taskreel_http::A2a;
use taskreel_http::protolink::Registration;
use taskreel_http::{
    Access, Counted, Face, Guard, LiveApi, Mounted, Ops, Protolink, Refusals, Registry, RegistryFace,
    Requests, ServeError, Server, Serving,
};

use crate::args::serving::ServeArgs;
use crate::print::problem::{EXIT_NO, EXIT_USAGE, Problem};
use crate::print::screen::Screen;

/// The name of the registry of agents.
const REGISTRY: &str = "main";

/// The option with the address of the agents.
const LISTEN: &str = "--listen";

/// The option with the address of the registry.
const REGISTRY_LISTEN: &str = "--registry-listen";

/// The addresses at which a server listens.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// The addresses of the agents.
    pub(crate) agents: Vec<SocketAddr>,
    /// The addresses of the registry; none if it has no port of its own.
    pub(crate) registry: Vec<SocketAddr>,
}

impl Addresses {
    /// Returns the addresses that the arguments name.
    ///
    /// # Errors
    /// [`Problem`] if one is none.
    pub(crate) fn of(args: &ServeArgs) -> Result<Self, Problem> {
        let agents = resolved(&args.listen)?;
        let registry = args.registry_listen.as_deref().map(resolved).transpose()?.unwrap_or_default();
        Ok(Self { agents, registry })
    }

    /// Returns an address that other machines reach, if there is one.
    pub(crate) fn open(&self) -> Option<&SocketAddr> {
        self.agents.iter().chain(&self.registry).find(|address| !address.ip().is_loopback())
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
    agents: Serving,
    registry: Option<Serving>,
    ops: Ops,
    protolink: Protolink,
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
        let faces = Mounted::new()
            .face("/", Arc::new(ops.clone()))
            .face("/api", Arc::new(LiveApi::new(system)))
            .face("/", Arc::new(RegistryFace::new(registry.clone())));
        let faces = with_inspector(faces, system, args);
        let faces = with_a2a(faces, system, args, &access).face("/", Arc::new(protolink.clone()));
        // The rules are put together for the agents' port; that of the registry is beside it.
        let access = if are_local(&addresses.agents) { access.only_local_hosts() } else { access };
        let guard = Guard::counting(access, Arc::new(faces), refusals);
        let alone = Mounted::new()
            .face("/", Arc::new(ops.clone()))
            .face("/", Arc::new(RegistryFace::alone(registry)));
        let alone = guard.beside(Arc::new(alone), are_local(&addresses.registry));
        let counted = |guard: Guard| -> Arc<dyn Face> {
            Arc::new(Counted::new(Arc::new(guard), Arc::clone(&requests)))
        };
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
        Ok(Self { agents, registry, ops, protolink })
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
    pub(crate) fn announce(&self, is_tls: bool, screen: &mut Screen) -> Result<(), Problem> {
        let scheme = if is_tls { "https" } else { "http" };
        let of_agents = self.agents.addresses().iter().map(|address| (address, false));
        let of_registry = self.registry.iter().flat_map(Serving::addresses).map(|address| (address, true));
        for (address, is_registry) in of_agents.chain(of_registry) {
            let url = format!("{scheme}://{address}");
            if screen.json {
                let line = json!({
                    "schema": "taskreel.serve/1",
                    "url": url,
                    "address": address.ip().to_string(),
                    "port": u64::from(address.port()),
                    "face": if is_registry { "registry" } else { "agents" },
                });
                screen.json_line(&JsonText::from(line))?;
            } else if is_registry {
                screen.line(&format!("registry at {url}"))?;
            } else {
                screen.line(&format!("listening at {url}"))?;
            }
        }
        screen.flush()
    }

    /// Waits until a port has ended by itself, and returns the reason. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> String {
        let ended = match &mut self.registry {
            None => self.agents.ended().await,
            Some(registry) => tokio::select! {
                ended = self.agents.ended() => ended,
                ended = registry.ended() => ended,
            },
        };
        ended.map_or_else(|error| error.to_string(), |()| "it ended by itself".to_owned())
    }

    /// Notes that the ports are about to end: `/readyz` says so from now on.
    pub(crate) fn ends(&self) {
        self.ops.ends();
    }

    /// Stops the ports in order, all within one grace time.
    ///
    /// # Errors
    /// [`Problem`] if one had failed before.
    pub(crate) async fn stop(self) -> Result<(), Problem> {
        let registry = async {
            match self.registry {
                Some(registry) => registry.stop().await,
                None => Ok(()),
            }
        };
        let (agents, registry) = tokio::join!(self.agents.stop(), registry);
        agents.and(registry).map_err(|error| not_served(&error, LISTEN))
    }
}

#[cfg(feature = "inspector")]
fn with_inspector(faces: Mounted, system: &System, args: &ServeArgs) -> Mounted {
    if args.no_inspector {
        return faces;
    }
    faces.face("/inspect", Arc::new(taskreel_http::Inspector::of(system)))
}

#[cfg(not(feature = "inspector"))]
fn with_inspector(faces: Mounted, _: &System, _: &ServeArgs) -> Mounted {
    faces
}

#[cfg(feature = "a2a")]
fn with_a2a(faces: Mounted, system: &System, args: &ServeArgs, access: &Access) -> Mounted {
    if !args.a2a {
        return faces;
    }
    let face = A2a::new(system.clone());
    let face = match args.public_url.as_deref() {
        Some(url) => face.url(url),
        None => face,
    };
    faces.face("/", Arc::new(if access.authenticates() { face.secured() } else { face }))
}

#[cfg(not(feature = "a2a"))]
fn with_a2a(faces: Mounted, _: &System, _: &ServeArgs, _: &Access) -> Mounted {
    faces
}

async fn started(
    server: &Server,
    face: Arc<dyn Face>,
    addresses: &[SocketAddr],
    option: &str,
) -> Result<Serving, Problem> {
    let serving = server.clone().face("/", face).start(addresses).await;
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
