//! The face: a path leads to a binding, or to the card.

use std::sync::Arc;

use http::Method;
use taskreel::{BoxFuture, System};

use crate::a2a::asking::Settings;
use crate::a2a::bindings::request::Head;
use crate::a2a::bindings::rest::Called;
use crate::a2a::bindings::route::{Route, Target, route};
use crate::a2a::bindings::{rest, rpc};
use crate::a2a::card;
use crate::a2a::failure::Failure;
use crate::face::connection::base_url;
use crate::face::message::{Face, Request, Response};
use crate::face::respond;

/// A2A, versions 1.0 and 0.3, for the agents of a system: the default agent at the root, every agent at `/<name>` and
/// `/agents/<name>`. JSON-RPC is posted to that place itself, REST has its paths under it, and the card is at
/// `/.well-known/agent-card.json` there.
///
/// It takes no path of [`Protolink`](crate::Protolink)'s, so that both are mounted at the same place, this one first:
///
/// ```
/// # use std::sync::Arc;
/// # use taskreel::System;
/// use taskreel_http::{A2a, Protolink, Server};
///
/// # async fn run(system: System) -> Result<(), taskreel_http::ServeError> {
/// let serving = Server::new()
///     .face("/", Arc::new(A2a::new(system.clone())))
///     .face("/", Arc::new(Protolink::new(system)))
///     .start("127.0.0.1:0")
///     .await?;
/// # serving.stop().await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct A2a {
    system: System,
    settings: Arc<Settings>,
}

impl A2a {
    /// Returns the face of a system's agents.
    pub fn new(system: System) -> Self {
        Self { system, settings: Arc::default() }
    }

    /// Sets the address under which clients reach the root, for the agents' cards. By default it is the one that the request
    /// names, which behind a proxy may be another one.
    #[must_use]
    pub fn url(self, url: &str) -> Self {
        let url = Some(url.trim_end_matches('/').to_owned());
        Self { settings: Arc::new(Settings { url, ..Settings::clone(&self.settings) }), ..self }
    }

    /// Takes registrations of webhooks, which are told the events of tasks, and says so in the cards. Without deliveries, this
    /// agent calls no webhooks.
    #[cfg(feature = "client")]
    #[must_use]
    pub fn push(self, pushing: &crate::a2a::push::Pushing) -> Self {
        let push = Some(pushing.clone());
        Self { settings: Arc::new(Settings { push, ..Settings::clone(&self.settings) }), ..self }
    }

    /// Says in the cards that callers present a credential, because a [`Guard`](crate::Guard) stands before this face, and
    /// offers the extended card to those who do.
    #[must_use]
    pub fn secured(self) -> Self {
        Self { settings: Arc::new(Settings { is_secured: true, ..Settings::clone(&self.settings) }), ..self }
    }
}

impl Face for A2a {
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let face = self.clone();
        Box::pin(async move {
            let Some(found) = route(&face.system, request.method(), request.uri().path()) else {
                return respond::not_found();
            };
            answer(face.settings, found, request).await
        })
    }

    fn serves(&self, path: &str) -> bool {
        [Method::GET, Method::POST, Method::DELETE].iter().any(|method| self.takes(method, path))
    }

    fn takes(&self, method: &Method, path: &str) -> bool {
        route(&self.system, method, path).is_some()
    }
}

async fn answer(settings: Arc<Settings>, found: Route, request: Request) -> Response {
    let Route { system, at, target } = found;
    let (parts, body) = request.into_parts();
    let base = settings.url.clone().unwrap_or_else(|| base_url(&parts));
    let url = format!("{base}{at}");
    match target {
        Target::OtherMethod(allowed) => respond::method_not_allowed(allowed),
        Target::Card => card::response(&card::card(&system, &url, &settings), &parts.headers),
        Target::Rpc => match Head::of(parts, system, url, settings) {
            Ok(head) => rpc::answer(head, body).await,
            Err(wrong) => rpc::refused(&proto_events::json::JsonText::null(), &Failure::from(wrong)),
        },
        Target::Rest { operation, id, config, is_03 } => {
            let method = parts.method.clone();
            match Head::of(parts, system, url, settings) {
                Ok(head) => rest::answer(method, head, body, Called { operation, id, config, is_03 }).await,
                Err(wrong) => rest::refused(&Failure::from(wrong)),
            }
        }
    }
}
